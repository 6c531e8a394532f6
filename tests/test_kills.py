"""Kills at random moments: of a measuring process, the worker, a job, Snakemake or its whole process group. After each
one nothing runs on, every file is whole, and the next run completes what is missing.

There are 4 rounds, with one victim each; the environment variable KERNELCAT_KILLS asks for another number:

    KERNELCAT_KILLS=20 pytest -s tests/test_kills.py

Each round prints what it killed and when. KERNELCAT_KILLS_SEED repeats the moments and victims of another run.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from conftest import Workflow, copy_workflow, empty_packages

from kernelcat import catalog, cli, files, measure, metrics

ROUNDS = int(os.environ.get("KERNELCAT_KILLS", "4"))
SEED = int(os.environ.get("KERNELCAT_KILLS_SEED", "1"))
TEMPORARY = "a temporary file"
GRACE = 5
"""Seconds after which nothing may be left of a workflow that has ended."""

KERNEL = """
from kernelcat.kernel import Kernel, Provider, tensor

KERNEL = Kernel(
    title="Twice",
    slug="twice",
    family="twice",
    axes=("rows",),
    inputs={"x": tensor("rows")},
    outputs={"y": tensor("rows")},
    reference=lambda x: x + x,
    providers={"plain": Provider(lambda x: lambda: x + x), "other": Provider(lambda x: lambda: 2 * x)},
)
"""
SUITE = """
twice:
  providers: [plain, other]
  modes: [forward]
  dtypes: [fp32]
  axes: {rows: [2, 3, 4]}
"""
COUNT = 6
CONFIG = {
    "suite: smoke": "suite: twice",
    "device: auto": "device: cpu",
    "# kernels: my_kernels": "kernels: own",
    "precision: 0.01": "precision: 0.5",
    "seconds: 1 ": "seconds: 0.2 ",
}
VICTIMS = ("measuring process", "worker", "job", "snakemake", "process group")


@pytest.fixture(scope="module")
def workflow(tmp_path_factory) -> tuple[Workflow, dict[str, tuple[float, float]]]:
    """The workflow, and from when to when each victim was seen in a whole run, in seconds after its start."""
    found = copy_workflow(tmp_path_factory.mktemp("kills") / "copy")
    (found.folder / "own").mkdir()
    (found.folder / "own/twice.py").write_text(KERNEL)
    (found.folder / "config/suites/twice.yaml").write_text(SUITE)
    empty_packages(found.folder / "empty")
    for old, new in CONFIG.items():
        found.edit("config/config.yaml", old, new)
    lives: dict[str, tuple[float, float]] = {}
    start = time.monotonic()
    snakemake = run_everything(found)
    while snakemake.poll() is None:
        now = time.monotonic() - start
        for process in family(snakemake.pid):
            with contextlib.suppress(psutil.Error):
                name = kind(process)
                lives[name] = (lives.get(name, (now, now))[0], now)
        time.sleep(0.2)  # looking costs the run time
    assert snakemake.returncode == 0, (found.folder / "log").read_text()
    return found, lives | {"process group": lives["snakemake"]}


def variables(copy: Workflow) -> dict[str, str]:
    """What lets the workers of this workflow start quickly."""
    return {"PYTHONPATH": str(copy.folder / "empty")}


def run_everything(copy: Workflow) -> subprocess.Popen:
    """Snakemake, in a process group of its own. On two cores one job waits for the device while another one has it."""
    with (copy.folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--cores", "2", "results/catalog.json", "--forceall"],
            cwd=copy.folder,
            env=os.environ | variables(copy),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_kill_leaves_nothing_running_and_no_half_file(workflow, number, capsys):
    copy, lives = workflow
    chosen = random.Random(f"{SEED} {number}")
    victim = VICTIMS[(number + SEED) % len(VICTIMS)]
    first, last = lives[victim]
    moment, afresh = first + 0.9 * (last - first) * chosen.random(), chosen.random() < 0.5
    if afresh:
        for name in ("results", ".snakemake"):
            shutil.rmtree(copy.folder / name)
    snakemake = run_everything(copy)
    try:
        seconds = kill(snakemake, victim, moment)
        code = snakemake.wait(timeout=120)
        end = time.monotonic()
        while left := running(copy, snakemake.pid):
            assert time.monotonic() < end + GRACE, left
            time.sleep(0.02)
        with capsys.disabled():
            how = f"killed {seconds:.2f} s after the start" if seconds else "had ended before it could be killed"
            print(f"\nround {number}: {victim} {how}, over {'no' if afresh else 'old'} results; ", end="")
            print(f"Snakemake's code {code}, all ended {time.monotonic() - end:.2f} s later", end=" ")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(snakemake.pid, signal.SIGKILL)
    found = faults(copy)
    if victim in ("job", "process group"):  # who is killed while it writes leaves what the next start removes
        found = [fault for fault in found if not fault.endswith(TEMPORARY)]
    assert found == []
    text = (copy.folder / "log").read_text()
    survives = victim in ("measuring process", "worker") and "before the device could be described" not in text
    assert (code == 0) == (survives or seconds is None), text
    run_to_the_end(copy)


def kill(snakemake: subprocess.Popen, victim: str, moment: float) -> float | None:
    """Kills the victim at a moment, in seconds after the start, or as soon after as there is one. Says when."""
    start = time.monotonic()
    with contextlib.suppress(subprocess.TimeoutExpired):
        snakemake.wait(timeout=moment)
    while snakemake.poll() is None:
        with contextlib.suppress(psutil.Error, StopIteration):
            if victim == "process group":
                os.killpg(snakemake.pid, signal.SIGKILL)
            else:
                next(process for process in family(snakemake.pid) if kind(process) == victim).kill()
            return time.monotonic() - start
        time.sleep(0.002)
    return None


def family(workflow: int) -> list[psutil.Process]:
    """Snakemake and what its environment says belongs to it."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid == workflow or process.environ().get(measure.WORKFLOW) == str(workflow):
                found.append(process)
    return found


