"""One configuration → a record of what was measured, or of how it failed.

The measuring happens in a process of its own (kernelcat.child), forked from one that has the imports behind it
(kernelcat.worker), so that a crash, a hang or an exhausted memory is a result and not the end of the job.
"""

import contextlib
import errno
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

from kernelcat import devices, environment, identity, recorded, samples, worker
from kernelcat.errors import KernelcatError
from kernelcat.grid import Configuration
from kernelcat.kernel import TORCH_NAMES
from kernelcat.metrics import Row

WORKFLOW = "KERNELCAT_WORKFLOW"
"""The environment variable with the process id of the workflow that a job belongs to; without it there is none."""

SKIPPED = "skipped after"
"""How the reason of a run begins that was not tried."""

_READ_AT_IMPORT = ("CUDA", "HF_", "LD_", "MKL", "NVIDIA", "OMP", "PYTHON", "PYTORCH", "TORCH", "TRITON")
"""How the environment variables begin that may change what an imported package does."""


def measure(
    configuration: Configuration,
    own_kernels: str | None,
    seconds: float,
    *,
    warm: bool = True,
    cache: str | None = None,
) -> dict:
    """The record of `configuration`, measured in a process of its own that may take `seconds`, once it has the device.

    `warm` says to fork it from the workflow's worker, which is started where there is none; without a workflow, or
    where that cannot be, it has all imports before it. `cache` is the folder that keeps compiled kernels.

    A record has `status` (of a BenchmarkRun), `reason` (one line, empty when passed), `configuration`, `observedAt`,
    `device` (its name), `environment` (a spec), `versions` (of the provider's packages and liger-kernel), for code of
    the kernel file itself its `source`, and as far as it got: `correctness`, `compileSeconds` (what the first pass took
    longer than the second), `peakMemoryBytes` (allocated, reserved, increase), `samplesMs`, `samplingSeconds` (warm-up
    included), `deviceMs` (samples without the host's part), `state` (of the device before and after); and
    `waitedSeconds`, for the device.
    Raises KernelcatError when the machine is at fault: no GPU where one was asked for.
    """
    workflow = _Process.workflow()
    arguments = (configuration.as_json(), own_kernels, str(Path(cache).resolve()) if cache else None)
    start = time.monotonic()
    with devices.held(configuration.device, workflow.sleep if workflow else time.sleep) as chosen:
        waited = time.monotonic() - start
        end = time.monotonic() + seconds
        for lifeline in (workflow if warm else None, None):  # a worker that is lost is replaced, once
            try:
                with _Measuring.started(lifeline, configuration.device, chosen, arguments, end) as measuring:
                    record, failure = measuring.followed(end, workflow)
                break
            except _WorkerLost:
                if workflow:
                    workflow.sleep(0)
        else:
            lost = "the measuring process was lost with its worker"
            record, failure = {}, {"status": "runtime_error", "reason": lost}
    if failure is None or time.monotonic() >= end:
        failure = {"status": "timeout", "reason": f"took longer than {seconds:g} s"}
    if "machine" in record:
        raise KernelcatError(record["machine"])
    if "environment" not in record:
        raise KernelcatError(f"{configuration.path}: {failure['reason']} before the device could be described")
    return failure | record | {"waitedSeconds": waited}


def exhausted(configuration: Configuration, folder: Path, conditions: str) -> dict | None:
    """The record of a configuration that is not tried, because a smaller case of it ran out of memory: no axis of that
    is larger, and nothing but axes differs. None where there is no such case.

    `folder` holds the records of the configuration's mode and provider; those made under other `conditions` (the digest
    of code and versions that a record says) do not count.
    """
    mine = configuration.as_json()
    for path in sorted(folder.glob("*.json")):
        try:
            record = recorded.load(path)
        except KernelcatError:  # says nothing, and may be the one that is to be measured again
            continue
        theirs = record["configuration"]
        axes, smaller = mine["case"]["axes"], theirs["case"]["axes"]
        if (
            record["status"] == "resource_exceeded"
            and record.get("conditions") == conditions
            and {**mine, "case": {**mine["case"], "axes": smaller}} == theirs
            and axes != smaller
            and all(smaller[name] <= size for name, size in axes.items())
        ):
            tried = Configuration.from_json(theirs).case.key
            reason = record["reason"]
            if not reason.startswith(SKIPPED):
                reason = f"{SKIPPED} {tried}, {reason}"
            kept = {key: record[key] for key in ("device", "environment", "versions", "source") if key in record}
            now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
            return kept | {
                "configuration": mine,
                "observedAt": identity.instant(now),
                "status": "resource_exceeded",
                "reason": reason,
            }
    return None


