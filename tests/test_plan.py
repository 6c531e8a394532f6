"""`kernelcat plan`: it agrees with Snakemake about what would be measured, says why, and for how long."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, Workflow, copy_workflow, empty_packages
from hypothesis import given
from hypothesis import strategies as st

from kernelcat import cli, files, grid, plan

SUITE = """
softmax:
  providers: [liger, torch, torch_compile]
  modes: [forward]
  dtypes: [fp32]
  axes: {rows: 2, hidden: 8}
cross_entropy:
  providers: [torch]
  modes: [full]
  dtypes: [fp32]
  axes: {tokens: 4, vocab: 16}
"""
ENTROPY = "cross_entropy/full/torch/tokens4-vocab16-fp32"
LIGER, TORCH = (f"softmax/forward/{provider}/hidden8-rows2-fp32" for provider in ("liger", "torch"))
EVERYTHING = {ENTROPY, LIGER, TORCH}


def python(folder: Path, program: str, *arguments: str, path: str = "") -> subprocess.CompletedProcess:
    """Runs a program with the package that was copied to the folder, there, with more packages from `path`."""
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder / "scripts"), path)))}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)


def agreed(workflow: Workflow, path: str = "", **overrides: str | int) -> dict[str, str]:
    """What would be measured, with why; Snakemake must say the same."""
    program = "import json, sys; from kernelcat import plan; print(json.dumps(plan.plan(json.loads(sys.argv[1])).rows))"
    done = python(workflow.folder, program, json.dumps(overrides), path=path)
    assert done.returncode == 0, done.stderr
    rows = [row for row in json.loads(done.stdout) if row["runs"]]
    found = {
        "/".join(row[key] for key in ("kernel", "mode", "provider", "case")): ": ".join(
            filter(None, (row["why"], row["detail"]))
        )
        for row in rows
    }
    options = ["--config", *(f"{key}={value}" for key, value in overrides.items())] if overrides else []
    assert sorted(found) == workflow.measured(*options, **({"PYTHONPATH": path} if path else {}))
    return found


def said(workflow: Workflow, *arguments: str) -> str:
    """What the command prints."""
    program = "import sys; from kernelcat.cli import main; sys.exit(main(['plan', *sys.argv[1:]]))"
    done = python(workflow.folder, program, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def record(workflow: Workflow, kernel: str) -> Path:
    return next((workflow.folder / "results/metrics/cpu" / kernel).rglob("*.json"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Workflow:
    workflow = copy_workflow(tmp_path_factory.mktemp("plan") / "copy")
    (workflow.folder / "config/suites/tiny.yaml").write_text(SUITE)
    workflow.edit("config/config.yaml", "suite: smoke", "suite: tiny")
    workflow.edit("config/config.yaml", "device: auto", "device: cpu")
    assert agreed(workflow) == dict.fromkeys(EVERYTHING, "new")
    assert "3 configurations: 3 to measure (3 new); about 4 s (3 unknown, guessed)\n" in said(workflow)
    result = workflow.run("results/catalog.json")
    assert result.returncode == 0, result.stdout
    return workflow


@pytest.fixture
def again(finished, tmp_path) -> Workflow:
    return Workflow(Path(shutil.copytree(finished.folder, tmp_path / "again", copy_function=shutil.copy2)))


# ---- Snakemake and the plan agree


def test_nothing_after_a_run(finished):
    assert agreed(finished) == {}
    text = said(finished)
    assert "3 configurations: 0 to measure, 3 up to date\nleft out 1 configuration of torch_compile: " in text
    assert text.count(" passed") == 3


def test_other_axes(again):
    again.edit("config/suites/tiny.yaml", "{tokens: 4, vocab: 16}", "{tokens: 4, vocab: [32, 64]}")
    moved = {ENTROPY.replace("16", size): "axes changed" for size in ("32", "64")}
    assert agreed(again) == moved
    assert "1 record of configurations that are no longer in the suite\n" in said(again)


def test_more_axes_are_new(again):
    again.edit("config/suites/tiny.yaml", "{tokens: 4, vocab: 16}", "{tokens: 4, vocab: [16, 32]}")
    assert agreed(again) == {ENTROPY.replace("16", "32"): "new"}


def test_an_edited_kernel_and_an_edited_comment(again):
    again.edit("scripts/kernelcat/kernels/softmax.py", "def reference", "# why\n\n\ndef reference")
    assert agreed(again) == {}
    again.edit("scripts/kernelcat/kernels/softmax.py", "exponentials", "powers")
    assert agreed(again) == dict.fromkeys((LIGER, TORCH), "kernel changed")


def test_edited_measuring_code(again):
    with (again.folder / "scripts/kernelcat/timing.py").open("a") as file:
        file.write("\nCHANGED = True\n")
    assert agreed(again) == dict.fromkeys(EVERYTHING, "kernel changed")


def test_another_version_of_a_package(again, tmp_path):
    before = files.load(record(again, "softmax/forward/liger"))["versions"]["liger-kernel"]
    folder = tmp_path / "packages/liger_kernel-99.9.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: liger_kernel\nVersion: 99.9\n")
    change = f"liger-kernel {before} → 99.9"
    assert agreed(again, str(folder.parent)) == {LIGER: f"version changed: {change}"}
    again.edit("scripts/kernelcat/kernels/softmax.py", "exponentials", "powers")
    assert agreed(again, str(folder.parent)) == {LIGER: f"kernel changed: {change}", TORCH: "kernel changed"}


def test_another_sampling(again):
    again.edit("config/config.yaml", "seconds: 1 ", "seconds: 2 ")
    assert agreed(again) == dict.fromkeys(EVERYTHING, "sampling changed")


def test_how_jobs_run(again):
    assert agreed(again, process="fresh", order_seed=5, compile_cache="elsewhere") == {}


def test_another_suite_by_an_override(again):
    (again.folder / "config/suites/other.yaml").write_text(SUITE.replace("vocab: 16", "vocab: 8"))
    assert agreed(again, suite="other") == {ENTROPY.replace("16", "8"): "axes changed"}
    assert "3 configurations: 1 to measure (1 axes changed), 2 up to date; " in said(again, "--config", "suite=other")


def test_a_missing_record_is_noticed_only_along_with_something_else(again):
    record(again, "cross_entropy").unlink()
    assert agreed(again) == {}
    text = said(again)
    assert "3 configurations: 0 to measure, 2 up to date, 1 record missing\n" in text
    assert "--forcerun RECORD measures it again" in text
    again.edit("scripts/kernelcat/kernels/softmax.py", "exponentials", "powers")
    assert agreed(again) == {ENTROPY: "record missing", LIGER: "kernel changed", TORCH: "kernel changed"}


def test_a_missing_record_is_noticed_when_documents_are_made_again(again):
    record(again, "cross_entropy").unlink()
    (again.folder / "results/catalog.json").unlink()
    assert agreed(again) == {}  # every document is still there
    shutil.rmtree(again.folder / "results/documents")
    assert set(agreed(again)) == {ENTROPY}


def test_a_removed_configuration_is_stale(again):
    again.edit("config/suites/tiny.yaml", "providers: [liger, torch, torch_compile]", "providers: [torch]")
    assert agreed(again) == {}
    assert "2 configurations: 0 to measure, 2 up to date\n1 record of configurations that are no l" in said(again)


def test_measured_again_is_up_to_date(again):
    again.edit("scripts/kernelcat/kernels/cross_entropy.py", "def reference", "CHANGED = True\n\n\ndef reference")
    [(path, why)] = agreed(again).items()
    assert (path, why) == (ENTROPY, "kernel changed")
    packages = empty_packages(again.folder / "empty")
    assert again.run("results/catalog.json", PYTHONPATH=str(packages)).returncode == 0
    assert agreed(again) == {}


def test_an_older_record_says_less(again):
    """Without its code, a change of it shows by the conditions; how long the job took is not known."""
    for path in (again.folder / "results/metrics").rglob("*.json"):
        values = json.loads(path.read_text())
        assert values.pop("code") and values.pop("digest") and values.pop("jobSeconds") > values["samplingSeconds"]
        path.write_text(json.dumps(values))
    program = "from kernelcat import plan; print([row['why'] for row in plan.plan({}).rows])"
    assert python(again.folder, program).stdout == f"{['up to date'] * 3}\n"
    again.edit("scripts/kernelcat/kernels/softmax.py", "exponentials", "powers")
    assert agreed(again) | {ENTROPY: ""} == {LIGER: "kernel changed", TORCH: "kernel changed", ENTROPY: ""}
    assert "2 to measure (2 kernel changed), 1 up to date; about 3 s (2 unknown, guessed)" in said(again)


# ---- the command


def test_it_imports_neither_torch_nor_triton_nor_pandas(finished):
    program = (
        "import sys; from kernelcat.cli import main; main(['plan', '--config', 'device=cuda']); print(*sys.modules)"
    )
    modules = python(finished.folder, program).stdout.splitlines()[-1].split()
    assert "kernelcat.plan" in modules
    assert not {"torch", "triton", "pandas", "transformers", "liger_kernel", "snakemake"} & set(modules)


def test_filters_choose_rows_and_what_is_counted(finished):
    lines = said(finished, "--provider", "liger,torch", "--workload", "hidden8", "--device", "cpu").splitlines()
    assert [line.split()[:3] for line in lines[2:4]] == [["softmax", "forward", p] for p in ("liger", "torch")]
    assert lines[4] == "2 configurations: 0 to measure, 2 up to date"
    assert "no configurations\n0 configurations: 0 to measure\n" in said(finished, "--status", "timeout")


def test_a_gpu_is_planned_without_one(finished):
    """Four configurations with torch.compile's, four that calibrate the GPU."""
    text = said(finished, "--config", "device=cuda", "protocol={cuda: graph}")
    assert "8 configurations: 8 to measure (8 new); about 18 s (8 unknown, guessed)\n" in text  # 8 · 1.5 s + 6 s


