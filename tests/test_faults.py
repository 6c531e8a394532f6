"""What goes wrong around a workflow: a full or write-protected disk, clocks that jump, two workflows at once, files in
results/ that are cut, edited, swapped or lost, a CSV that is still being written. Each ends with a message that names
what is wrong and leaves verified evidence as it was; then, after what README.md says, the next run completes.

Kills are in test_kills.py.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import ROOT, Workflow, copy_workflow, empty_packages
from test_kills import CONFIG, KERNEL

from kernelcat import catalog, cli, devices, files, importing, metrics, recorded
from kernelcat.errors import KernelcatError

SUITE = """
twice:
  providers: [plain]
  modes: [forward]
  dtypes: [fp32]
  axes: {rows: [2, 3]}
"""
CATALOG = "results/catalog.json"
SEED = ROOT / "tests/data/seed/rms_norm-backward-huggingface-a100.csv"
DAY = 86400


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Workflow:
    """The workflow after its first run."""
    workflow = copy_workflow(tmp_path_factory.mktemp("faults") / "copy")
    (workflow.folder / "own").mkdir()
    (workflow.folder / "own/twice.py").write_text(KERNEL)
    (workflow.folder / "config/suites/twice.yaml").write_text(SUITE)
    empty_packages(workflow.folder / "empty")
    for old, new in CONFIG.items():
        workflow.edit("config/config.yaml", old, new)
    completes(workflow)
    return workflow


@pytest.fixture
def again(finished, tmp_path) -> Workflow:
    """A copy of the finished workflow that a test may change."""
    return Workflow(Path(shutil.copytree(finished.folder, tmp_path / "again", copy_function=shutil.copy2)))


def run(workflow: Workflow, *arguments: str) -> subprocess.CompletedProcess:
    return workflow.run(*(arguments or [CATALOG]), PYTHONPATH=str(workflow.folder / "empty"))


def completes(workflow: Workflow, *arguments: str) -> str:
    """Runs it to its end; everything verifies then. Returns what the run printed."""
    result = run(workflow, CATALOG, *arguments)
    assert result.returncode == 0, result.stdout
    assert verified(workflow)
    found = catalog.read(workflow.folder / CATALOG)
    assert found["summary"]["runs"] == {"passed": 2}
    return result.stdout


def fails(workflow: Workflow, *arguments: str) -> str:
    """Runs it; it ends in an error, without a traceback. Returns what it printed."""
    result = run(workflow, CATALOG, *arguments)
    assert result.returncode == 1, result.stdout
    assert "Traceback" not in result.stdout
    return result.stdout


def verified(workflow: Workflow) -> bool:
    return cli.main(["verify", str(workflow.folder / CATALOG)]) == 0


def record(workflow: Workflow) -> Path:
    return sorted((workflow.folder / "results/metrics").rglob("*.json"))[0]


def document(workflow: Workflow, below: str = "runs") -> Path:
    return sorted((workflow.folder / "results/documents" / below).rglob("*.json"))[0]


def named(workflow: Workflow, path: Path) -> str:
    return str(path.relative_to(workflow.folder))


def evidence(workflow: Workflow) -> dict[Path, bytes]:
    """Everything in results/ but logs."""
    results = workflow.folder / "results"
    paths = [path for path in results.rglob("*") if path.is_file() and "logs" not in path.parts]
    return {path: path.read_bytes() for path in paths if path.name != ".snakemake_timestamp"}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def halve_the_samples(path: Path) -> None:
    values = json.loads(path.read_text())
    name = "samplesMs" if "samplesMs" in values else "samples"
    values[name] = [value / 2 for value in values[name]]
    path.write_text(json.dumps(values))


def edit_numbers(path: Path) -> None:
    text = path.read_text()
    path.write_text(re.sub(r'"median": \d+', '"median": 7', text))
    assert path.read_text() != text


def edit_a_title(path: Path) -> None:
    values = json.loads(path.read_text())
    values["metadata"]["title"] = "another"
    path.write_text(json.dumps(values))


def swap(path: Path) -> None:
    other = sorted(path.parent.glob("*.json"))[1]
    first, second = path.read_bytes(), other.read_bytes()
    path.write_bytes(second)
    other.write_bytes(first)


# ---- records


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "expected JSON"),
        (halve_the_samples, "expected the record as it was measured, found one that was changed since"),
    ],
)
def test_a_damaged_record_is_named_and_can_be_measured_again(again, capsys, damage, said):
    path, before = record(again), (again.folder / CATALOG).read_bytes()
    damage(path)
    assert not verified(again)
    assert f"{path.relative_to(again.folder / 'results')}: expected the digest sha256:" in capsys.readouterr().out
    [line] = [line for line in fails(again).splitlines() if line.startswith("kernelcat: ")]
    assert line.startswith(f"kernelcat: {named(again, path)}: ")
    assert said in line
    assert (again.folder / CATALOG).read_bytes() == before
    assert "1/1 measured" in completes(again, "--forcerun", named(again, path))


def test_swapped_records_are_named(again):
    first = record(again)
    swap(first)
    assert f"kernelcat: {named(again, first)}: expected the record of this configuration, found cpu/" in fails(again)
    swap(first)
    completes(again)


def test_a_missing_record_is_named_by_verify_and_plan_and_can_be_measured_again(again, capsys):
    path = record(again)
    path.unlink()
    assert not verified(again)
    assert f"{path.name}: expected a file, found none" in capsys.readouterr().out
    assert "Nothing to be done" in run(again).stdout
    assert "1/1 measured" in completes(again, "--forcerun", named(again, path))


# ---- documents and samples


def make_catalog(workflow: Workflow) -> subprocess.CompletedProcess:
    """Runs the job of that rule."""
    command = [sys.executable, "scripts/catalog.py", "--documents", "results/documents", "--out", CATALOG]
    return subprocess.run(command, cwd=workflow.folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("path", "damage", "said"),
    [
        ("runs/*/*/*/*/*.json", cut, "expected the document as it was made"),
        ("runs/*/*/*/*/*.json", edit_numbers, "expected the document as it was made"),
        ("runs/*/*/*/*/*.json", swap, "expected the document as it was made"),
        ("runs/*/*/*/*/*.json", Path.unlink, "expected a document, found: No such file or directory"),
        ("cited/*/*.json", edit_a_title, "expected the document as it was made"),
        ("cited/*/*.json", Path.unlink, "expected a document, found: No such file or directory"),
        ("runs/SHA256SUMS", empty, "SHA256SUMS lists"),
        ("runs/SHA256SUMS", cut, "expected a document, found: "),
        ("runs/SHA256SUMS", Path.unlink, "expected a document, found: No such file or directory"),
    ],
)
def test_a_damaged_document_does_not_become_a_catalog(again, path, damage, said):
    before = (again.folder / CATALOG).read_bytes()
    assert make_catalog(again).returncode == 0
    assert (again.folder / CATALOG).read_bytes() == before
    damage(sorted((again.folder / "results/documents").glob(path))[0])
    result = make_catalog(again)
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("kernelcat: results/documents/")
    assert said in line
    assert (again.folder / CATALOG).read_bytes() == before


@pytest.mark.parametrize("damage", [cut, empty, halve_the_samples, swap, Path.unlink])
def test_damaged_samples_are_named_by_verify(again, capsys, damage):
    path = document(again, "samples")
    damage(path)
    assert not verified(again)
    assert f"raw samples: documents/samples/{path.name}: expected " in capsys.readouterr().out


def test_damaged_documents_and_samples_are_made_again_from_the_records(again):
    """Snakemake does not notice them; README.md says how to make them again. Nothing is measured for it."""
    before = evidence(again)
    edit_numbers(document(again))
    document(again, "cited").unlink()
    cut(document(again, "samples"))
    assert "Nothing to be done" in run(again).stdout
    assert "kernelcat: results/documents/cited/" in fails(again, "--forcerun", "catalog")
    assert (again.folder / CATALOG).read_bytes() == before[again.folder / CATALOG]
    shutil.rmtree(again.folder / "results/documents")
    (again.folder / CATALOG).unlink()
    assert "rule measure:" not in completes(again)
    assert evidence(again) == before


# ---- the catalog


def test_an_edited_catalog_is_refused_and_made_again(again, tmp_path, capsys):
    path = again.folder / CATALOG
    before = path.read_bytes()
    edit_numbers(path)
    assert not verified(again)
    assert "expected an object with this digest, found sha256:" in capsys.readouterr().out
    assert cli.main(["merge", str(path), "--out", str(tmp_path / "merged.json")]) == 1
    assert "expected an object with this digest" in capsys.readouterr().err
    assert not (tmp_path / "merged.json").exists()
    assert "Nothing to be done" in run(again).stdout
    path.unlink()
    completes(again)
    assert path.read_bytes() == before


# ---- disks


@contextlib.contextmanager
def disk(folder: Path, size: str):
    """A small disk there, with what the folder held."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    kept = folder.rename(folder.with_name("kept"))
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if made.returncode:
        pytest.skip(f"needs to mount a small disk: {made.stderr.decode().strip()}")
    try:
        shutil.copytree(kept, folder, copy_function=shutil.copy2, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)


