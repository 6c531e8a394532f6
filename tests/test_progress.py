"""The line after each measurement: what it counts, that it is there in a run, and that it never breaks one."""

import json
import logging
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Workflow, copy_workflow, empty_packages
from hypothesis import given
from hypothesis import strategies as st

from kernelcat import progress

KERNEL = """
from kernelcat.kernel import Kernel, Provider, tensor


def broken(x):
    def run():
        raise RuntimeError("it broke")

    return run


KERNEL = Kernel(
    title="Twice",
    slug="twice",
    family="twice",
    axes=("rows",),
    inputs={"x": tensor("rows")},
    outputs={"y": tensor("rows")},
    reference=lambda x: x + x,
    providers={"plain": Provider(lambda x: lambda: x + x), "broken": Provider(broken)},
)
"""
SUITE = """
twice:
  providers: [broken, plain]
  modes: [forward]
  dtypes: [fp32]
  axes: {rows: [2, 3]}
"""
OPTIONS = ["results/catalog.json", "--config", "suite=tiny", "kernels=own", "device=cpu"]


# ---- in a run


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Workflow, str]:
    """The workflow after its first run, and what that printed."""
    workflow = copy_workflow(tmp_path_factory.mktemp("progress") / "copy")
    (workflow.folder / "config/suites/tiny.yaml").write_text(SUITE)
    (workflow.folder / "own").mkdir()
    (workflow.folder / "own/twice.py").write_text(KERNEL)
    empty_packages(workflow.folder / "empty")
    result = run(workflow)
    assert result.returncode == 0, result.stdout
    return workflow, result.stdout


def run(workflow: Workflow, *arguments: str):
    return workflow.run(*OPTIONS, *arguments, PYTHONPATH=str(workflow.folder / "empty"))


def lines(text: str) -> list[str]:
    return re.findall(r"^\d+/\d+ measured.*", text, re.MULTILINE)


def test_each_measurement_has_its_line(finished):
    """The cases run from small to large, each with both providers in an order drawn from the seed."""
    said = lines(finished[1])
    assert [line.split(",")[0].split(":")[0] for line in said] == [f"{n}/4 measured" for n in (1, 2, 3, 4)]
    assert [bool(re.search(r", about \d+ s left: ", line)) for line in said] == [True, True, True, False]
    broken = [line for line in said if line.endswith("-fp32 monotonic: runtime_error: RuntimeError: it broke")]
    assert sorted(re.search(r"twice forward broken (rows\d)", line)[1] for line in broken) == ["rows2", "rows3"]
    plain = [re.search(r"twice forward plain (rows\d)-fp32 monotonic: passed [\d.]+ [nµm]s$", line) for line in said]
    assert sorted(match[1] for match in plain if match) == ["rows2", "rows3"]
    assert said[-1].startswith("4/4 measured, 2 failed: ")


@pytest.fixture
def again(finished, tmp_path) -> Workflow:
    return Workflow(Path(shutil.copytree(finished[0].folder, tmp_path / "again", copy_function=shutil.copy2)))


@pytest.mark.parametrize("arguments", [["--dry-run", "--forcerun", "measure"], ["--dry-run"], []])
def test_what_measures_nothing_says_nothing(again, arguments):
    result = run(again, *arguments)
    assert result.returncode == 0, result.stdout
    assert lines(result.stdout) == []


def test_who_wants_no_progress_gets_none_and_jobs_on_other_machines_say_nothing(again):
    record = next((again.folder / "results/metrics/cpu/twice/forward/plain").glob("*.json"))
    path = str(record.relative_to(again.folder / "results/metrics")).removesuffix(".json")
    quiet = run(again, "--forcerun", str(record.relative_to(again.folder)), "--quiet", "progress")
    remote = again.run(
        *("--mode", "remote", "--nolock", "--force", "--allowed-rules", "measure"),
        *("--target-jobs", f"measure:path={path}", *OPTIONS[1:]),
        PYTHONPATH=str(again.folder / "empty"),
    )
    for result in (quiet, remote):
        assert result.returncode == 0, result.stdout
        assert lines(result.stdout) == []
    assert "Finished jobid: 0 (Rule: measure)" in remote.stdout


# ---- what Snakemake may tell


def tell(handler: logging.Handler, event, **values) -> None:
    handler.handle(logging.makeLogRecord({"event": event, **values}))