def test_code_of_another_copy_is_refused(finished, capsys):
    """Its digests would say that every kernel changed."""
    assert cli.main(["plan", "--directory", str(finished.folder)]) == 1
    assert capsys.readouterr().err.startswith("kernelcat: scripts/kernelcat: expected the code of this command")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["device=tpu"], 'config/config.yaml: device: expected one of auto, cuda, cpu, found "tpu"'),
        (["suite=none"], "config/config.yaml: suite: expected one of "),
        (["order_seed=x"], "config/config.yaml: order_seed: expected an integer of at least 0"),
    ],
)
def test_a_bad_config_is_one_line(capsys, monkeypatch, arguments, line):
    monkeypatch.chdir(ROOT)
    assert cli.main(["plan", "--config", *arguments]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"kernelcat: {line}")


@pytest.mark.parametrize("text", ["suite", "=smoke", "protocol={", "seed=1: 2: 3"])
def test_what_is_no_override_is_wrong_usage(capsys, text):
    with pytest.raises(SystemExit) as caught:
        cli.main(["plan", "--config", text])
    assert caught.value.code == 2
    assert "argument --config: " in capsys.readouterr().err


# ---- records by hand: a GPU's, with the job times that are wanted


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The working directory, with the project's config and a suite of one kernel for a GPU."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    suite = {"softmax": {"providers": ["torch", "liger"], "modes": ["forward"], "dtypes": ["fp32"]}}
    suite["softmax"]["axes"] = {"rows": 2, "hidden": 8}
    (tmp_path / "config/suites/one.yaml").write_text(json.dumps(suite))
    monkeypatch.chdir(tmp_path)
    return tmp_path


