"""The pipeline, by running Snakemake itself on a tiny grid: what it makes, what it makes again, how it fails."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import ROOT, Workflow, copy_workflow

from kernelcat import catalog, cli, files, grid, metrics, schema
from kernelcat.grid import Configuration

SEED = ROOT / "tests/data/seed/rms_norm-backward-huggingface-a100.csv"
SEED_RUN = "sha256:21df0b654e59f793c2f8d87b3f81249867881ad9ca5ae2325bc218aebafbab14"

SUITE = """
softmax:
  providers: [liger, torch, torch_compile]
  modes: [forward]
  dtypes: [fp32]
  axes: {rows: 2, hidden: 8}
  cases:
    - axes: {rows: 2, hidden: 16}
cross_entropy:
  providers: [torch]
  modes: [full]
  dtypes: [fp32]
  axes: {tokens: 4, vocab: 16}
"""
TWICE = """
twice:
  providers: [plain]
  modes: [forward]
  dtypes: [fp32]
  axes: {rows: 2}
"""
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
    providers={"plain": Provider(lambda x: lambda: x + x)},
)
"""
BAD_KERNELS = {
    "bad_names": ("providers={", 'providers={"../x": Provider(None), '),
    "bad_shapes": ('"y": tensor("rows")', '"y": tensor("lines")'),
    "bad_helper": ("Twice", "Two"),
    "bad_slug": ('slug="twice"', 'slug="../../x"'),
    "bad_providers": ("providers={", 'providers={"x" * 101: Provider(None), '),
    "bad_error": ("KERNEL = ", 'raise ValueError("<b>\\x1b[31m\\nand more")\nKERNEL = '),
}
SHELL = "x y; $(touch pwned) `touch pwned` 'a' \"b\" &"
SOFTMAX = [
    f"softmax/forward/{provider}/hidden{hidden}-rows2-fp32" for provider in ("liger", "torch") for hidden in (16, 8)
]
EVERYTHING = ["cross_entropy/full/torch/tokens4-vocab16-fp32", *SOFTMAX]


def set_up(workflow: Workflow, imports: str = "{}") -> None:
    (workflow.folder / "config/suites/tiny.yaml").write_text(SUITE)
    workflow.edit("config/config.yaml", "suite: smoke", "suite: tiny")
    workflow.edit("config/config.yaml", "device: auto", "device: cpu")
    workflow.edit("config/config.yaml", "imports: {}", f"imports: {imports}")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Workflow, str]:
    """The workflow after its first run, and what that printed."""
    workflow = copy_workflow(tmp_path_factory.mktemp("workflow") / "copy")
    set_up(workflow)
    result = workflow.run("results/catalog.json")
    assert result.returncode == 0, result.stdout
    return workflow, result.stdout


@pytest.fixture
def again(finished, tmp_path) -> Workflow:
    """A copy of the finished workflow that a test may change."""
    return Workflow(Path(shutil.copytree(finished[0].folder, tmp_path / "again", copy_function=shutil.copy2)))


def test_every_configuration_has_a_csv_a_record_and_a_valid_document(finished):
    results = finished[0].folder / "results"
    records = sorted((results / "metrics").rglob("*.json"))
    assert len(records) == len(EVERYTHING)
    for path in records:
        record = json.loads(path.read_text())
        [(_, row)] = metrics.read(path.with_suffix(".csv"))
        assert (row.metric_name, row.metric_unit, row.kernel_name) == ("speed", "ms", record["configuration"]["kernel"])
        document = results / "documents/runs" / path.relative_to(results / "metrics")
        assert schema.faults(files.load(document)) == []


def test_the_catalog_holds_every_run_and_verifies(finished, capsys):
    path = finished[0].folder / "results/catalog.json"
    found = catalog.read(path)
    assert found["summary"]["runs"] == {"passed": len(EVERYTHING)}
    assert cli.main(["verify", str(path)]) == 0
    assert "every digest and reference holds" in capsys.readouterr().out