def kind(process: psutil.Process) -> str:
    """Which of the victims a process is."""
    command = process.cmdline()
    if "snakemake" in command:
        return "snakemake"
    if "scripts/measure.py" in command:
        return "job"
    if not any(part.endswith("scripts/worker.py") for part in command):
        return "other"
    forked = any(part.endswith("scripts/worker.py") for part in process.parent().cmdline())
    return "measuring process" if forked else "worker"


def running(copy: Workflow, workflow: int) -> list[str]:
    """What has this workflow's folder or belongs to its Snakemake."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            ours = process.environ().get(measure.WORKFLOW) == str(workflow)
            if ours or process.cwd() == str(copy.folder):
                found.append(f"{process.pid} {process.cmdline()}")
    return found


def faults(copy: Workflow) -> list[str]:
    """What below results/ is no whole file."""
    found = []
    for path in sorted((copy.folder / "results").rglob("*")):
        if path.is_dir() or path.suffix == ".log" or path.name == ".snakemake_timestamp":
            continue
        try:
            if path.name.startswith("."):
                found.append(f"{path}: {TEMPORARY}")
            elif path.suffix == ".csv":
                metrics.read(path)
            else:
                files.load(path, limit=None)
        except Exception as error:
            found.append(f"{path}: {error}")
    return found


def run_to_the_end(copy: Workflow) -> None:
    """Runs what there is to do; all configurations are in the catalog then, and it verifies."""
    if list((copy.folder / ".snakemake/locks").glob("*")):
        assert copy.run("--unlock").returncode == 0
    result = copy.run("results/catalog.json", **variables(copy))
    assert result.returncode == 0, result.stdout
    assert faults(copy) == []
    path = copy.folder / "results/catalog.json"
    assert sum(catalog.read(path)["summary"]["runs"].values()) == COUNT
    assert cli.main(["verify", str(path)]) == 0
    records = [json.loads(record.read_text()) for record in (copy.folder / "results/metrics").rglob("*.json")]
    ended = "the measuring process was ended by signal 9"  # a result like any other
    assert all(record["status"] == "passed" or record["reason"] == ended for record in records)
    assert len(records) == COUNT
