"""Failed jobs are done again by the next run.

Snakemake gives a job that fails the outputs back that it had before, where they are marked update(), but remembers it
with the inputs and params that it failed with. The next run would find those unchanged and take the former outputs for
what they make. So such outputs are marked as incomplete, like those of a job that was killed together with Snakemake.
"""

import logging


def remember(workflow) -> None:
    """Marks the outputs of the jobs of a Snakemake workflow that fail for good, in the process that its user started:
    at the next thing that Snakemake says after it has filed them, and be it that it gives up."""
    if workflow.is_main_process:
        logging.getLogger("snakemake.logging").addHandler(_Failures(workflow))


class _Failures(logging.Handler):
    def __init__(self, workflow) -> None:
        super().__init__()
        self.workflow = workflow
        self.marked: set = set()

    def emit(self, record: logging.LogRecord) -> None:
        if scheduler := self.workflow.scheduler:
            for failed in scheduler.failed - self.marked:
                self.marked.add(failed)
                for job in failed if failed.is_group() else [failed]:
                    self.workflow.persistence.started(job)