def test_jobs_run_in_the_order_that_the_seed_draws(finished):
    """One after the other, so the order is that of their starts."""
    paths = re.findall(r"wildcards: path=(\S+)", finished[1])
    assert len(paths) == len(EVERYTHING)
    records = [json.loads(path.read_text()) for path in (finished[0].folder / "results/metrics").rglob("*.json")]
    places = grid.Grid([Configuration.from_json(record["configuration"]) for record in records], []).priorities(0)
    assert paths == sorted(paths, key=places.get, reverse=True)
    assert {record["orderSeed"] for record in records} == {0}


def test_no_process_outlives_the_workflow(finished):
    """Its worker does not, which serves all jobs and is none of Snakemake's own processes."""
    folder = str(finished[0].folder)
    end = time.monotonic() + 2
    while left := [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == folder]:
        assert time.monotonic() < end, left
        time.sleep(0.05)


def test_the_summary_counts_runs_and_what_was_left_out(finished):
    assert "5 runs: 5 passed" in finished[1]
    assert "left out 2 configurations of torch_compile: compiled code is measured on GPUs only" in finished[1]


def test_a_second_run_does_nothing(again):
    before = {path: path.stat().st_mtime_ns for path in (again.folder / "results").rglob("*") if path.is_file()}
    result = again.run("results/catalog.json")
    assert "Nothing to be done" in result.stdout
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_changed_case_is_measured_alone(again):
    again.edit("config/suites/tiny.yaml", "{tokens: 4, vocab: 16}", "{tokens: 4, vocab: 32}")
    assert again.measured() == ["cross_entropy/full/torch/tokens4-vocab32-fp32"]


def test_comments_and_reordering_measure_nothing(again):
    again.edit(
        "config/suites/tiny.yaml", "providers: [liger, torch, torch_compile]", "providers: [torch, liger]  # two"
    )
    again.edit("scripts/kernelcat/kernels/softmax.py", "def reference", "# why\n\n\ndef reference")
    again.edit("scripts/kernelcat/timing.py", "import gc", "import gc  # for the loop")
    assert again.measured() == []


def test_an_edited_kernel_is_measured_alone(again):
    again.edit("scripts/kernelcat/kernels/softmax.py", "exponentials", "powers")
    assert again.measured() == SOFTMAX


def test_how_jobs_run_measures_nothing_again(again):
    changes = ("order_seed: 0", "order_seed: 5"), ("process: warm", "process: fresh"), (".cache", "elsewhere")
    for old, new in changes:
        again.edit("config/config.yaml", old, new)
    assert again.measured() == []


def test_another_sampling_measures_everything(again):
    again.edit("config/config.yaml", "seconds: 1 ", "seconds: 2 ")
    assert again.measured() == EVERYTHING


def test_fresh_processes_make_the_same_catalog(again):
    again.edit("config/config.yaml", "process: warm", "process: fresh")
    record = next((again.folder / "results/metrics/cpu/cross_entropy").rglob("*.json"))
    before = json.loads(record.read_text())
    result = again.run("results/catalog.json", "--forcerun", str(record.relative_to(again.folder)))
    assert result.returncode == 0, result.stdout
    after = json.loads(record.read_text())
    assert after["observedAt"] != before["observedAt"]
    assert {key for key in before if after[key] != before[key]} <= {
        "compileSeconds",
        "digest",
        "jobSeconds",
        "observedAt",
        "samplesMs",
        "samplingSeconds",
    }
    assert "5 runs: 5 passed" in result.stdout


@pytest.mark.parametrize("module", ["child", "timing", "correctness", "measure", "kernel", "worker"])
def test_changed_measuring_code_measures_everything(again, module):
    path = again.folder / f"scripts/kernelcat/{module}.py"
    path.write_text(path.read_text() + "\nCHANGED = True\n")
    assert again.measured() == EVERYTHING


def test_another_version_of_a_package_measures_what_uses_it(again, tmp_path):
    for package, expected in (("liger_kernel", SOFTMAX[:2]), ("transformers", [])):
        folder = tmp_path / package / f"{package}-99.9.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 99.9\n")
        assert again.measured(PYTHONPATH=str(folder.parent)) == expected


