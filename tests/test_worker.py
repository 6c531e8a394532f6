"""The worker and those who ask it: measuring processes are forks of one process, and no end of anybody leaves anything
behind. Jobs are run as Snakemake runs them, but belong to a process of the test."""

import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from conftest import ROOT, copy_workflow, empty_packages

from kernelcat import devices, measure, worker
from kernelcat.errors import KernelcatError
from kernelcat.grid import Configuration
from kernelcat.kernel import Case
from kernelcat.timing import Sampling

KERNEL_FILE = """
import json
import os
import subprocess
import sys
import time

MODULES = sorted(sys.modules)

from kernelcat.kernel import Kernel, Provider, tensor


def say(**facts):
    facts |= {"pid": os.getpid(), "parent": os.getppid(), "group": os.getpgid(0)}
    with open(os.environ["SAID"], "a") as file:
        file.write(json.dumps(facts) + "\\\\n")


def plain(x):
    say(modules=MODULES, folder=os.getcwd(), variables=dict(os.environ))
    return lambda: x + x


def killed(x):
    say()
    os.kill(os.getpid(), 9)


def hanging(x):
    say(child=subprocess.Popen(["sleep", "603.5"]).pid)
    time.sleep(600)


def once(x):
    if os.path.exists(os.environ["SAID"]):
        return plain(x)
    return hanging(x)


def loud(x):
    print("from the provider", flush=True)
    os.system("echo from its shell; echo of its errors >&2")
    return plain(x)


def clocked(x):
    def call():
        begin = time.monotonic()
        time.sleep(0.01)
        say(begin=begin, end=time.monotonic())
        return x + x

    return call


KERNEL = Kernel(
    title="Double",
    slug="double",
    family="double",
    axes=("rows",),
    inputs={"x": tensor("rows")},
    outputs={"y": tensor("rows")},
    reference=lambda x: 2 * x,
    providers={
        name: Provider(prepare)
        for name, prepare in {
            "plain": plain,
            "killed": killed,
            "hanging": hanging,
            "once": once,
            "loud": loud,
            "clocked": clocked,
        }.items()
    },
)
""".replace("\\\\", "\\")

GRACE = 2
"""Seconds after which nothing may be left of what has to end."""


@dataclass
class Jobs:
    """Jobs of one workflow, run in `folder` by the scripts of `root`."""

    folder: Path
    workflow: subprocess.Popen
    root: Path = ROOT
    variables: dict[str, str] = field(default_factory=dict)
    count: int = 0

    @property
    def said(self) -> list[dict]:
        """What the measuring processes have said, in turn."""
        path = self.folder / "said"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def start(self, provider: str = "plain", process: str = "warm", **variables: str) -> "Job":
        self.count += 1
        return Job(self, f"job{self.count}", provider, process, variables)

    def run(self, provider: str = "plain", process: str = "warm", **variables: str) -> dict:
        """The record of a job that succeeds."""
        job = self.start(provider, process, **variables)
        assert job.process.wait(timeout=120) == 0, job.log
        return json.loads((self.folder / f"{job.name}.json").read_text())

    def wait_for_word(self, count: int = 1) -> dict:
        """What the measuring process number `count` has said."""
        until(lambda: len(self.said) >= count, seconds=120)
        return self.said[count - 1]

    def end(self) -> None:
        self.workflow.kill()
        self.workflow.wait()

    @property
    def left(self) -> list[psutil.Process]:
        """What still runs of this workflow, its jobs included."""
        return belonging_to(self.workflow.pid)


