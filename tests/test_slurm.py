"""profiles/slurm and profiles/generic on a Slurm of one node, which these tests start and stop: `make test-slurm`.

They need Slurm's and munge's programs (Debian: slurmctld slurmd slurm-client munge) and no privileges. The node has two
GPUs that are none: what is measured is its CPU.
"""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import Workflow, copy_workflow

from kernelcat import cli, devices

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "sinfo", "squeue")
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])  # where the daemons are, for users too
MISSING = [program for program in PROGRAMS if not shutil.which(program, path=PATH)]

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(bool(MISSING), reason=f"needs Slurm and munge on this machine; missing: {', '.join(MISSING)}"),
]

SLURM_CONF = """
ClusterName=kernelcat
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
MinJobAge=3600
KillWait=5
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:h200:2
PartitionName=gpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
GRES_CONF = """
NodeName={host} Name=gpu Type=h200 File=/dev/null
NodeName={host} Name=gpu Type=h200 File=/dev/zero
"""


@contextlib.contextmanager
def running_slurm(folder: Path) -> Iterator[dict[str, str]]:
    """A Slurm of one node, with its files in `folder`. Gives the environment variables of its clients."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    facts = {
        "host": socket.gethostname().partition(".")[0],
        "ports": free_ports(2),
        "user": getpass.getuser(),
        "folder": folder,
        "cpus": os.cpu_count(),
        "memory": psutil.virtual_memory().total // 2**20,
    }
    (folder / "slurm.conf").write_text(SLURM_CONF.format(**facts))
    (folder / "gres.conf").write_text(GRES_CONF.format(**facts))
    variables = {"PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
    files = [f"--{name}-file={folder / f'munge.{name}'}" for name in ("key", "log", "pid", "seed")]
    daemons = []
    try:
        for command in (
            ["munged", "--foreground", "--force", f"--socket={folder / 'munge.socket'}", *files],
            ["slurmctld", "-D"],
            ["slurmd", "-D"],
        ):
            name = command[0]
            with (folder / f"{name}.log").open("wb") as log:
                # the daemons end with the tests, however those end
                command = ["setpriv", "--pdeathsig", "TERM", *command]
                daemons.append(subprocess.Popen(command, env=os.environ | variables, stdout=log, stderr=log))
            if name == "munged":
                wait_until(lambda: (folder / "munge.socket").exists(), daemons, folder)
        wait_until(lambda: b"idle" in answer(["sinfo", "-h", "-o", "%t"], variables), daemons, folder)
        yield variables
    finally:
        answer(["scancel", "--signal=KILL", f"--user={facts['user']}"], variables)
        for daemon in reversed(daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def answer(command: list[str], variables: dict[str, str]) -> bytes:
    return subprocess.run(command, env=os.environ | variables, capture_output=True, timeout=60).stdout


def wait_until(condition: Callable[[], bool], daemons: list[subprocess.Popen], folder: Path) -> None:
    """Fails with the daemons' logs when one of them has ended, or after a minute."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end or any(daemon.poll() is not None for daemon in daemons):
            pytest.fail("\n".join(path.read_text(errors="replace")[-2000:] for path in folder.glob("*.log")))
        time.sleep(0.2)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[dict[str, str]]:
    with running_slurm(tmp_path_factory.mktemp("slurm")) as variables:
        yield variables


SUITE = """
twice:
  providers: [PROVIDER]
  modes: [forward]
  dtypes: [fp32]
  axes: {rows: ROWS}
"""
KERNEL = """
import time

from kernelcat.kernel import Kernel, Provider, tensor

KERNEL = Kernel(
    title="Twice",
    slug="twice",
    family="twice",
    axes=("rows",),
    inputs={"x": tensor("rows")},
    outputs={"y": tensor("rows")},
    reference=lambda x: x + x,
    providers={
        "plain": Provider(lambda x: lambda: x + x),
        "hangs": Provider(lambda x: lambda: time.sleep(3600)),
    },
)
"""


PROFILES = {
    "slurm": {"cpus_per_task: 4": "cpus_per_task: 1", "slurm_extra: \"'--exclusive'\"": "gpu_model: h200"},
    "generic": {"--cpus-per-task=4 --exclusive": "--cpus-per-task=1", "--gpus=": "--gpus=h200:"},
}
LESS = {"runtime: 5 * attempt": "runtime: attempt", "mem_mb: 16000 * attempt": "mem_mb: 2000 * attempt"}
"""What this node needs other in the profiles: less of everything, and minutes so few that a limit can be reached."""

QUICK = ["--slurm-init-seconds-before-status-checks", "2", "--slurm-status-command", "squeue"]
"""Asks jobs sooner how they are than is good for a real cluster."""

CONFIG = {
    "suite: smoke": "suite: twice",
    "# kernels: my_kernels": "kernels: own",
    "precision: 0.01": "precision: 0.5",
    "seconds: 1 ": "seconds: 0.2 ",
}


def adapted(folder: Path, provider: str | None = None, rows: object = 1) -> Workflow:
    """A copy of the workflow with profiles for this node; with a provider its suite is one small kernel by that."""
    copy = copy_workflow(folder)
    for name, changes in PROFILES.items():
        for old, new in (changes | LESS).items():
            copy.edit(f"profiles/{name}/config.yaml", old, new)
    if provider:
        (copy.folder / "own").mkdir()
        (copy.folder / "own/twice.py").write_text(KERNEL)
        suite = SUITE.replace("PROVIDER", provider).replace("ROWS", str(rows))
        (copy.folder / "config/suites/twice.yaml").write_text(suite)
        for old, new in CONFIG.items():
            copy.edit("config/config.yaml", old, new)
    return copy


def run(copy: Workflow, slurm: dict[str, str], profile: str = "slurm") -> str:
    """What the workflow printed, through the profile and to its end."""
    quick = QUICK if profile == "slurm" else []
    options = ["--workflow-profile", f"profiles/{profile}", *quick, "--config", "device=cpu"]
    result = copy.run("results/catalog.json", *options, **slurm)
    assert result.returncode == 0, result.stdout
    assert cli.main(["verify", str(copy.folder / "results/catalog.json")]) == 0
    return result.stdout


def jobs(copy: Workflow, slurm: dict[str, str]) -> list[dict[str, str]]:
    """What Slurm says of the workflow's jobs, in the order of their submission."""
    lines = answer(["scontrol", "show", "job", "--oneliner"], slurm).decode().splitlines()
    found = [dict(word.partition("=")[::2] for word in line.split()) for line in lines if "JobId=" in line]
    return [job for job in found if job["WorkDir"] == str(copy.folder)]


@pytest.fixture(params=PROFILES)
def profile(request) -> str:
    if request.param == "generic":
        pytest.importorskip("snakemake_executor_plugin_cluster_generic", reason="needs that plugin")
    return request.param


@contextlib.contextmanager
def meanwhile(look: Callable[[], None]) -> Iterator[None]:
    """Calls `look` again and again."""
    ended = threading.Event()

    def watch():
        while not ended.wait(0.1):
            look()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def processes(copy: Workflow, script: str) -> list[psutil.Process]:
    """Those that run a script of the workflow now."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "cwd"])
        if process.info["cwd"] == str(copy.folder)
        and any(Path(word).name == script for word in process.info["cmdline"][:2])
    ]


def test_a_group_is_one_job_on_one_gpu_with_one_worker(slurm, profile, tmp_path):
    """Run times add up and nothing else does, because the configurations follow each other."""
    copy = adapted(tmp_path / "copy", "plain", [1, 2, 3])
    workers = set()

    def look():  # a worker has a session of its own, in which what it forks stays
        for process in processes(copy, "worker.py"):
            with contextlib.suppress(ProcessLookupError):
                workers.add(os.getsid(process.pid))

    with meanwhile(look):
        assert "3 runs: 3 passed" in run(copy, slurm, profile)
    [job] = jobs(copy, slurm)
    assert (job["JobState"], job["TimeLimit"], job["MinMemoryNode"]) == ("COMPLETED", "00:03:00", "2000M")
    assert job["TresPerJob"] == "gres:gpu:h200:1"
    assert len(workers) == 1


def test_a_job_that_dies_is_done_again(slurm, profile, tmp_path):
    copy = adapted(tmp_path / "copy", "plain", [1, 2])
    killed = []

    def kill_the_first():
        for process in processes(copy, "measure.py")[: 1 - len(killed)]:
            process.kill()
            killed.append(process)

    with meanwhile(kill_the_first):
        assert "2 runs: 2 passed" in run(copy, slurm, profile)
    states = [(job["JobState"], job["TimeLimit"], job["MinMemoryNode"]) for job in jobs(copy, slurm)]
    assert states == [("FAILED", "00:02:00", "2000M"), ("COMPLETED", "00:04:00", "4000M")]


def test_a_job_that_failed_for_good_leaves_its_record_and_is_done_again_by_the_next_run(slurm, profile, tmp_path):
    copy = adapted(tmp_path / "copy", "plain", [1, 2])
    run(copy, slurm, profile)
    records = {path: path.read_bytes() for path in (copy.folder / "results/metrics").rglob("*.*")}
    assert len(records) == 4
    copy.edit("own/twice.py", "lambda: x + x", "lambda: 2 * x")
    broken = copy.folder / "broken/torch/__init__.py"
    broken.parent.mkdir(parents=True)
    broken.write_text("raise ImportError('no torch today')")
    options = ["--workflow-profile", f"profiles/{profile}", *(QUICK if profile == "slurm" else []), "--retries", "0"]
    variables = slurm | {"PYTHONPATH": str(broken.parent.parent)}
    result = copy.run("results/catalog.json", *options, "--config", "device=cpu", **variables)
    assert result.returncode == 1
    assert {path: path.read_bytes() for path in (copy.folder / "results/metrics").rglob("*.*")} == records
    assert "2/2 measured" in run(copy, slurm, profile)


def test_a_job_that_slurm_ends_at_its_time_limit_is_done_again_with_twice_the_time(slurm, profile, tmp_path):
    """It waits for a device that another process keeps, which is no time of a measurement."""
    copy = adapted(tmp_path / "copy", "plain")
    with contextlib.ExitStack() as kept:
        kept.enter_context(devices.held("cpu"))

        def free_at_the_limit():
            if any(job["JobState"] == "TIMEOUT" for job in jobs(copy, slurm)):
                kept.close()

        with meanwhile(free_at_the_limit):
            assert "1 run: 1 passed" in run(copy, slurm, profile)
    states = [(job["JobState"], job["TimeLimit"]) for job in jobs(copy, slurm)]
    assert states == [("TIMEOUT", "00:01:00"), ("COMPLETED", "00:02:00")]


def test_a_kernel_that_hangs_is_a_result_before_slurm_ends_its_job(slurm, tmp_path):
    copy = adapted(tmp_path / "copy", "hangs")
    assert "1 run: 1 timeout" in run(copy, slurm)
    assert [job["JobState"] for job in jobs(copy, slurm)] == ["COMPLETED"]


def test_the_smoke_suite(slurm, tmp_path):
    """96 configurations in 4 jobs, two of them at a time, which take turns on the CPU: five to ten minutes."""
    copy = adapted(tmp_path / "copy")
    assert "96 runs: 96 passed" in run(copy, slurm)
    assert [job["JobState"] for job in jobs(copy, slurm)] == ["COMPLETED"] * 4
