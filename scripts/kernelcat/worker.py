"""A process that has imported torch, Triton and transformers once, and forks a measuring process per configuration.

A measuring process is in a process group of its own and owns its CUDA context, so a crash, an exhausted memory or a
hang is its own. The worker itself never initialises CUDA: a fork could not use it then. It serves one workflow and
ends with it, however that ends: it holds a descriptor of that process (pidfd_open(2)), and its measuring processes end
with the worker (PR_SET_PDEATHSIG). It imports nothing of kernelcat that a measurement runs through: each fork reads
that code anew.

The other side is kernelcat.measure. It sends three file descriptors (where records go, stdout, stderr) and one request:
{"environment", "folder", "arguments"}. The answers are the measuring process's id, which is its group's, and in the end
its exit code as the subprocess module counts it, negative for a signal. Whatever arrives before that, the end of the
connection too, ends the measuring process.
"""

import contextlib
import ctypes
import gc
import importlib.util
import json
import os
import signal
import socket
import struct
import sys
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from unittest import mock

PRELOADED = {
    "cpu": ("kernelcat.interpreter", "torch", "transformers.models.llama.modeling_llama", "liger_kernel.transformers"),
    "cuda": (
        *("torch", "triton", "torch._dynamo", "torch._inductor.compile_fx"),
        *("transformers.models.llama.modeling_llama", "pynvml", "peft"),
    ),
}
"""What is imported before the first fork, by device, as far as it is installed. The interpreter comes first: Triton
asks for it at import. liger-kernel, which may initialise CUDA at import, is among it on a CPU only; it imports peft
where it finds it."""

PR_SET_PDEATHSIG = 1  # linux/prctl.h
DESCRIPTORS = 3
REQUEST_SECONDS = 5


@dataclass(frozen=True)
class _Child:
    """A measuring process: its process descriptor, and the connection to whoever asked for it."""

    pid: int
    descriptor: int
    connection: Connection

    def kill(self) -> None:
        """Kills it and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # before it has made its group

    def reap(self) -> None:
        """Waits for its end, kills what it has left running and says how it ended."""
        _, status = os.waitpid(self.pid, 0)
        self.kill()
        with contextlib.suppress(OSError):
            self.connection.send(os.waitstatus_to_exitcode(status))
        self.connection.close()
        os.close(self.descriptor)


def serve(listener: socket.socket, lifeline: int, preload: str | None) -> None:
    """Forks a measuring process for each connection to `listener`, until the process `lifeline` ends."""
    try:
        workflow = os.pidfd_open(lifeline)
    except ProcessLookupError:
        return
    before = dict(os.environ)
    # else Inductor starts a compiling process per core in each measuring process, whatever it finds in its cache
    os.environ["TORCH_WARM_POOL"] = "0"
    if preload:
        _preload(preload, workflow)
        if preload == "cuda" and _has_cuda():
            sys.exit("kernelcat: what was imported may have initialised CUDA: each configuration gets a fresh process")
    # what imported modules ask of their process, such as TRITON_INTERPRET, holds for the measuring processes too
    asked = {name: value for name, value in os.environ.items() if before.get(name) != value}
    children: list[_Child] = []
    try:
        while True:
            ready = wait(
                [listener, workflow, *(end for child in children for end in (child.descriptor, child.connection))]
            )
            if workflow in ready:
                return
            for child in [child for child in children if child.descriptor in ready]:
                child.reap()
                children.remove(child)
            for child in children:
                if child.connection in ready:
                    child.kill()  # the answer follows when it has ended
            if listener in ready and (child := _accept(listener, asked, [workflow, *children])):
                children.append(child)
    finally:
        for child in children:
            child.kill()


def is_ours(peer: socket.socket) -> bool:
    """Whether the other side is a process of this user: abstract names have no permissions."""
    _, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return user == os.getuid()


def _preload(device: str, workflow: int) -> None:
    """Imports what is to be there before the first fork. That takes seconds, in which a timer sees to it that the end
    of the workflow is noticed."""

    def look(signal_number, frame):
        if wait([workflow], 0):
            os._exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    # Inductor asks at import whether there is a GPU, and torch would initialise CUDA to know
    told = mock.patch("torch.cuda.is_available", return_value=True) if device == "cuda" else contextlib.nullcontext()
    with told:
        for module in PRELOADED[device]:
            if importlib.util.find_spec(module.partition(".")[0]):
                importlib.import_module(module)
    _warm_caches()
    gc.collect()
    gc.freeze()  # garbage collections of measuring processes need not walk all this
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _warm_caches() -> None:
    """Has Triton and Inductor hash their own files (0.4 s and 0.1 s), which each process does once before it looks into
    its cache."""
    for module, name in (("triton.runtime.cache", "triton_key"), ("torch._inductor.codecache", "torch_key")):
        if key := getattr(sys.modules.get(module), name, None):
            key()


def _has_cuda() -> bool:
    """Whether this process may have initialised CUDA: that opens the device of unified memory."""
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return any(os.readlink(link).startswith("/dev/nvidia-uvm") for link in links if os.path.lexists(link))


def _accept(listener: socket.socket, asked: dict, kept: list) -> _Child | None:
    """The measuring process that the next connection asks for, None where it asks for nothing or is not ours."""
    peer, _ = listener.accept()
    if not is_ours(peer):
        peer.close()
        return None
    # whoever connects and says nothing must not keep the others waiting
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", REQUEST_SECONDS, 0))
    descriptors: list[int] = []
    connection = None
    try:
        _, descriptors, _, _ = socket.recv_fds(peer, 1, DESCRIPTORS)
        connection = Connection(peer.detach())
        request = connection.recv()
        request["environment"] |= asked
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # the threads that Python warns of are those of numpy's and torch's pools, which have nothing to do here
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _close([listener, *kept, connection])
            _run(request, descriptors, parent)
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)  # the child does so as well: who comes first is open
        child = _Child(pid, os.pidfd_open(pid), connection)
        with contextlib.suppress(OSError):
            connection.send(pid)
        return child
    except (EOFError, OSError):
        if connection:
            connection.close()
        return None
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _close(ends: list) -> None:
    for end in ends:
        if isinstance(end, _Child):
            end.connection.close()
            os.close(end.descriptor)
        elif isinstance(end, int):
            os.close(end)
        else:
            end.close()


def _run(request: dict, descriptors: list[int], parent: int) -> None:
    """The life of a measuring process. Never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        records, *standard = descriptors
        for number, descriptor in enumerate(standard, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        from kernelcat import child

        sender = Connection(records, readable=False)
        child.run(*request["arguments"], lambda piece: sender.send_bytes(json.dumps(piece).encode()))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(code)