class _WorkerLost(Exception):
    """The worker has ended, and the measuring process with it."""


@dataclass(frozen=True)
class _Process:
    """A process that others depend on: its id, the time of its start, which no other process of that id shares, and a
    descriptor that is ready when it has ended."""

    pid: int
    start: str
    descriptor: int

    @staticmethod
    def of(pid: int) -> "_Process":
        """Raises OSError when there is no such process."""
        text = Path(f"/proc/{pid}/stat").read_text()
        return _Process(pid, text.rpartition(")")[2].split()[19], os.pidfd_open(pid))  # field 22 of proc(5)

    @staticmethod
    def workflow() -> "_Process | None":
        """The workflow that this job belongs to, None without one. Raises KernelcatError when it has ended."""
        if not (pid := os.environ.get(WORKFLOW, "")).isdecimal():
            return None
        try:
            return _Process.of(int(pid))
        except OSError:
            raise KernelcatError("the workflow has ended") from None

    def sleep(self, seconds: float) -> None:
        """Raises KernelcatError when the process ends meanwhile."""
        if wait([self.descriptor], seconds):
            raise KernelcatError("the workflow has ended")


@dataclass
class _Measuring:
    """A measuring process, seen from the job that asked for it."""

    control: Connection  # to the worker: its id, then its exit code
    records: Connection
    pid: int
    record: dict = field(default_factory=dict)
    exit_code: int | None = None

    @staticmethod
    @contextlib.contextmanager
    def started(
        lifeline: _Process | None, device: str, chosen: dict, arguments: tuple, end: float
    ) -> Iterator["_Measuring"]:
        """Forks one from the worker of the workflow `lifeline`, or without one from a worker for this job alone. Ends
        it at the end. Raises _WorkerLost, also when it has not begun by the time `end`."""
        with contextlib.ExitStack() as stack:
            try:
                peer = stack.enter_context(_connected(lifeline, device))
                records, sender = Pipe(duplex=False)
                stack.enter_context(records)
                with sender:
                    socket.send_fds(peer, [b" "], [sender.fileno(), 1, 2])
                control = stack.enter_context(Connection(peer.detach()))
                environ = {**os.environ, **chosen}
                control.send({"environment": environ, "folder": os.getcwd(), "arguments": arguments})
                if not control.poll(max(0.0, end - time.monotonic())):
                    raise EOFError
                measuring = _Measuring(control, records, control.recv())
            except (OSError, EOFError) as error:
                raise _WorkerLost from error
            try:
                yield measuring
            finally:
                measuring.end()

    def followed(self, end: float, workflow: _Process | None) -> tuple[dict, dict | None]:
        """The record as far as it got by the time `end`, and how the process failed if it ended before it should.

        Raises _WorkerLost, and KernelcatError when the workflow ends.
        """
        open_ends = [self.records, self.control, *([workflow.descriptor] if workflow else [])]
        while self.exit_code is None or self.records in open_ends:
            ready = wait(open_ends, max(0.0, end - time.monotonic()))
            if not ready:
                break
            if workflow and workflow.descriptor in ready:
                raise KernelcatError("the workflow has ended")
            if self.records in ready:
                try:
                    self.record |= json.loads(self.records.recv_bytes())
                except (EOFError, OSError):
                    open_ends.remove(self.records)  # it may run on, with its end closed
            elif self.control in ready:
                self._read_exit_code()
                open_ends.remove(self.control)
                end = min(end, time.monotonic() + 1)  # should something that got away hold the records open
        if self.exit_code is None:
            return self.record, None
        if self.exit_code < 0:
            how = f"was ended by signal {-self.exit_code}"
        else:
            how = f"exited with code {self.exit_code}"
        return self.record, {"status": "runtime_error", "reason": f"the measuring process {how}"}

    def end(self) -> None:
        """Ends the process and what it has started, and waits until it has ended."""
        if self.exit_code is None:
            with contextlib.suppress(OSError):
                self.control.send("end")
            with contextlib.suppress(_WorkerLost):
                self._read_exit_code()

    def _read_exit_code(self) -> None:
        try:
            self.exit_code = self.control.recv()
        except (EOFError, OSError) as error:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)  # the worker's end was the process's, but not of what it started
            raise _WorkerLost from error


