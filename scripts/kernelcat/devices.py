"""One measuring process per device, whatever starts them: a lock on each GPU of this machine, and on its CPU.

A lock is a socket bound to an abstract name (unix(7)): the kernel gives a name to one process at a time and takes it
back when that ends, however it ends. No file stays behind, and it holds between workflows and users.
"""

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator

from kernelcat.errors import KernelcatError

POLL_SECONDS = 0.02


@contextlib.contextmanager
def held(device: str, wait: Callable[[float], None] = time.sleep) -> Iterator[dict[str, str]]:
    """Waits for a free device of the kind "cuda" or "cpu" and keeps it for this process. Gives the environment
    variables that make a measuring process use that one. `wait` is called with seconds between two looks.

    Raises KernelcatError when there is no such device.
    """
    names = gpus() if device == "cuda" else ["cpu"]
    if not names:
        raise KernelcatError("device: expected a GPU that torch can use, found none (device: cpu measures without)")
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


def leave_visible(model: str) -> None:
    """Leaves of the GPUs that this process sees, in CUDA_VISIBLE_DEVICES, those of the model: whose product's name has
    `model` in it as whole words, in any case. "L4" is the NVIDIA L4 and not the L40.

    Raises KernelcatError when there is none.
    """
    import pynvml

    words = re.compile(rf"(?<![a-z0-9]){re.escape(model.lower())}(?![a-z0-9])")
    names = {uuid: pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByUUID(uuid)) for uuid in gpus()}
    found = [uuid for uuid, name in names.items() if words.search(name.lower())]
    if not found:
        there = ", ".join(sorted(set(names.values()))) or "none"
        raise KernelcatError(f"gpu: expected a GPU whose name has {model!r} in it, found {there}")
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(found)


def gpus() -> list[str]:
    """The UUIDs of the GPUs that CUDA_VISIBLE_DEVICES leaves visible, in its order; all without it, none without a
    driver. Indices count in the order of the PCI bus."""
    import pynvml

    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        known = [pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
    except pynvml.NVMLError:
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return known
    found = []
    for entry in map(str.strip, visible.split(",")):
        if entry.startswith("MIG-"):
            found.append(entry)
        elif entry.isdecimal() and int(entry) < len(known):
            found.append(known[int(entry)])
        elif entry.startswith("GPU-") and (matches := [uuid for uuid in known if uuid.startswith(entry)]):
            found.append(matches[0])
        else:
            break  # CUDA ignores what follows an entry that names nothing
    return found
