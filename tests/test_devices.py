"""Devices: which GPUs there are for a job, and one measuring process on each, whatever asks for it."""

import itertools
import json
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

A, B, C, D, E = "GPU-aaaa1111", "GPU-bbbb2222", "GPU-bbbb3333", "GPU-dddd4444", "GPU-eeee5555"
NAMES = {A: "NVIDIA H200", B: "NVIDIA H200", C: "NVIDIA L40S", D: "NVIDIA H200", E: "NVIDIA A100-SXM4-80GB"}
SLICED, LOST = D, "GPU-ffff6666"
ALL = [A, B, C, D, LOST, E]


@pytest.fixture
def driver(monkeypatch):
    """A driver that knows these GPUs, or has none. One is in MIG mode, one has fallen off the bus."""

    def driven(known: list[str] | None, visible: str | None = None):
        def init():
            if known is None:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

        def handle(index):
            if known[index] == LOST:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
            return known[index]

        def mode(uuid):
            if uuid == C:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return [int(uuid == SLICED), 0]

        monkeypatch.setattr(pynvml, "nvmlInit", init)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: len(known))
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda handle: handle)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetName", NAMES.__getitem__)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMigMode", mode)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")  # so that it is restored, whatever becomes of it
        if visible is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]

    return driven


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [A, B]),
        ("", []),
        ("-1", []),
        ("0", [A]),
        ("1,0", [B, A]),
        (" 1 , 0 ", [B, A]),
        ("00", [A]),
        ("0,0", [A]),
        ("0,-1,1", [A]),
        ("0,,1", [A]),
        ("NoDevFiles", []),
        (B, [B]),
        (f"{B},{A}", [B, A]),
        (f"1,{A}", [B, A]),
        ("GPU-aaaa", [A]),
    ],
)
def test_gpus_are_those_that_cuda_visible_devices_leaves(driver, visible, expected):
    driver([A, B], visible)
    assert devices.survey() == (expected, [])


MISSING, LIKE_A, LIKE_C = "there is none", "expected another NVIDIA H200, found", "expected another NVIDIA L40S, found"


@pytest.mark.parametrize(
    ("visible", "expected", "left_out"),
    [
        (
            None,
            [A, B],
            {
                "2": f"{LIKE_A} NVIDIA L40S",
                "3": "it is in MIG mode",
                "4": "the driver says: GPU is lost",
                "5": f"{LIKE_A} NVIDIA A100-SXM4-80GB",
            },
        ),
        ("6,0,1", [A, B], {"6": MISSING}),
        ("0,4294967296,1", [A, B], {"4294967296": MISSING}),
        ("GPU-cccc,gpu-aaaa,1", [B], {"GPU-cccc": MISSING, "gpu-aaaa": MISSING}),
        ("GPU-eeee", [E], {}),  # a broken one before it does not hide it
        ("3,1", [B], {"3": "it is in MIG mode"}),
        ("MIG-0a1b2c,1", [B], {"MIG-0a1b2c": "it is a part of a GPU in MIG mode"}),
        ("2,0", [C], {"0": f"{LIKE_C} NVIDIA H200"}),
        ("x\ny,0", [A], {"x\\ny": MISSING}),
    ],
)
def test_a_gpu_that_cannot_be_used_is_named_and_the_rest_go_on(driver, visible, expected, left_out):
    driver(ALL, visible)
    lines = [f"GPU {entry} is left out: {reason}" for entry, reason in left_out.items()]
    assert devices.survey() == (expected, lines)


@pytest.mark.parametrize("visible", ["3", "3,4"])
def test_where_none_can_be_used_the_job_says_why(driver, visible):
    driver(ALL, visible)
    with pytest.raises(KernelcatError, match="^device: expected a GPU .* found none .*GPU 3 is left out: .* MIG mode"):
        with devices.held("cuda"):
            pass


@pytest.mark.parametrize("known", [None, []])
@pytest.mark.parametrize("visible", [None, "0"])
def test_without_a_driver_there_is_no_gpu_and_one_line_says_so(driver, known, visible):
    driver(known, visible)
    assert devices.survey() == ([], [])
    with pytest.raises(KernelcatError, match="^device: expected a GPU that torch can use, found none .*$"):
        with devices.held("cuda"):
            pass


@pytest.mark.parametrize(
    ("model", "visible", "expected"),
    [
        ("NVIDIA H200", None, [A, B]),
        ("h200", None, [A, B]),
        ("H200", "2,1,0", [B, A]),
        ("a100", None, [E]),
        ("A100-SXM4-80GB", "5", [E]),
        ("80gb", None, [E]),
        ("l40s", None, [C]),
        ("nvidia", "2,0", [C]),
    ],
)
def test_of_a_named_model_only_its_gpus_stay_visible(driver, model, visible, expected):
    driver(ALL, visible)
    devices.leave_visible(model)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ",".join(expected)
    assert devices.survey() == (expected, [])