@pytest.fixture
def handler(tmp_path, monkeypatch):
    """A handler in a folder with the records a, b and c, of which b failed; four measurements and others to come."""
    monkeypatch.chdir(tmp_path)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    for name in "abc":
        configuration = {"kernel": "softmax", "mode": "full", "provider": "liger", "protocol": "graph"}
        configuration |= {"case": {"axes": {"rows": 2}, "dtype": "bf16", "scalars": {}}, "sampling": None}
        record = {"configuration": configuration | {"device": "cuda"}, "status": "passed", "samplesMs": [1.0, 1.5, 9.0]}
        if name == "b":
            record |= {"status": "timeout", "reason": "took longer than 1 s\n\x1b[31m" + "x" * 500}
        Path("results/metrics").mkdir(parents=True, exist_ok=True)
        Path(f"results/metrics/{name}.json").write_text(json.dumps(record))
    found = progress._Progress()
    found.clock = clock
    tell(found, "run_info", stats={"measure": 4, "documents": 1, "total": 6})
    return found


def begin(handler, job: int, name: str = "a", rule: str = "measure") -> None:
    tell(handler, "job_info", jobid=job, rule_name=rule, wildcards={"path": name})


def test_counts_and_time_left(handler, capsys):
    place = "softmax full liger rows2-bf16 graph"
    begin(handler, 1)
    handler.clock.now = 20  # imports included
    tell(handler, "job_finished", job_id=1)
    assert capsys.readouterr().err == f"1/4 measured, about 60 s left: {place}: passed 1.50 ms\n"
    begin(handler, 2, "b")
    handler.clock.now = 24
    tell(handler, "job_finished", job_id=2)
    said = capsys.readouterr().err
    assert said.startswith(
        f"2/4 measured, 1 failed, about 8 s left: {place}: timeout: took longer than 1 s\\n\\u001b[31m"
    )
    assert said.endswith("x…\n") and len(said) < 300
    begin(handler, 3)
    begin(handler, 4)
    handler.clock.now = 30  # two at once, six seconds each
    tell(handler, "job_finished", job_id=3)
    assert ", about 5 s left: " in capsys.readouterr().err  # one is left; (4 + 6) / 2
    tell(handler, "job_finished", job_id=4)
    assert capsys.readouterr().err.startswith("4/4 measured, 1 failed: ")


def test_jobs_at_once_share_the_time(handler, capsys):
    for job in (1, 2):
        begin(handler, job)
    handler.clock.now = 10
    tell(handler, "job_finished", job_id=1)
    assert ", about 15 s left: " in capsys.readouterr().err  # three times ten seconds, two at once


def test_other_rules_are_not_counted(handler, capsys):
    begin(handler, 9, rule="documents")
    tell(handler, "job_finished", job_id=9)
    assert capsys.readouterr() == ("", "")


def test_a_job_that_broke_has_failed_until_a_retry_succeeds(handler, capsys):
    begin(handler, 1)
    tell(handler, "job_error", jobid=1)
    begin(handler, 2)
    tell(handler, "job_finished", job_id=2)
    assert capsys.readouterr().err.startswith("1/4 measured, 1 failed, ")
    begin(handler, 1)
    tell(handler, "job_finished", job_id=1)
    assert capsys.readouterr().err.startswith("2/4 measured, about ")


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"status": "passed"}', '{"status": "passed", "samplesMs": []}'])
def test_a_record_that_is_none_is_passed_over(handler, capsys, text):
    path = Path("results/metrics/a.json")
    path.unlink() if text is None else path.write_text(text)
    begin(handler, 1)
    tell(handler, "job_finished", job_id=1)
    assert capsys.readouterr() == ("", "")
    begin(handler, 2, "c")
    tell(handler, "job_finished", job_id=2)
    assert capsys.readouterr().err.startswith("2/4 measured, about ")


VALUES = st.sampled_from([None, 0, 1, "", "measure", [], {}, {"measure": None}, {"path": 1}, {"path": "../x"}])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["run_info", "job_info", "job_error", "job_finished", "progress", None]),
            st.dictionaries(st.sampled_from(["jobid", "job_id", "rule_name", "wildcards", "stats"]), VALUES),
        ),
        max_size=6,
    )
)
def test_whatever_snakemake_tells_nothing_is_raised(events):
    handler = progress._Progress()
    for event, values in events:
        tell(handler, event, **values)


@pytest.mark.parametrize("workflow", [object(), SimpleNamespace(is_main_process=False)])
def test_only_the_process_of_the_user_is_followed(workflow):
    before = list(logging.getLogger("snakemake.logging").handlers)
    progress.follow(workflow)
    assert logging.getLogger("snakemake.logging").handlers == before