def test_a_removed_configuration_leaves_the_catalog_and_its_files_stay(again):
    again.edit("config/suites/tiny.yaml", "  cases:\n    - axes: {rows: 2, hidden: 16}\n", "")
    assert again.measured() == []
    before = sorted((again.folder / "results/metrics").rglob("*.json"))
    assert again.run("results/catalog.json").returncode == 0
    found = catalog.read(again.folder / "results/catalog.json")
    assert found["summary"]["runs"] == {"passed": 3}
    assert not any("hidden16" in manifest["metadata"]["name"] for manifest in found["objects"].values())
    assert sorted((again.folder / "results/metrics").rglob("*.json")) == before
    assert len(list((again.folder / "results/documents/runs").rglob("*.json"))) == 3


def test_a_configuration_can_be_asked_to_run_again(again):
    record = next((again.folder / "results/metrics/cpu/cross_entropy").rglob("*.json"))
    assert again.measured("--forcerun", str(record.relative_to(again.folder))) == EVERYTHING[:1]


def test_a_folder_of_own_kernels_measures_nothing_again(again):
    (again.folder / "own").mkdir()
    for spelling in ("own", "./own/"):
        assert again.measured("--config", f"kernels={spelling}") == []


def test_a_failing_job_leaves_the_last_catalog(again):
    document = next((again.folder / "results/documents/runs").rglob("*.json"))
    document.write_text(document.read_text().replace('"passed"', '"timeout"'))
    before = (again.folder / "results/catalog.json").read_bytes()
    result = again.run("results/catalog.json", "--forcerun", "catalog")
    assert result.returncode == 1
    assert f"kernelcat: {document.relative_to(again.folder)}: expected the document as it was made" in result.stdout
    assert (again.folder / "results/catalog.json").read_bytes() == before


def test_a_killed_job_leaves_its_files_and_is_done_again(again):
    record = next((again.folder / "results/metrics/cpu/cross_entropy").rglob("*.json"))
    before = record.read_bytes()
    arguments = ["results/catalog.json", "--forcerun", str(record.relative_to(again.folder))]
    killed = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--cores", "1", *arguments],
        cwd=again.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (jobs := [child for child in children(killed) if "scripts/measure.py" in child.cmdline()]):
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    psutil.wait_procs(jobs, timeout=60)
    assert json.loads(record.read_bytes())["status"] == json.loads(before)["status"] == "passed"
    assert again.run("--unlock").returncode == 0
    assert again.measured() == EVERYTHING[:1]


def children(process: subprocess.Popen) -> list[psutil.Process]:
    """What the process has started, as far as it still lives."""
    try:
        return [child for child in psutil.Process(process.pid).children(recursive=True) if child.is_running()]
    except psutil.NoSuchProcess:
        return []


def test_the_catalog_is_compared_with_an_older_one(again, finished):
    older = finished[0].folder / "results/catalog.json"
    result = again.run("results/comparison.md", "--config", f"baseline={older}")
    assert result.returncode == 0, result.stdout
    results = again.folder / "results"
    assert f"{len(EVERYTHING)} configurations: " in (results / "comparison.md").read_text()
    found = json.loads((results / "comparison.json").read_text())
    assert len(found["pairs"]) == len(EVERYTHING)
    assert all(pair["verdict"] == "unchanged" and pair["old"] == pair["new"] for pair in found["pairs"])
    assert (results / "comparison.xml").read_text().startswith("<testsuite ")


def test_a_comparison_without_a_baseline_says_so(again):
    result = again.run("results/comparison.md")
    assert result.returncode == 1
    assert "baseline is not set in config/config.yaml" in result.stdout
    assert "Traceback" not in result.stdout


def test_imported_runs_join_the_catalog(again):
    shutil.copy(SEED, again.folder / "a100.csv")
    again.edit("config/config.yaml", "imports: {}", "imports: {a100: a100.csv}")
    assert again.run("results/catalog.json").returncode == 0
    found = catalog.read(again.folder / "results/catalog.json")
    assert SEED_RUN in found["objects"]
    assert found["summary"]["runs"] == {"passed": len(EVERYTHING) + 1}
    report = json.loads((again.folder / "results/imports/a100/report.json").read_text())
    assert (report["rows"], report["imported"], report["entries"]) == (1, {"speed": 1}, [])