OVERRIDES = {"suite": "one", "device": "cuda", "protocol": {"cuda": "graph"}}


def configurations(**overrides) -> list[grid.Configuration]:
    """Those of softmax: torch's, then liger's."""
    config = plan._updated(files.load("config/config.yaml"), OVERRIDES | overrides)
    return [found for found in grid.expand(config).configurations if found.kernel == "softmax"]


def write(configuration: grid.Configuration, **changes) -> None:
    """Its record, under the conditions of softmax."""
    conditions = grid.conditions("softmax", "liger" if configuration.provider == "liger" else "torch")
    values = {
        "configuration": configuration.as_json(),
        "status": "passed",
        "code": conditions["code"],
        "versions": conditions["versions"],
        "conditions": grid.conditions_digest(conditions),
    }
    path = Path("results/metrics") / f"{configuration.path}.json"
    files.write(path, json.dumps(values | changes).encode())


def rows(**overrides) -> list[dict]:
    return [row for row in plan.plan(OVERRIDES | overrides).rows if row["kernel"] == "softmax"]


def test_another_protocol(folder):
    [torch, liger] = configurations()
    write(torch)
    [changed, new] = rows(protocol={"cuda": "events"})
    assert (changed["why"], changed["detail"], new["why"]) == ("protocol changed", "graph → events", "new")
    found = {(row["provider"], row["protocol"]): row["why"] for row in rows(protocol={"cuda": ["graph", "events"]})}
    assert found[("torch", "graph")] == "up to date"
    assert set(found.values()) == {"up to date", "new"}