@pytest.mark.parametrize("free", [0, 8192])
def test_a_full_disk_is_named_and_leaves_everything(again, free):
    """With so many bytes left: at the first file, or after some."""
    results = again.folder / "results"
    with disk(results, "1m"):
        filler = results / "logs/filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        os.truncate(filler, filler.stat().st_size - free)
        before = evidence(again)
        said = fails(again, "--forceall")
        assert "kernelcat: results: the disk is full" in said
        after = evidence(again)
        assert after.keys() == before.keys()
        assert after[again.folder / CATALOG] == before[again.folder / CATALOG]
        for path in (results / "metrics").rglob("*.json"):
            recorded.load(path)
        filler.unlink()
        completes(again)
        assert "Nothing to be done" in run(again).stdout


def test_write_protected_results_are_named_and_can_be_read(again):
    results = again.folder / "results"
    with disk(results, "1m"):
        remount(results, "ro")
        before = evidence(again)
        assert "Nothing to be done" in run(again).stdout
        assert verified(again)
        assert "Write-protected output files" in fails(again, "--forcerun", named(again, record(again)))
        assert evidence(again) == before
        remount(results, "rw")
        completes(again, "--forcerun", named(again, record(again)))


# ---- jobs that fail: their former outputs stay, and are not taken for those of now