def _connected(workflow: _Process | None, device: str) -> socket.socket:
    """A connection to the worker of the workflow, or to one for this process alone, which imports nothing beforehand.

    A worker is found by an abstract socket name (unix(7)), which the kernel gives to one process at a time. The name
    holds all that a worker's imports depend on, so one that has other versions is not found.
    """
    lifeline = workflow or _Process.of(os.getpid())
    variables = {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_IMPORT)}
    versions = [environment.version(package) for package in environment.LIBRARIES + ("torch",)]
    code = [path.read_text() for path in (Path(worker.__file__), Path(__file__).with_name("interpreter.py"))]
    facts = json.dumps([device, sys.executable, sorted(variables.items()), versions, code])
    digest = hashlib.sha256(facts.encode()).hexdigest()[:16]
    name = f"\0kernelcat worker {lifeline.pid} {lifeline.start} {digest}"
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            listener.listen(128)
            program = [sys.executable, str(Path(worker.__file__).parents[1] / "worker.py")]
            options = ["--listener", str(listener.fileno()), "--lifeline", str(lifeline.pid)]
            preload = ["--preload", device] if workflow else []
            # a session of its own: an interrupt from the keyboard is the workflow's to answer
            subprocess.Popen(
                [*program, *options, *preload],
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
    peer = socket.socket(socket.AF_UNIX)
    for _ in range(100):  # who has just bound the name may not listen yet
        if peer.connect_ex(name) == 0:
            break
        time.sleep(0.01)
    else:
        peer.connect(name)
    if not worker.is_ours(peer):
        raise PermissionError(errno.EPERM, "the worker is somebody else's")
    return peer


def rows(record: dict) -> list[Row]:
    """The rows of the configuration's CSV: latency in ms, on a GPU also peak memory in MB (2^20 bytes); none when it
    did not pass.

    The x of a row is the kernel's first axis; the config holds the other axes, the dtype and the scalars by name.
    """
    if record["status"] != "passed":
        return []
    configuration = Configuration.from_json(record["configuration"])
    case = configuration.case
    (x_name, x_value), *others = case.axes.items()
    common = {
        "kernel_name": configuration.kernel,
        "kernel_provider": configuration.provider,
        "kernel_operation_mode": configuration.mode,
        "x_name": x_name,
        "x_label": x_name,
        "x_value": x_value,
        "config": dict(others) | {"dtype": TORCH_NAMES[case.dtype]} | case.scalars,
        "gpu_name": record["device"],
        "timestamp": f"{record['observedAt'][:10]} {record['observedAt'][11:19]}",
        "liger_version": record["versions"]["liger-kernel"] or "",
    }
    latency = samples.summary(record["samplesMs"])
    values = {"speed": ("ms", latency["median"], latency["p20"], latency["p80"])}
    if "peakMemoryBytes" in record:
        values["memory"] = ("MB", *[record["peakMemoryBytes"]["allocated"] / 2**20] * 3)
    return [
        Row.make(metric_name=name, metric_unit=unit, y_value_50=y_50, y_value_20=y_20, y_value_80=y_80, **common)
        for name, (unit, y_50, y_20, y_80) in values.items()
    ]