def test_an_import_that_cannot_be_read_fails_with_one_line(again):
    (again.folder / "bad.csv").write_text("kernel_name,provider\n")
    again.edit("config/config.yaml", "imports: {}", "imports: {bad: bad.csv}")
    before = (again.folder / "results/catalog.json").read_bytes()
    result = again.run("results/catalog.json")
    assert result.returncode == 1
    assert "kernelcat: bad.csv: header: expected the 15 columns" in result.stdout
    assert "Traceback" not in result.stdout
    assert (again.folder / "results/catalog.json").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["device=tpu"], 'config/config.yaml: device: expected one of auto, cuda, cpu, found "tpu"'),
        (["gpu=../h200"], "config/config.yaml: gpu: expected words of a GPU product's name: letters, digits"),
        (["suit=smoke"], "config/config.yaml: suit: expected"),
        (["process=cold"], 'config/config.yaml: process: expected one of warm, fresh, found "cold"'),
        (["protocol={cuda: graph, cpu: [graph]}"], "config/config.yaml: protocol.cpu: expected one of monotonic, f"),
        (
            ["suite=none"],
            "config/config.yaml: suite: expected one of liger, llama_3_8b, release, smoke, tiny, found 'none'",
        ),
        (["suite=../tiny"], "config/config.yaml: suite: expected the name of a file in config/suites/"),
        (["kernels=bad_names"], "bad_names/twice.py: providers: expected names of at most 100 letters, digits"),
        (["kernels=bad_shapes"], "bad_shapes/twice.py: OperationSpec"),
        (["kernels=bad_helper"], "bad_helper/_help.py: cannot be read: "),
        (["kernels=bad_slug"], "bad_slug/twice.py: OperationSpec ../../x: /metadata/name: expected a name"),
        (["kernels=bad_providers"], "bad_providers/twice.py: providers: expected names of at most 100 letters, digits"),
        (["kernels=bad_error"], r"bad_error/twice.py: cannot be read: ValueError: <b>\u001b[31m"),
        (
            ['imports={a: "a\\n\\e[31m.csv"}'],
            "config/config.yaml: imports.a: expected a path without control characters and {",
        ),
        (['imports={"../x": a.csv}'], "config/config.yaml: imports.../x: expected a field name that is a name of a-z"),
        (['imports={a: "{name}.csv"}'], "config/config.yaml: imports.a: expected a path without control characters an"),
        (["suite=" + "a" * 5000], "config/config.yaml: suite: expected one of liger, llama_3_8b, release, smoke, tiny"),
        (["kernels=nowhere"], "config/config.yaml: kernels: expected a folder with kernel files, found 'nowhere'"),
    ],
)
def test_a_bad_config_is_one_line_before_any_job(fresh, options, line):
    set_up(fresh)
    for folder, (old, new) in BAD_KERNELS.items():
        (fresh.folder / folder).mkdir()
        (fresh.folder / folder / "twice.py").write_text(KERNEL.replace(old, new))
    (fresh.folder / "bad_helper/_help.py").write_text("def (:\n")
    (fresh.folder / "config/suites/tiny.yaml").write_text(SUITE + TWICE)
    result = fresh.run("results/catalog.json", "--config", *options)
    assert result.returncode == 1
    [said] = [text for text in result.stdout.splitlines() if text.startswith("kernelcat: ")]
    assert said.startswith(f"kernelcat: {line}")
    assert said.isprintable()
    assert "Traceback" not in result.stdout
    assert not (fresh.folder / "results").exists()