def test_an_import_that_failed_is_done_again(again):
    csv, configured = again.folder / "numbers.csv", ("--config", "imports={numbers: numbers.csv}")
    shutil.copy(SEED, csv)
    assert run(again, CATALOG, *configured).returncode == 0
    before = evidence(again)
    csv.write_text("a,b\n")
    for _ in range(2):
        assert "numbers.csv: header: expected" in fails(again, *configured)
        assert evidence(again) == before
    shutil.copy(SEED, csv)
    assert run(again, CATALOG, *configured).returncode == 0
    assert evidence(again) == before
    assert "Nothing to be done" in run(again, CATALOG, *configured).stdout


def test_a_measurement_that_failed_is_done_again(again):
    """Here torch cannot be imported: no result, but a machine that is not ready."""
    before = evidence(again)
    again.edit("own/twice.py", "2 * x", "x + x")
    broken = again.folder / "broken/torch/__init__.py"
    broken.parent.mkdir(parents=True)
    broken.write_text("raise ImportError('no torch today')")
    for _ in range(2):
        result = again.run("--keep-going", CATALOG, PYTHONPATH=str(broken.parent.parent))
        assert result.returncode == 1
        assert "measure 2" in re.sub(" +", " ", result.stdout)
        assert evidence(again) == before
    assert "2/2 measured" in completes(again)
    assert "Nothing to be done" in run(again).stdout


def test_a_job_that_failed_is_done_again_although_snakemake_was_killed_soon_after(again):
    """While others still ran, which wait for the device here: nothing was said or filed since."""
    csv, configured = again.folder / "numbers.csv", ("--config", "imports={numbers: numbers.csv}")
    shutil.copy(SEED, csv)
    assert run(again, CATALOG, *configured).returncode == 0
    again.edit("own/twice.py", "2 * x", "x + x")
    csv.write_text("a,b\n")
    with devices.held("cpu"):
        command = [sys.executable, "-m", "snakemake", "--cores", "3", "--keep-going", CATALOG, *configured]
        process = subprocess.Popen(command, cwd=again.folder, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if "report.json (updating job failed)" in line:
                break
        time.sleep(1)
        process.kill()
        process.communicate()
    assert run(again, "--unlock").returncode == 0
    assert "numbers.csv: header: expected" in fails(again, *configured)
    shutil.copy(SEED, csv)
    assert run(again, CATALOG, *configured).returncode == 0
    assert verified(again)


def test_a_comparison_that_failed_is_done_again(again):
    """Or the verdict would be that on another baseline."""
    shutil.copytree(again.folder / "results", again.folder / "old")
    (again.folder / "junk.json").write_text("{}")
    target = "results/comparison.md"
    assert run(again, target, "--config", "baseline=old/catalog.json").returncode == 0
    for _ in range(2):
        result = run(again, target, "--config", "baseline=junk.json")
        assert result.returncode == 1
        assert "kernelcat: junk.json: expected" in result.stdout
    assert run(again, target, "--config", "baseline=old/catalog.json").returncode == 0


# ---- clocks


@pytest.mark.parametrize(
    ("what", "days"),
    [("metrics", 1), ("documents", 1), ("catalog.json", 1), (".", 1), ("documents", -10000), ("catalog.json", -10000)],
)
def test_a_clock_that_was_wrong_changes_nothing(again, what, days):
    """By the times of files, in the future or long ago. What is unnecessarily made again is made the same."""
    before, moment = evidence(again), time.time() + days * DAY
    folder = again.folder / "results" / what
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (moment, moment))
    completes(again)
    assert evidence(again) == before
    assert "Nothing to be done" in run(again).stdout


