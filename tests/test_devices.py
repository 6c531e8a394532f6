"""Devices: which GPUs there are for a job, and one measuring process on each, whatever asks for it."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pynvml
import pytest

from kernelcat import devices
from kernelcat.errors import KernelcatError

A, B, C = "GPU-aaaa1111", "GPU-bbbb2222", "GPU-bbbb3333"
MIG = "MIG-0a1b2c"


@pytest.fixture
def driver(monkeypatch):
    """A driver that knows these GPUs, or has none."""

    def driven(known: list[str] | None, visible: str | None = None):
        def init():
            if known is None:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

        monkeypatch.setattr(pynvml, "nvmlInit", init)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: len(known))
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda handle: known[handle])
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return driven


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [A, B, C]),
        ("", []),
        ("-1", []),
        ("0", [A]),
        ("2,0", [C, A]),
        (" 1 , 2 ", [B, C]),
        ("00", [A]),
        ("0,-1,2", [A]),  # what follows an entry that names nothing is not visible
        ("3,0", []),
        ("0,,1", [A]),
        ("NoDevFiles", []),
        (B, [B]),
        (f"{C},{A}", [C, A]),
        (f"1,{C}", [B, C]),
        ("GPU-aaaa", [A]),
        ("GPU-cccc", []),
        ("gpu-aaaa", []),
        (f"{MIG},1", [MIG, B]),
    ],
)
def test_gpus_are_those_that_cuda_visible_devices_leaves(driver, visible, expected):
    driver([A, B, C], visible)
    assert devices.gpus() == expected


@pytest.mark.parametrize("known", [None, []])
@pytest.mark.parametrize("visible", [None, "0"])
def test_without_a_driver_there_is_no_gpu_and_one_line_says_so(driver, known, visible):
    driver(known, visible)
    assert devices.gpus() == []
    with pytest.raises(KernelcatError, match="^device: expected a GPU that torch can use, found none .*$"):
        with devices.held("cuda"):
            pass


@pytest.fixture
def names(monkeypatch, tmp_path):
    """GPUs that nothing else on this machine has."""
    found = [f"GPU-{tmp_path}-{letter}" for letter in "ab"]
    monkeypatch.setattr(devices, "gpus", lambda: found)
    return found


class Patience(Exception):
    """Is at an end."""


def impatient(seconds: float) -> None:
    raise Patience


def test_each_job_has_a_gpu_of_its_own(names):
    with devices.held("cuda") as first, devices.held("cuda") as second:
        assert [first, second] == [{"CUDA_VISIBLE_DEVICES": name} for name in names]
        with pytest.raises(Patience), devices.held("cuda", impatient):
            pass
    with devices.held("cuda") as third:
        assert third == first


def test_a_gpu_that_becomes_free_is_taken(names):
    given = []

    def job():
        with devices.held("cuda") as chosen:
            given.append(chosen)

    with devices.held("cuda"):
        with devices.held("cuda") as second:
            waiting = threading.Thread(target=job)
            waiting.start()
            time.sleep(5 * devices.POLL_SECONDS)
            assert given == []
        waiting.join(timeout=60)
    assert given == [second]


@pytest.mark.parametrize("how", ["returns", "raises", "is killed"])
def test_a_device_is_free_again_however_its_job_ends(names, tmp_path, how):
    ends = {"returns": "pass", "raises": "1 / 0", "is killed": "os.kill(os.getpid(), 9)"}
    program = (
        "import os\n"
        "from kernelcat import devices\n"
        f"devices.gpus = lambda: {names[:1]!r}\n"
        "with devices.held('cuda') as chosen:\n"
        f"    print(chosen, flush=True)\n"
        "    input()\n"
        f"    {ends[how]}\n"
    )
    job = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(Path(devices.__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert names[0] in job.stdout.readline()
    with devices.held("cuda", impatient) as chosen:
        assert chosen == {"CUDA_VISIBLE_DEVICES": names[1]}
    job.communicate("go\n")
    with devices.held("cuda", impatient) as chosen:
        assert chosen == {"CUDA_VISIBLE_DEVICES": names[0]}


def test_a_cpu_needs_no_variable(monkeypatch):
    monkeypatch.setattr(devices, "gpus", lambda: pytest.fail("a CPU needs no driver"))
    with devices.held("cpu") as chosen:
        assert chosen == {}
        with pytest.raises(Patience), devices.held("cpu", impatient):
            pass
