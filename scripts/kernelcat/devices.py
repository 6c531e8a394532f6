"""One measuring process per device, whatever starts them: a lock on each GPU of this machine, and on its CPU.

A lock is a socket bound to an abstract name (unix(7)): the kernel gives a name to one process at a time and takes it
back when that ends, however it ends. No file stays behind, and it holds between workflows and users.
"""

import contextlib
import itertools
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator

from kernelcat.errors import KernelcatError
from kernelcat.fault import printable

POLL_SECONDS = 0.02


@contextlib.contextmanager
def held(device: str, wait: Callable[[float], None] = time.sleep) -> Iterator[dict[str, str]]:
    """Waits for a free device of the kind "cuda" or "cpu" and keeps it for this process. Gives the environment
    variables that make a measuring process use that one. `wait` is called with seconds between two looks.

    Raises KernelcatError when there is no such device.
    """
    names, left_out = survey() if device == "cuda" else (["cpu"], [])
    if not names:
        reasons = "; ".join(left_out) or "device: cpu measures without"
        raise KernelcatError(f"device: expected a GPU that torch can use, found none ({reasons})")
    with socket.socket(socket.AF_UNIX) as lock:
        while (name := _first_free(names, lock)) is None:
            wait(POLL_SECONDS)
        yield {"CUDA_VISIBLE_DEVICES": name} if device == "cuda" else {}


def _first_free(names: list[str], lock: socket.socket) -> str | None:
    for name in names:
        with contextlib.suppress(OSError):  # somebody else has it
            lock.bind(f"\0kernelcat device {name}")
            return name
    return None


def spread(workflow, model: str | None) -> None:
    """Lets a Snakemake workflow that runs on this machine have a job at once for each GPU of the model, whatever
    `--cores` says, and says on stderr which GPUs are left out and why. Does nothing in the processes of its jobs."""
    if not (workflow.is_main_process and workflow.local_exec):
        return
    found, left_out = survey(model)
    for line in left_out:
        print(f"kernelcat: {line}", file=sys.stderr)
    if cores := workflow.resource_settings.cores:
        workflow.global_resources["_cores"] = max(cores, len(found))


def leave_visible(model: str) -> None:
    """Leaves in CUDA_VISIBLE_DEVICES the GPUs that survey(model) finds.

    Raises KernelcatError when there is none.
    """
    found, left_out = survey(model)
    if not found:
        reasons = "".join(f"; {line}" for line in left_out)
        raise KernelcatError(f"gpu: expected a GPU whose name has {model!r} in it, found none{reasons}")
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(found)


def survey(model: str | None = None) -> tuple[list[str], list[str]]:
    """The UUIDs of the GPUs to measure on, and a line for each other one that CUDA_VISIBLE_DEVICES names, in its order;
    without the variable it names all. Indices count in the order of the PCI bus. Without a driver there are none.

    All are of one model, because a configuration is measured on whichever is free: the one whose product's name has
    `model` in it as whole words, in any case ("L4" is the NVIDIA L4 and not the L40), or else the first one's. Parts of
    a GPU in MIG mode are left out: what runs beside them on that GPU takes of its power and clocks.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError:
        count = 0
    if not count:
        return [], []
    names: dict[str, str] = {}  # by UUID
    left_out = []
    for entry in _visible(count):
        try:
            uuid, name = _measurable(_index(entry, count))
            if model and not _has_words(name, model):
                raise _LeftOut(f"expected a name that has {model!r} in it, found {name}")
            if names and name not in names.values():
                raise _LeftOut(f"expected another {next(iter(names.values()))}, found {name}")
            names[uuid] = name
        except _LeftOut as reason:
            left_out.append(f"GPU {printable(entry)} is left out: {reason}")
    return list(names), left_out


class _LeftOut(Exception):
    """Why a GPU is not measured on."""


def _visible(count: int) -> list[str]:
    """The entries of CUDA_VISIBLE_DEVICES up to one that says that no more follow; the indices without it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [str(index) for index in range(count)]
    entries = [entry.strip() for entry in visible.split(",")]
    return list(itertools.takewhile(lambda entry: entry not in ("", "-1", "NoDevFiles"), entries))


def _index(entry: str, count: int) -> int:
    """Of the GPU that an entry of CUDA_VISIBLE_DEVICES means: an index, or how a UUID begins. Raises _LeftOut."""
    import pynvml

    if entry.startswith("MIG-"):
        raise _LeftOut("it is a part of a GPU in MIG mode")
    if entry.isdecimal() and int(entry) < count:
        return int(entry)
    for index in range(count) if entry.startswith("GPU-") else ():
        with contextlib.suppress(pynvml.NVMLError):  # another one, that is broken
            if pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index)).startswith(entry):
                return index
    raise _LeftOut("there is none")


def _measurable(index: int) -> tuple[str, str]:
    """UUID and product's name of a GPU. Raises _LeftOut when it is broken or in MIG mode."""
    import pynvml

    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid, name = pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)
    except pynvml.NVMLError as error:
        raise _LeftOut(f"the driver says: {error}") from None
    with contextlib.suppress(pynvml.NVMLError):  # where there is no such mode
        if pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE:
            raise _LeftOut("it is in MIG mode")
    return uuid, name


def _has_words(name: str, words: str) -> bool:
    return bool(re.search(rf"(?<![a-z0-9]){re.escape(words.lower())}(?![a-z0-9])", name.lower()))