def test_a_record_of_the_future_is_measured_again(again):
    """The clock ran ahead when it was measured; now it is right again."""
    path = record(again)
    recorded.write(path, recorded.load(path) | {"observedAt": "2099-01-01T00:00:00.000Z"})
    os.utime(path, (time.time() + DAY,) * 2)
    completes(again)
    assert "2099-01-01T00:00:00.000Z" in (again.folder / CATALOG).read_text()
    assert "1/1 measured" in completes(again, "--forcerun", named(again, path))
    assert "2099" not in recorded.load(path)["observedAt"]


# ---- two workflows


def test_a_second_workflow_is_turned_away_and_the_first_completes(again):
    first = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--cores", "1", CATALOG, "--forceall"],
        cwd=again.folder,
        env=os.environ | {"PYTHONPATH": str(again.folder / "empty")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not list((again.folder / ".snakemake/locks").glob("*")):
            assert first.poll() is None
            time.sleep(0.02)
        first.send_signal(signal.SIGSTOP)  # or it may have ended before the second one looks
        second = run(again, CATALOG, "--forceall")
        first.send_signal(signal.SIGCONT)
        assert first.wait(timeout=60) == 0
    finally:
        first.kill()
        first.wait()
    assert second.returncode == 1
    assert "Directory cannot be locked" in second.stdout
    assert "Traceback" not in second.stdout
    completes(again)


# ---- a CSV that is still being written


def rows(count: int) -> bytes:
    """The published row for as many sizes, with medians of eight digits."""
    [(_, seed)] = metrics.read(SEED)
    values = [f"{number}.{number:07}" for number in range(1, count + 1)]
    found = [[*csv_cells(seed, 2048 * n, value)] for n, value in enumerate(values, 1)]
    return metrics.render(metrics.Row(*cells) for cells in found)


def csv_cells(row: metrics.Row, x: int, value: str):
    for name in metrics.COLUMNS:
        yield str(x) if name == "x_value" else value if name.startswith("y_value") else getattr(row, name)


def imported(path: Path) -> list[tuple]:
    """What is imported of each row."""
    found = importing.import_csv(path).usable
    return [(usable.row.x_value, usable.row.y_value_50) for usable in found]


def test_a_cut_csv_gives_whole_rows_or_is_refused(tmp_path):
    data, path = rows(3), tmp_path / "a.csv"
    path.write_bytes(data)
    whole = imported(path)
    assert len(whole) == 3
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with contextlib.suppress(KernelcatError):
            result = imported(path)
            assert result == whole[: len(result)]


def test_a_csv_is_imported_while_it_is_written(tmp_path):
    data, path = rows(60), tmp_path / "a.csv"
    path.write_bytes(data)
    whole = imported(path)
    path.write_bytes(b"")

    def append() -> None:
        with path.open("ab", buffering=0) as file:
            for start in range(0, len(data), 41):
                file.write(data[start : start + 41])
                time.sleep(0.002)

    writer = threading.Thread(target=append)
    writer.start()
    seen, refusals = set(), []
    while writer.is_alive():
        try:
            result = imported(path)
        except KernelcatError as error:
            refusals.append(str(error))
            continue
        assert result == whole[: len(result)]
        seen.add(len(result))
    writer.join()
    assert len(seen) > 3
    assert all(len(line.splitlines()) == 1 and line.startswith(f"{path}: ") for line in refusals)
    assert imported(path) == whole
    assert files.PART not in str(list(tmp_path.iterdir()))
