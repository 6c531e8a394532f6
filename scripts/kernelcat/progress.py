"""A line on stderr after each measurement of a workflow: how far it is, what failed, how long the rest takes.

It hears what Snakemake tells its loggers. That is no contract, so whatever is not as expected there is passed over in
silence: a run never breaks for want of a line.
"""

import contextlib
import logging
import statistics
import sys
import time
from pathlib import Path

from kernelcat import identity, recorded, samples, show
from kernelcat.fault import one_line, printable
from kernelcat.grid import Configuration

RULE = "measure"


def follow(workflow) -> None:
    """Tells the progress of a Snakemake workflow, in the process that its user started: not in those of its jobs."""
    with contextlib.suppress(Exception):
        if workflow.is_main_process:
            logging.getLogger("snakemake.logging").addHandler(_Progress())


class _Progress(logging.Handler):
    """The records that it understands have an `event` (snakemake_interface_logger_plugins.common.LogEvent):

    - "run_info" comes once, with how many jobs each rule has in `stats`,
    - "job_info" with `jobid`, `rule_name` and `wildcards` when a job is started or submitted,
    - "job_finished" with `job_id`, and "job_error" with `jobid`, when it ends; not in a dry run, and no "job_finished"
      for those who want none (--quiet progress).
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.records: dict[int, Path] = {}  # by job
        self.done: set[int] = set()
        self.failed: set[int] = set()
        self.began: dict[int, float] = {}  # of those that run
        self.took: list[float] = []  # seconds, in the order of their ends
        self.width = 1  # how many ran at once

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            match getattr(record, "event", None):
                case "run_info":
                    self.total = record.stats.get(RULE, 0)
                case "job_info" if record.rule_name == RULE:
                    self.records[record.jobid] = Path(f"results/metrics/{record.wildcards['path']}.json")
                    self.began[record.jobid] = time.monotonic()
                    self.width = max(self.width, len(self.began))
                case "job_error" if record.jobid in self.records:
                    self.began.pop(record.jobid, None)
                    self.failed.add(record.jobid)
                case "job_finished" if record.job_id in self.records:
                    self.finished(record.job_id)

    def finished(self, job: int) -> None:
        self.took.append(time.monotonic() - self.began.pop(job))
        self.done.add(job)
        self.failed.discard(job)  # a retry may have done it
        measured = recorded.load(self.records[job])
        if measured["status"] != "passed":
            self.failed.add(job)
        parts = [f"{len(self.done)}/{self.total} measured"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        if left := self.total - len(self.done):
            parts.append(f"about {show.about(self.seconds_left(left))} left")
        print(f"{', '.join(parts)}: {_line(measured)}", file=sys.stderr, flush=True)

    def seconds_left(self, left: int) -> float:
        """By the mean of what was measured, time in a queue included. The first one counts only while it is the only
        one: it waited for the worker's imports."""
        return statistics.fmean(self.took[1:] or self.took) * left / min(self.width, left)


def _line(measured: dict) -> str:
    configuration = Configuration.from_json(measured["configuration"])
    place = [getattr(configuration, name) for name in ("kernel", "mode", "provider")]
    place += [configuration.case.key, configuration.protocol]
    if measured["status"] == "passed":
        median = samples.summary(measured["samplesMs"])["median"]
        said = f"passed {show.duration(identity.nanoseconds(median))}"
    else:
        said = one_line(f"{measured['status']}: {measured['reason']}", 160)
    return printable(f"{' '.join(place)}: {said}")
