"""The command line: exit codes, one clear line for a mistake, outputs untouched by it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from kernelcat import cli
from kernelcat.errors import KernelcatError, exit_code

SEED = ROOT / "tests/data/seed"
CSV = SEED / "rms_norm-backward-huggingface-a100.csv"
RUN = "sha256:21df0b654e59f793c2f8d87b3f81249867881ad9ca5ae2325bc218aebafbab14"


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[31mb", "a\u2028b", "a\ud800b", "x" * 10**6])
def test_an_error_is_one_printable_line(text, capsys):
    """Errors quote names from the input, and terminals obey escape sequences."""

    def fails():
        raise KernelcatError(f"{KernelcatError(text)}")

    assert exit_code(fails) == 1
    said = capsys.readouterr().err
    assert said.endswith("\n")
    assert said[:-1].isprintable()
    assert len(said) < 5000


def test_a_file_that_the_system_refuses_is_one_printable_line(capsys):
    assert cli.main(["import", str(CSV), "--out", "/proc/a\n\x1b[31mb"]) == 1
    assert capsys.readouterr().err.startswith("kernelcat: /proc/a\\n\\u001b[31mb")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The working directory, with the seed's catalog and one damaged in the run's status."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["import", str(CSV), "--out", "seed"]) == 0
    shutil.copy("seed/catalog.json", "good.json")
    catalog = json.loads(Path("good.json").read_text())
    Path("run.json").write_text(json.dumps(catalog["objects"][RUN]))
    Path("text.json").write_text("[1")
    catalog["objects"][RUN]["spec"]["status"] = "timeout"
    Path("bad.json").write_text(json.dumps(catalog))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["digest", "run.json"], 0, RUN),
        (
            ["digest", "good.json"],
            1,
            "kernelcat: good.json: digest: expected a manifest with apiVersion",
        ),
        (["digest", "none.json"], 1, "kernelcat: none.json: expected a file, found: No such file or directory"),
        (["digest", "text.json"], 1, "kernelcat: text.json: line 1, column 3: expected JSON"),
        (["validate", "run.json", "good.json"], 0, "run.json: valid\ngood.json: valid"),
        (["validate", "run.json", "text.json"], 1, "run.json: valid\ntext.json: line 1, column 3: expected JSON"),
        (["validate", "bad.json"], 1, "bad.json: /objects/sha256:"),
        (["verify", "good.json"], 0, "good.json: 7 objects, every digest and reference holds"),
        (["verify", "bad.json"], 1, f"bad.json: {RUN}: expected an object with this digest, found sha256:"),
        (["verify", "text.json"], 1, "kernelcat: text.json: line 1"),
        (["merge", "good.json", "good.json", "--out", "new.json"], 0, "1 run: 1 passed"),
        (["merge", "good.json", "bad.json", "--out", "new.json"], 1, f"kernelcat: {RUN}: expected an object with this"),
        (["import", str(CSV), "--out", "new"], 0, "1 row: 1 imported, 0 duplicates, 0 skipped"),
        (["import", "text.json", "--out", "new"], 1, "kernelcat: text.json: header: expected the 15 columns"),
        (["import", str(CSV), "--out", "run.json"], 1, "kernelcat: run.json: File exists"),
        (["export", "good.json", "--out", "new.csv"], 0, "new.csv: 1 row"),
        (["export", "good.json", "--format", "parquet", "--out", "new.parquet"], 0, "new.parquet: 1 run"),
        (["export", "good.json", "--format", "jsonl", "--mode", "full", "--out", "new.jsonl"], 0, "new.jsonl: 0 runs"),
        (["export", "text.json", "--out", "new.csv"], 1, "kernelcat: text.json: line 1"),
        (["show", "good.json", "--kernel", "softmax"], 0, "no runs"),
        (
            ["show", "good.json", "--device", "a100", "--workload", "hidden16384"],
            0,
            "run         kernel    mode      provider",
        ),
        (["show", "good.json", "--fastest", "--kernel", "rms_norm,softmax"], 0, "run         kernel    mode"),
        (["why", "21df0b65", "--catalog", "good.json"], 0, "Run\n  digest        sha256:21df0b65"),
        (
            ["why", "0", "--catalog", "good.json"],
            1,
            "kernelcat: good.json: expected the digest of one run, or its beginning, found",
        ),
        (["why", "21df0b65", "--catalog", "text.json"], 1, "kernelcat: text.json: line 1"),
        (["compare", "good.json", "good.json"], 0, "1 configuration: 1 unchanged"),
        (["compare", "good.json", "good.json", "--out", "good.json"], 1, "kernelcat: good.json: expected another file"),
        (["export", "good.json", "--out", "good.json"], 1, "kernelcat: good.json: expected another file than"),
        (["compare", "good.json", "text.json"], 1, "kernelcat: text.json: line 1"),
        (["show", "text.json"], 1, "kernelcat: text.json: line 1"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else None,
)
def test_commands_answer_in_a_line_and_a_code(folder, capsys, arguments, code, said):
    capsys.readouterr()
    assert cli.main(arguments) == code
    out, err = capsys.readouterr()
    assert (out + err).startswith(said)
    assert "Traceback" not in err
    if code and arguments[0] in ("merge", "import", "export"):
        assert not Path("new.csv").exists() and not Path("new.json").exists() and not Path("new").exists()


def test_an_import_overwrites_an_import_and_no_other_catalog(folder, capsys):
    assert cli.main(["import", str(CSV), "--out", "seed"]) == 0
    Path("results").mkdir()
    shutil.copy("good.json", "results/catalog.json")
    before = Path("results/catalog.json").read_bytes()
    capsys.readouterr()
    assert cli.main(["import", str(CSV), "--out", "results"]) == 1
    assert capsys.readouterr().err == (
        "kernelcat: results: expected a folder for this import alone, "
        "found a catalog.json without an import's report.json\n"
    )
    assert [path.name for path in Path("results").iterdir()] == ["catalog.json"]
    assert Path("results/catalog.json").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["digest"],
        ["frobnicate"],
        ["merge", "a.json"],
        ["show", "a", "--mode", "x"],
        ["export", "a", "--out", "b", "--format", "x"],
    ],
)
def test_wrong_usage_is_code_2(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage: kernelcat" in capsys.readouterr().err


def test_a_reader_that_stops_early_is_no_mistake(folder):
    command = f"{sys.executable} -m kernelcat.cli show good.json | head -c 1"
    variables = {"PYTHONPATH": str(ROOT / "scripts"), "PATH": os.environ["PATH"]}
    result = subprocess.run(command, shell=True, capture_output=True, text=True, env=variables)
    assert (result.stdout, result.stderr) == ("r", "")
