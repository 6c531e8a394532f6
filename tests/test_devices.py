"""Devices: which GPUs there are for a job, and one measuring process on each, whatever asks for it."""

import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

import pynvml
import pytest
from conftest import ROOT

from kernelcat import devices, files, grid
from kernelcat.errors import KernelcatError

A, B, C = "GPU-aaaa1111", "GPU-bbbb2222", "GPU-bbbb3333"
MIG = "MIG-0a1b2c"
NAMES = {
    A: "NVIDIA H200",
    B: "NVIDIA A100-SXM4-80GB",
    C: "NVIDIA L40S",
    MIG: "NVIDIA H200 MIG 1g.18gb",
}


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
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: uuid)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda uuid: NAMES[uuid])
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


@pytest.mark.parametrize(
    ("model", "visible", "expected"),
    [
        ("NVIDIA H200", None, A),
        ("h200", None, A),
        ("H200", "2,0", A),
        ("H200", f"{MIG},1", MIG),
        ("a100", None, B),
        ("A100-SXM4-80GB", "1", B),
        ("80gb", None, B),
        ("l40s", None, C),
        ("nvidia", "2,0", f"{C},{A}"),
    ],
)
def test_of_a_named_model_only_its_gpus_stay_visible(driver, model, visible, expected):
    driver([A, B, C], visible)
    devices.leave_visible(model)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == expected
    assert devices.gpus() == expected.split(",")


@pytest.mark.parametrize(
    ("model", "visible", "found"),
    [
        ("H100", None, "NVIDIA A100-SXM4-80GB, NVIDIA H200, NVIDIA L40S"),
        ("H200", "1", "NVIDIA A100-SXM4-80GB"),
        ("L40", "2,1", "NVIDIA A100-SXM4-80GB, NVIDIA L40S"),  # part of a word is another model
        ("A100.SXM4", "1", "NVIDIA A100-SXM4-80GB"),
        ("H200", "", "none"),
    ],
)
def test_another_model_is_one_line_and_changes_nothing(driver, model, visible, found):
    driver([A, B, C], visible)
    with pytest.raises(KernelcatError) as raised:
        devices.leave_visible(model)
    assert str(raised.value) == f"gpu: expected a GPU whose name has {model!r} in it, found {found}"
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == visible


NVML = """
NVMLError = type("NVMLError", (Exception,), {})
nvmlInit = lambda: None
nvmlDeviceGetCount = lambda: 1
nvmlDeviceGetHandleByIndex = nvmlDeviceGetHandleByUUID = lambda which: which
nvmlDeviceGetUUID = lambda handle: "GPU-aaaa1111"
nvmlDeviceGetName = lambda handle: "NVIDIA A100-SXM4-80GB"
"""


def test_a_job_that_lands_on_another_model_fails_before_it_measures_and_writes_nothing(tmp_path):
    (tmp_path / "pynvml.py").write_text(NVML)
    config = files.load(ROOT / "config/config.yaml") | {"device": "cuda", "gpu": "H200"}
    found = grid.expand(config, suites=ROOT / "config/suites").by_path
    path, configuration = next(iter(found.items()))
    assert path.startswith("cuda-h200/")
    results = [tmp_path / f"results/{path}.{suffix}" for suffix in ("csv", "json")]
    command = [sys.executable, "scripts/measure.py", "--job", grid.job(configuration), "--minutes", "1"]
    done = subprocess.run(
        [*command, *shlex.split(grid.options(config)), "--csv", results[0], "--record", results[1]],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    expected = "kernelcat: gpu: expected a GPU whose name has 'H200' in it, found NVIDIA A100-SXM4-80GB\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)
    assert not (tmp_path / "results").exists()


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