class Job:
    """A job that runs: scripts/measure.py, as the Snakefile calls it."""

    def __init__(self, jobs: Jobs, name: str, provider: str, process: str, variables: dict):
        self.folder, self.name = jobs.folder, name
        case, sampling = Case({"rows": 4}, "fp32"), Sampling(0.5, 0.2, 20)
        configuration = Configuration("double", provider, "forward", case, "monotonic", "cpu", sampling)
        options = {
            "job": json.dumps(
                {
                    "configuration": configuration.as_json(),
                    "kernels": str(jobs.folder),
                    "code": "",
                    "versions": {},
                }
            ),
            "minutes": "2",
            "process": process,
            "compile-cache": "cache",
            "after-out-of-memory": "skip",
            "order-seed": "7",
            "csv": f"{name}.csv",
            "record": f"{name}.json",
        }
        arguments = [part for key, value in options.items() for part in (f"--{key}", value)]
        own = {measure.WORKFLOW: str(jobs.workflow.pid), "SAID": str(jobs.folder / "said")}
        # not a pipe: the worker that a job starts keeps the job's output open
        with (self.folder / f"{name}.out").open("wb") as out, (self.folder / f"{name}.err").open("wb") as error:
            self.process = subprocess.Popen(
                [sys.executable, str(jobs.root / "scripts/measure.py"), *arguments],
                cwd=self.folder,
                env=os.environ | own | jobs.variables | variables,
                stdout=out,
                stderr=error,
                # what a shell starts in the background ignores interrupts, and so does what that starts
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    @property
    def log(self) -> str:
        return self.out + self.error

    @property
    def out(self) -> str:
        return (self.folder / f"{self.name}.out").read_text()

    @property
    def error(self) -> str:
        return (self.folder / f"{self.name}.err").read_text()

    @property
    def files(self) -> list[str]:
        """What it has written, but for its output."""
        return [path.name for path in self.folder.iterdir() if path.name in (f"{self.name}.csv", f"{self.name}.json")]


def until(holds, seconds: float) -> None:
    """Waits until it holds, which it shall within so many seconds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def jobs(tmp_path):
    """A workflow of its own, with a worker that starts quickly, of which nothing is left after the test."""
    (tmp_path / "double.py").write_text(KERNEL_FILE)
    variables = {"PYTHONPATH": str(empty_packages(tmp_path / "empty"))}
    found = Jobs(tmp_path, subprocess.Popen(["sleep", "3600"]), variables=variables)
    yield found
    found.end()
    until(lambda: not found.left, GRACE)


@pytest.fixture
def shared(tmp_path, workflow_process):
    """Jobs of the workflow that the tests of this file share, and so of its one worker."""
    (tmp_path / "double.py").write_text(KERNEL_FILE)
    return Jobs(tmp_path, workflow_process)


# ---- forks


def test_measuring_processes_are_forks_of_one_worker(shared):
    assert [shared.run()["status"] for _ in range(3)] == ["passed"] * 3
    first, second, third = shared.said
    assert first["parent"] == second["parent"] == third["parent"]
    assert "scripts/worker.py" in " ".join(psutil.Process(first["parent"]).cmdline())
    assert len({word["pid"] for word in shared.said}) == 3
    assert all(word["group"] == word["pid"] for word in shared.said)


def test_a_record_says_the_order_of_the_jobs(shared):
    assert shared.run()["orderSeed"] == 7


def test_a_worker_has_the_imports_and_nothing_that_a_measurement_runs_through(shared):
    shared.run()
    modules = set(shared.said[0]["modules"])
    assert set(worker.PRELOADED["cpu"]) | {"numpy"} <= modules
    code = "import sys, torch; from kernelcat import worker; print(*sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    bare = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True).stdout.split()
    own = {name for name in bare if name.startswith("kernelcat")}
    assert own == {"kernelcat", "kernelcat.worker"}


def test_a_worker_for_gpus_does_not_import_what_may_initialise_cuda():
    assert not any(name.partition(".")[0] == "liger_kernel" for name in worker.PRELOADED["cuda"])


def test_nothing_that_a_worker_for_gpus_imports_makes_torch_look_for_one():
    """Torch initialises CUDA to look, and a fork of a process that has could not use the device."""
    code = (
        "import os, torch\n"
        "torch.cuda.is_available = lambda: print('asked') or False\n"
        "from kernelcat import worker\n"
        "worker._preload('cuda', os.pidfd_open(os.getpid()))\n"
        "import sys\n"
        "print('torch._inductor.compile_fx' in sys.modules, worker._has_cuda())\n"
        "torch.cuda.is_available()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert found.stdout == "True False\nasked\n", found.stderr


def test_the_variables_and_the_folder_are_those_of_the_job(shared):
    for number, variables in enumerate([{"COLOUR": "blue"}, {"SHAPE": "round"}]):
        shared.run(**variables)
        said = shared.said[number]
        assert said["folder"] == str(shared.folder)
        assert {name: said["variables"].get(name) for name in ("COLOUR", "SHAPE")} == {
            "COLOUR": None,
            "SHAPE": None,
            **variables,
        }
        assert said["variables"]["TRITON_INTERPRET"] == "1"
        assert said["variables"]["TRITON_CACHE_DIR"] == str(shared.folder / "cache/triton")
        assert said["variables"]["TORCHINDUCTOR_CACHE_DIR"] == str(shared.folder / "cache/inductor")
        assert said["variables"]["PATH"] == os.environ["PATH"]


def test_the_output_of_a_measuring_process_is_its_job_s(shared):
    shared.run()
    job = shared.start("loud")
    assert job.process.wait(timeout=120) == 0
    *said, last = job.out.splitlines()
    assert said == ["from the provider", "from its shell"]
    assert last.startswith("cpu/double/forward/loud/rows4-fp32-monotonic-")
    assert job.error.splitlines() == ["of its errors"]


def test_edits_between_two_jobs_of_a_worker_are_seen(jobs):
    jobs.root = copy_workflow(jobs.folder / "copy").folder
    assert jobs.run()["reason"] == ""
    code, kernel = jobs.root / "scripts/kernelcat/child.py", jobs.folder / "double.py"
    text = code.read_text()
    assert text.count('"reason": ""') == 1
    code.write_text(text.replace('"reason": ""', '"reason": "edited"'))
    assert jobs.run()["reason"] == "edited"
    kernel.write_text(KERNEL_FILE.replace("x + x", "x * 2.5"))
    assert jobs.run()["status"] == "incorrect_numerical"
    assert len({word["parent"] for word in jobs.said}) == 1


def test_another_version_of_what_a_worker_has_imported_starts_another(jobs):
    jobs.run()
    for package in ("psutil", "liger_kernel"):  # the first is not among it
        folder = Path(jobs.variables["PYTHONPATH"]) / f"{package}-99.9.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 99.9\n")
        jobs.run()
    first, second, third = (word["parent"] for word in jobs.said)
    assert first == second != third


def test_another_variable_that_imports_read_starts_another(jobs):
    jobs.run()
    jobs.run(OMP_NUM_THREADS="3")
    jobs.run()
    first, second, third = (word["parent"] for word in jobs.said)
    assert first == third != second


def test_a_fresh_process_is_no_fork_of_the_worker(shared):
    assert shared.run()["status"] == shared.run(process="fresh")["status"] == "passed"
    first, second = shared.said
    assert first["parent"] != second["parent"]
    gone([second["pid"], second["parent"]])


def test_what_cannot_be_imported_beforehand_costs_the_worker_alone(jobs):
    broken = jobs.folder / "packages/transformers"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('broken')")
    assert jobs.run(PYTHONPATH=str(broken.parent))["status"] == "passed"


def test_one_measuring_process_at_a_time_whoever_asks(shared):
    """Two of one workflow, and one of none."""
    running = [shared.start("clocked"), shared.start("clocked"), shared.start("clocked", KERNELCAT_WORKFLOW="")]
    for job in running:
        assert job.process.wait(timeout=120) == 0, job.log
    spans: dict[int, list[float]] = {}
    for word in shared.said:
        spans.setdefault(word["pid"], []).extend((word["begin"], word["end"]))
    ordered = sorted((min(times), max(times)) for times in spans.values())
    assert len(ordered) == 3
    assert all(before[1] < after[0] for before, after in zip(ordered, ordered[1:], strict=False))


# ---- ends


def test_a_killed_measuring_process_is_a_result_and_the_worker_lives_on(shared):
    record = shared.run("killed")
    assert (record["status"], record["reason"]) == (
        "runtime_error",
        "the measuring process was ended by signal 9",
    )
    assert shared.run()["status"] == "passed"
    first, second = shared.said
    assert first["parent"] == second["parent"]


def test_the_end_of_the_worker_costs_a_fresh_process_and_leaves_nothing(jobs):
    job = jobs.start("once")
    first = jobs.wait_for_word()
    os.kill(first["parent"], signal.SIGKILL)
    assert job.process.wait(timeout=120) == 0, job.log
    assert json.loads((jobs.folder / f"{job.name}.json").read_text())["status"] == "passed"
    second = jobs.said[1]
    assert second["parent"] != first["parent"]
    gone([first["pid"], first["child"], second["pid"], second["parent"]])
    assert jobs.run()["status"] == "passed"
    assert jobs.said[2]["parent"] not in (first["parent"], second["parent"])


def test_the_end_of_a_worker_that_still_imports_costs_a_fresh_process(jobs):
    job = jobs.start()
    until(lambda: workers(jobs), seconds=60)
    time.sleep(0.5)
    for pid in workers(jobs):
        os.kill(pid, signal.SIGKILL)
    assert job.process.wait(timeout=120) == 0, job.log
    assert len(jobs.said) == 1


def test_the_end_of_the_workflow_is_the_end_of_all(jobs):
    job = jobs.start("hanging")
    said = jobs.wait_for_word()
    jobs.end()
    gone([job.process.pid, said["pid"], said["child"], said["parent"]], job.process)
    assert job.process.returncode == 1
    assert job.error.splitlines()[0] == "kernelcat: the workflow has ended"
    assert job.files == []


@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.0])
def test_the_end_of_the_workflow_ends_a_worker_that_still_imports(jobs, seconds):
    job = jobs.start()
    until(lambda: workers(jobs), seconds=60)
    time.sleep(seconds)
    jobs.end()
    until(lambda: not jobs.left, GRACE)
    assert (job.process.wait(), job.files) == (1, [])
    assert jobs.said == []


def test_a_job_whose_workflow_has_ended_writes_nothing(jobs):
    jobs.end()
    job = jobs.start()
    assert job.process.wait(timeout=60) == 1
    assert (job.out, job.error, job.files) == ("", "kernelcat: the workflow has ended\n", [])


def test_a_job_that_waits_for_the_device_ends_with_its_workflow(jobs):
    with devices.held("cpu"):
        job = jobs.start()
        time.sleep(1)
        assert (job.process.poll(), workers(jobs)) == (None, [])
        jobs.end()
        gone([], job.process)
    assert (job.process.returncode, job.error) == (1, "kernelcat: the workflow has ended\n")


def test_what_a_job_took_leaves_out_its_wait_for_the_device(shared):
    """Estimates add up what configurations took; with more jobs than devices their waits overlap."""
    shared.run()  # or the worker's imports count
    start = time.monotonic()
    with devices.held("cpu"):
        job = shared.start()
        time.sleep(3)
    assert job.process.wait() == 0
    [record] = [json.loads((shared.folder / name).read_text()) for name in job.files if name.endswith(".json")]
    assert record["samplingSeconds"] < record["jobSeconds"] < time.monotonic() - start - 2
    assert "waitedSeconds" not in record


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, -15), (signal.SIGINT, 130)], ids=["kill", "term", "int"]
)
def test_the_end_of_a_job_is_the_end_of_what_it_measures_with(shared, number, code):
    job = shared.start("hanging")
    said = shared.wait_for_word()
    job.process.send_signal(number)
    gone([said["pid"], said["child"]], job.process)
    assert (job.process.returncode, job.log, job.files) == (code, "", [])
    assert shared.run()["status"] == "passed"
    assert shared.said[1]["parent"] == said["parent"]


# ---- those who ask


def connection(jobs: Jobs) -> socket.socket:
    return measure._connected(measure._Process.of(jobs.workflow.pid), "cpu")


@pytest.mark.parametrize("sent", [b"", b"x", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_worker_survives_who_asks_for_nothing(shared, sent):
    with connection(shared) as peer:
        peer.sendall(sent)
    assert shared.run()["status"] == "passed"


def test_somebody_else_is_no_peer(monkeypatch):
    ours, other = socket.socketpair()
    with ours, other:
        assert worker.is_ours(ours) and worker.is_ours(other)
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
        assert not worker.is_ours(ours)


def test_a_worker_forks_nothing_for_somebody_else(monkeypatch):
    monkeypatch.setattr(worker, "is_ours", lambda peer: False)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked for somebody else"))
    name = f"\0kernelcat test {os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as peer:
        listener.bind(name)
        listener.listen()
        peer.connect(name)
        assert worker._accept(listener, {}, []) is None
        assert peer.recv(1) == b""


@pytest.mark.skipif(os.getuid() != 0, reason="needs a user that may become another one")
def test_a_worker_answers_no_other_user(shared):
    shared.run()
    with connection(shared) as peer:
        name = peer.getpeername()
    program = "import socket, sys; peer = socket.socket(socket.AF_UNIX); peer.connect(bytes.fromhex(sys.argv[1]))"
    program += "; print(peer.recv(1))"
    asked = subprocess.run(
        ["/usr/bin/env", "python3", "-c", program, name.hex()], user=65534, capture_output=True, text=True, cwd="/"
    )
    assert asked.stdout == "b''\n", asked.stderr
    assert shared.run()["status"] == "passed"


def test_a_job_gives_nothing_to_a_worker_of_somebody_else(shared, monkeypatch):
    monkeypatch.setattr(worker, "is_ours", lambda peer: False)
    monkeypatch.setenv(measure.WORKFLOW, str(shared.workflow.pid))
    configuration = Configuration("double", "plain", "forward", Case({"rows": 4}, "fp32"), "monotonic", "cpu")
    with pytest.raises(KernelcatError, match="the measuring process was lost with its worker"):
        measure.measure(configuration, str(shared.folder), 60)
    assert shared.said == []


# ---- processes


def workers(jobs: Jobs) -> list[int]:
    lifeline = ["--lifeline", str(jobs.workflow.pid)]
    return [
        process.pid for process in jobs.left if lifeline[1] in process.cmdline() and lifeline[0] in process.cmdline()
    ]


def belonging_to(workflow: int) -> list[psutil.Process]:
    """The processes whose environment says that they belong to the workflow; zombies have none."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(measure.WORKFLOW) == str(workflow):
                found.append(process)
    return found


def gone(processes: list, child: subprocess.Popen | None = None) -> None:
    """Waits until they have ended, which takes GRACE at most."""
    end = time.monotonic() + GRACE
    if child:
        child.wait(timeout=GRACE)
    pids = [process if isinstance(process, int) else process.pid for process in processes]
    while alive := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < end, alive
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_what_a_measuring_process_started_ends_although_worker_and_workflow_are_killed(jobs):
    job = jobs.start("hanging")
    said = jobs.wait_for_word()
    job.process.send_signal(signal.SIGSTOP)
    os.kill(said["parent"], signal.SIGKILL)
    jobs.end()
    time.sleep(0.5)
    job.process.send_signal(signal.SIGCONT)
    gone([said["pid"], said["child"]], job.process)


def test_who_connects_and_says_nothing_does_not_keep_a_worker_from_its_end(jobs):
    jobs.run()
    found = workers(jobs)
    with connection(jobs):
        time.sleep(0.3)
        jobs.end()
        psutil.wait_procs([psutil.Process(pid) for pid in found if psutil.pid_exists(pid)], worker.REQUEST_SECONDS + 3)
        gone(found)


def test_a_worker_that_does_not_listen_yet_is_waited_for(jobs, monkeypatch):
    listen = socket.socket.listen

    def slowly(self, backlog):
        time.sleep(0.5)
        return listen(self, backlog)

    monkeypatch.setattr(socket.socket, "listen", slowly)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for asked in [pool.submit(connection, jobs) for _ in range(2)]:
            asked.result().close()