def test_hostile_names_and_texts_are_data(fresh):
    """Paths for the shell, and a kernel whose title, provider and error carry markup, commands and escape sequences:
    all is measured and imported, nothing is executed, and nothing appears outside of results/."""
    set_up(fresh)
    folder = fresh.folder
    (folder / SHELL).mkdir()
    text = f"<img src=x onerror=alert(1)>\n\x1b[31m{SHELL}"
    fails = f"f..{'x' * 90}"
    kernel = KERNEL.replace("KERNEL =", f"def fail(x):\n    raise ValueError({text!r})\n\n\nKERNEL =")
    kernel = kernel.replace('"Twice"', repr(text)).replace("providers={", f"providers={{{fails!r}: Provider(fail), ")
    (folder / SHELL / "twice.py").write_text(kernel)
    suite = TWICE.replace("[plain]", f"[plain, {fails}]")
    (folder / "config/suites/tiny.yaml").write_text(suite)
    shutil.copy(SEED, folder / f"-{SHELL}.csv")
    config = {"kernels": SHELL, "imports": {"a": f"-{SHELL}.csv"}, "compile_cache": f"results/-{SHELL}"}
    (folder / "hostile.json").write_text(json.dumps(config))
    before = {path for path in folder.rglob("*")}
    result = fresh.run("results/catalog.json", "--configfile", "hostile.json")
    assert result.returncode == 0, result.stdout
    assert r"ValueError: <img src=x onerror=alert(1)>" in result.stdout
    assert "\x1b" not in result.stdout
    new = {
        path.relative_to(folder).parts[0] for path in set(folder.rglob("*")) - before if "__pycache__" not in path.parts
    }
    assert new == {".snakemake", "results"}
    assert not list(folder.rglob("pwned"))
    found = catalog.read(folder / "results/catalog.json")
    assert catalog.verify(found) == []
    assert found["summary"]["runs"] == {"passed": 2, "runtime_error": 1}
    [title] = [m["metadata"]["title"] for m in found["objects"].values() if m["metadata"]["name"] == "twice"]
    assert title == text


def test_the_kernels_of_the_readme_run(fresh):
    blocks = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    kernel, helper = (text for language, text in blocks if language == "python")
    _, suite = (text for language, text in blocks if language == "yaml")
    own = fresh.folder / "my_kernels"
    own.mkdir()
    (own / "silu.py").write_text(kernel)
    (own / "_silu_triton.py").write_text(helper)
    suite = suite.replace("[forward]", "[forward, full]").replace("torch, plain, triton", "plain, triton")
    (fresh.folder / "config/suites/silu.yaml").write_text(suite)
    result = fresh.run("results/catalog.json", "--config", "suite=silu", "kernels=my_kernels", "device=cpu")
    assert result.returncode == 0, result.stdout
    assert "4 runs: 3 passed, 1 runtime_error" in result.stdout
    assert "silu full triton hidden256-rows64-fp32: runtime_error: RuntimeError: element 0" in result.stdout
    [failed] = (fresh.folder / "results/metrics/cpu/silu/full/triton").glob("*.csv")
    assert metrics.read(failed) == []


@pytest.mark.parametrize(
    ("profile", "plugins"),
    [
        ("slurm", ["executor_plugin_slurm"]),
        ("generic", ["executor_plugin_cluster_generic"]),
        ("kubernetes", ["executor_plugin_kubernetes", "storage_plugin_fs"]),
    ],
)
def test_a_cluster_profile_plans_gpu_jobs(fresh, profile, plugins):
    for plugin in plugins:
        pytest.importorskip(f"snakemake_{plugin}")
    elsewhere = ["--default-storage-provider", "fs", "--default-storage-prefix", str(fresh.folder / "bucket")]
    options = ["--workflow-profile", f"profiles/{profile}", *(elsewhere if profile == "kubernetes" else [])]
    result = fresh.run(*options, "--dry-run", "results/catalog.json")
    assert result.returncode == 0, result.stdout
    assert "path=cuda/rms_norm/" in result.stdout
    [resources] = {line for line in result.stdout.splitlines() if "resources: " in line and "gpu=1" in line}
    assert {"mem_mb=16000", "runtime=5"} <= set(re.split("[ ,]+", resources))


@pytest.mark.parametrize("suite", ["smoke", "release", "llama_3_8b"])
def test_the_shipped_suites_expand(fresh, suite):
    result = fresh.run("--dry-run", "results/catalog.json", "--config", f"suite={suite}", "device=cuda")
    assert result.returncode == 0, result.stdout
    assert re.search(r"^measure +[1-9]\d+$", result.stdout, re.MULTILINE)


def test_every_config_key_is_explained():
    described = json.loads((ROOT / "schemas/config.schema.json").read_text())["properties"]
    table = re.findall(r"^\| `(\w+)` \|", (ROOT / "config/README.md").read_text(), re.MULTILINE)
    assert [key for key in table if key in described] == list(described)
    assert all(value["description"] for value in described.values())