def test_another_scalar_is_another_case(folder):
    suite = Path("config/suites/one.yaml")
    entry = {"providers": ["liger"], "modes": ["full"], "dtypes": ["fp32"], "axes": {"rows": 2, "hidden": 8}}
    suite.write_text(json.dumps({"rms_norm": entry | {"scalars": {"eps": 1e-06}}}))
    write(grid.expand(plan._updated(files.load("config/config.yaml"), OVERRIDES)).configurations[0])
    suite.write_text(suite.read_text().replace("1e-06", "1e-05"))
    assert plan.plan(OVERRIDES).rows[0]["why"] == "axes changed"


def test_the_last_status_of_what_does_not_run(folder):
    write(configurations()[0], status="resource_exceeded")
    assert [(row["runs"], row["status"]) for row in rows()] == [(False, "resource_exceeded"), (True, None)]


@pytest.mark.parametrize(
    ("relative", "seconds"),
    [
        ({}, 7),
        ({"mode": "backward"}, 7),
        ({"protocol": "events"}, 7),  # the same provider
        ({"kernel": "rms_norm"}, 7),
        ({"kernel": "rms_norm", "provider": "huggingface", "mode": "full"}, 7),  # better than nothing
        ({"device": "cpu"}, 1.5),  # says nothing about a GPU
    ],
)
def test_times_come_from_relatives(folder, relative, seconds):
    torch = configurations()[0]
    write(replace(torch, **relative), jobSeconds=7, conditions="before")
    row = rows()[0]
    assert (row["seconds"], row["guess"]) == (seconds, seconds == 1.5)


def test_times_come_from_the_nearest_relative(folder):
    torch, liger = configurations()
    write(replace(liger, kernel="rms_norm"), jobSeconds=30)
    assert [row["seconds"] for row in rows()] == [30, 30]
    write(replace(torch, kernel="rms_norm"), jobSeconds=20)
    assert [row["seconds"] for row in rows()] == [20, 30]
    for seconds, mode in ((3, "backward"), (4, "full"), (11, "no-grad-forward")):
        write(replace(torch, mode=mode), jobSeconds=seconds)
    assert [row["seconds"] for row in rows()] == [4, 30]  # the median
    write(torch, jobSeconds=9, conditions="before")
    assert [row["seconds"] for row in rows()] == [9, 30]


CELLS = st.builds(
    grid.Configuration,
    kernel=st.sampled_from(["a", "b"]),
    provider=st.sampled_from(["liger", "torch", "torch_compile"]),
    mode=st.just("full"),
    case=st.integers(1, 9).map(lambda rows: grid.Case({"rows": rows}, "fp32", {})),
    protocol=st.sampled_from(["graph", "events"]),
    device=st.just("cuda"),
)


@given(CELLS, st.dictionaries(CELLS.map(lambda cell: cell.path), st.tuples(CELLS, st.floats(0, 600)), max_size=9))
def test_a_known_time_is_within_those_measured(cell, measured):
    records = [plan.Record(found, "passed", {}, None, None, seconds) for found, seconds in measured.values()]
    seconds, guess = plan._Expected(records).seconds(cell)
    assert guess == (not records)
    known = [record.job_seconds for record in records] or [1.5, 7.5]
    assert min(known) <= seconds <= max(known)


@pytest.mark.parametrize("text", ["[]", "{}", '{"configuration": 1}', '{"configuration": {"sampling": null}}', "{"])
def test_a_file_that_is_no_record_is_named(folder, capsys, text):
    files.write("results/metrics/cuda/x.json", text.encode())
    assert cli.main(["plan", "--config", "suite=one", "device=cuda"]) == 1
    assert capsys.readouterr().err.startswith("kernelcat: results/metrics/cuda/x.json: ")