@pytest.mark.parametrize(
    ("model", "visible", "found"),
    [
        ("H100", "0,2", ["0", "NVIDIA H200", "2", "NVIDIA L40S"]),
        ("H200", "5", ["5", "NVIDIA A100-SXM4-80GB"]),
        ("L40", "2", ["2", "NVIDIA L40S"]),  # part of a word is another model
        ("A100.SXM4", "5", ["5", "NVIDIA A100-SXM4-80GB"]),
        ("H200", "", []),
    ],
)
def test_another_model_is_one_line_and_changes_nothing(driver, model, visible, found):
    driver(ALL, visible)
    with pytest.raises(KernelcatError) as raised:
        devices.leave_visible(model)
    lines = [
        f"; GPU {entry} is left out: expected a name that has {model!r} in it, found {name}"
        for entry, name in zip(found[::2], found[1::2], strict=True)
    ]
    expected = f"gpu: expected a GPU whose name has {model!r} in it, found none{''.join(lines)}"
    assert str(raised.value) == expected
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == visible


NVML = """
GPUS = {gpus!r}
NVMLError = type("NVMLError", (Exception,), {{}})
NVML_DEVICE_MIG_ENABLE = 1
nvmlInit = lambda: None
nvmlDeviceGetCount = lambda: len(GPUS)
nvmlDeviceGetHandleByIndex = lambda index: index
nvmlDeviceGetUUID = lambda index: GPUS[index][0]
nvmlDeviceGetName = lambda index: GPUS[index][1]
nvmlDeviceGetMigMode = lambda index: [GPUS[index][2], 0]
"""


def pretend(folder: Path, *gpus: tuple[str, str, int]) -> dict[str, str]:
    """The environment variables of a process for which NVML knows these GPUs, by UUID, name and MIG mode."""
    (folder / "pynvml.py").write_text(NVML.format(gpus=gpus))
    return {"PYTHONPATH": str(folder)}


def test_a_job_that_lands_on_another_model_fails_before_it_measures_and_writes_nothing(tmp_path):
    variables = pretend(tmp_path, (A, "NVIDIA A100-SXM4-80GB", 0))
    config = files.load(ROOT / "config/config.yaml") | {"device": "cuda", "gpu": "H200"}
    found = grid.expand(config, suites=ROOT / "config/suites").by_path
    path, configuration = next(iter(found.items()))
    assert path.startswith("cuda-h200/")
    results = [tmp_path / f"results/{path}.{suffix}" for suffix in ("csv", "json")]
    command = [sys.executable, "scripts/measure.py", "--job", grid.job(configuration), "--minutes", "1"]
    done = subprocess.run(
        [*command, *shlex.split(grid.options(config)), "--csv", results[0], "--record", results[1]],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    expected = (
        "kernelcat: gpu: expected a GPU whose name has 'H200' in it, found none; "
        "GPU 0 is left out: expected a name that has 'H200' in it, found NVIDIA A100-SXM4-80GB\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)
    assert not (tmp_path / "results").exists()


JOB = """
import json, sys, time
from pathlib import Path
from kernelcat import devices

csv, record = (sys.argv[sys.argv.index(f"--{name}") + 1] for name in ("csv", "record"))
with devices.held("cuda") as chosen:
    started = time.monotonic()
    Path(f"started-{time.monotonic_ns()}").touch()
    while len(list(Path().glob("started-*"))) < 3:
        if time.monotonic() > started + 60:
            sys.exit("alone")
        time.sleep(0.01)
    Path(csv).touch()
    Path(record).write_text(json.dumps([chosen, started, time.monotonic()]))
"""


def test_each_gpu_measures_at_the_same_time_whatever_the_cores(fresh, tmp_path):
    h200, gpus = "NVIDIA H200", [f"GPU-{tmp_path}-{letter}" for letter in "abcde"]
    others = [(gpus[3], h200, 1), (gpus[4], "NVIDIA T400", 0)]
    variables = pretend(tmp_path, *((gpu, h200, 0) for gpu in gpus[:3]), *others)
    (fresh.folder / "scripts/measure.py").write_text(JOB)
    options = ["--cores", "1", "--until", "measure", "--config", "device=cuda", "suite=llama_3_8b"]
    found = fresh.run("results/catalog.json", *options, **variables)
    assert found.returncode == 0, found.stdout
    left_out = [line for line in found.stdout.splitlines() if "is left out" in line]
    assert left_out == [
        "kernelcat: GPU 3 is left out: it is in MIG mode",
        "kernelcat: GPU 4 is left out: expected another NVIDIA H200, found NVIDIA T400",
    ]
    jobs = [json.loads(path.read_text()) for path in (fresh.folder / "results").rglob("*.json")]
    used = {gpu: sorted(times for chosen, *times in jobs if chosen == {"CUDA_VISIBLE_DEVICES": gpu}) for gpu in gpus}
    assert [bool(times) for times in used.values()] == [True, True, True, False, False]
    assert sum(map(len, used.values())) == len(jobs)
    for times in used.values():
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(times))


@pytest.fixture
def names(monkeypatch, tmp_path):
    """GPUs that nothing else on this machine has."""
    found = [f"GPU-{tmp_path}-{letter}" for letter in "ab"]
    monkeypatch.setattr(devices, "survey", lambda: (found, []))
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
        f"devices.survey = lambda: ({names[:1]!r}, [])\n"
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
    monkeypatch.setattr(devices, "survey", lambda: pytest.fail("a CPU needs no driver"))
    with devices.held("cpu") as chosen:
        assert chosen == {}
        with pytest.raises(Patience), devices.held("cpu", impatient):
            pass
