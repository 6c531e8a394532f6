"""Runs as a CSV: the rows that were measured, and imported ones with the same documents from them again. Runs as
Parquet, JSON lines and bundle: every value and every digest."""

import io
import json
from collections import Counter
from operator import attrgetter
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from test_documents import record, write

from kernelcat import catalog, cli, exporting, files, formats, identity, importing, measure, metrics, query, submission
from kernelcat.errors import KernelcatError
from kernelcat.kernel import Case

SEED = ROOT / "tests/data/seed/rms_norm-backward-huggingface-a100.csv"
SHARED = ROOT.parent / "shared" / "liger" / "all_benchmark_data.csv"

KEPT = attrgetter(
    "kernel_name",
    "kernel_provider",
    "kernel_operation_mode",
    "metric_name",
    "metric_unit",
    "y_value_50",
    "y_value_20",
    "y_value_80",
    "gpu_name",
    "timestamp",
    "liger_version",
)


def digests(result: importing.Import) -> list[str]:
    return [identity.digest(usable.run) for usable in result.usable]


def rows(manifests: list[dict]) -> tuple[list[metrics.Row], Counter]:
    found = catalog.build(manifests)
    return exporting.rows(found, [row["run"] for row in query.rows(found)])


def imported(source=SEED) -> list[metrics.Row]:
    found, without = rows(importing.import_csv(source).manifests)
    assert not without
    return found


def test_the_seed_s_row_comes_back_but_for_its_label():
    [(_, row)] = metrics.read(SEED)
    [found] = imported()
    assert found == type(row)(**{**{name: getattr(row, name) for name in metrics.COLUMNS}, "x_label": "H"})


def test_a_row_without_spread_comes_back(tmp_path):
    path = tmp_path / "rows.csv"
    text = SEED.read_text().replace("2.5663681030273438,2.5731201171875", ",")
    path.write_text(text)
    [found] = imported(path)
    assert (found.y_value_50, found.y_value_20, found.y_value_80) == ("2.569632053375244", "", "")


@pytest.mark.skipif(
    not SHARED.is_file(), reason="Liger's published data is not beside the repository (../shared/liger)"
)
def test_liger_s_published_data_comes_back(tmp_path):
    original = [row for _, row in metrics.read(SHARED)]
    result = importing.import_csv(SHARED)
    found = imported(SHARED)
    assert Counter(map(KEPT, found)) == Counter(map(KEPT, original))
    path = tmp_path / "again.csv"
    metrics.write(path, found)
    again = importing.import_csv(path)
    assert sorted(digests(again)) == sorted(digests(result))
    assert again.cited == result.cited


@pytest.mark.parametrize("time", ["2024-09-03 15:39:46.5", "2024-09-03T15:39:46Z", "2024-09-03T15:39:46.0009"])
def test_a_time_comes_back_as_it_was_written(tmp_path, time):
    path = tmp_path / "rows.csv"
    path.write_text(SEED.read_text().replace("2024-09-03 15:39:46", time))
    [found] = imported(path)
    assert found.timestamp == time


@pytest.mark.parametrize(
    "native",
    [{"externalId": "rms_norm/b"}, {"metrics": None}, {"metrics": {"ms_50": "x"}}, {"metrics": {}}],
)
def test_a_run_that_no_import_makes_is_refused_in_one_line(native):
    result = importing.import_csv(SEED)
    [run] = [usable.run for usable in result.usable]
    damaged = {**run, "spec": {**run["spec"], "sourceNative": run["spec"]["sourceNative"] | native}}
    with pytest.raises(KernelcatError, match="expected a run as kernelcat measures or imports them") as caught:
        rows([damaged, *result.cited.values()])
    assert len(str(caught.value).splitlines()) == 1


RECORDS = [
    record(),
    record("full", ms=0.0371, peakMemoryBytes={"allocated": 2**20 + 1, "reserved": 2**22, "increase": 0}),
    record("backward", observedAt="2026-12-01T12:44:59.000Z"),
    record("full", kernel="matmul", case=Case({"rows": 64, "inner": 128, "columns": 32}, "fp32")),
    record("forward", case=Case({"rows": 64, "hidden": 256}, "fp32", {"eps": 1})),
    record("backward", case=Case({"rows": 8, "hidden": 256}, "fp16", {"eps": 1e-5}), status="timeout", reason="late"),
]
FAILED = 1


def test_measured_runs_have_the_rows_that_were_written_when_they_were_measured(tmp_path, capsys):
    """The CSV files of the workflow and the export say the same, byte for byte."""
    write(tmp_path, *RECORDS)
    assert cli.main(["export", str(tmp_path / "catalog.json"), "--out", str(tmp_path / "out.csv")]) == 0
    expected = [row for values in RECORDS for row in measure.rows(values)]
    found = [row for _, row in metrics.read(tmp_path / "out.csv")]
    assert Counter(found) == Counter(expected)
    assert len(found) == 2 * (len(RECORDS) - FAILED)
    assert capsys.readouterr().out == f"{tmp_path}/out.csv: 10 rows; 1 run has no row: 1 not passed\n"


def test_other_runs_than_measured_and_imported_ones_are_counted(tmp_path):
    result = importing.import_csv(SEED)
    [run] = [usable.run for usable in result.usable]

    def of(**native) -> dict:
        return {**run, "spec": {**run["spec"], "sourceNative": run["spec"]["sourceNative"] | native}}

    other = [of(source="another-suite"), of(externalId="mine/full/torch/nvidia-h200/rows1-fp32/2026-12-01-12-44-41")]
    none = {**run, "spec": {key: value for key, value in run["spec"].items() if key != "sourceNative"}}
    found, without = rows([run, *other, none, *result.cited.values()])
    assert len(found) == 1
    assert without == {"from another source": 2, "of a kernel that is not known here": 1}


# ---- Parquet


def frame(found: dict):
    import pandas

    return pandas.read_parquet(io.BytesIO(formats.parquet(query.rows(found))))


def test_a_parquet_file_has_the_columns_of_a_row_with_their_types(tmp_path):
    write(tmp_path, *RECORDS)
    found = catalog.read(tmp_path / "catalog.json")
    table, expected = frame(found), query.rows(found)
    names = [name for name in query.COLUMNS if name not in ("axes", "scalars")]
    assert [*table] == [*names, *(f"axis_{name}" for name in ("columns", "hidden", "inner", "rows")), "scalar_eps"]
    types = {int: "Int64", float: "float64", str: "string"}
    for name in names:
        assert table[name].dtype == ("datetime64[us, UTC]" if name == "observed_at" else types[query.COLUMNS[name]])
        if name != "observed_at":
            assert [
                None if value != value else value for value in table[name].astype(object).replace({None: float("nan")})
            ] == [row[name] for row in expected]
    assert {str(table[name].dtype) for name in table if name.startswith("axis_")} == {"Int64"}
    assert table["scalar_eps"].dtype == "float64"
    assert [f"{time:%Y-%m-%dT%H:%M:%S}.000Z" for time in table["observed_at"]] == [
        row["observed_at"] for row in expected
    ]
    assert table["axis_inner"].isna().sum() == len(RECORDS) - 1
    assert formats.parquet(expected) == formats.parquet(expected)


def test_an_empty_selection_is_an_empty_table_of_the_same_types(tmp_path):
    write(tmp_path, record())
    some, none = frame(catalog.read(tmp_path / "catalog.json")), frame(catalog.build([]))
    assert len(none) == 0
    fixed = [name for name in some if not name.startswith(("axis_", "scalar_"))]
    assert none.dtypes.to_dict() == some[fixed].dtypes.to_dict()


def test_a_parquet_file_takes_what_documents_from_outside_hold(tmp_path):
    """An axis that is no whole number, one that is too long for a column, a time that is none."""
    row = dict.fromkeys(query.COLUMNS) | {"run": "sha256:1", "axes": {"a": 1.5, "b": 10**20, "c": 3}}
    row |= {"scalars": {"s": 2, "t": 10**399}, "observed_at": "2026-13-01T00:00:00Z"}
    import pandas

    table = pandas.read_parquet(io.BytesIO(formats.parquet([row])))
    assert table["axis_c"].tolist() == [3] and table["scalar_s"].tolist() == [2.0]
    assert table[["axis_a", "axis_b", "scalar_t", "observed_at"]].isna().all(axis=None)
    with pytest.raises(KernelcatError, match="lone surrogate"):
        formats.parquet([row | {"reason": "\ud800"}])


# ---- JSON lines


def published(tmp_path) -> dict:
    """A catalog with measured runs, an imported one, and an object with two names."""
    write(tmp_path, *RECORDS)
    result = importing.import_csv(SEED)
    [project] = [found for found in result.cited.values() if found["kind"] == "SoftwareProject"]
    variant = {**project, "metadata": {"name": "another-name"}}
    return catalog.merge([catalog.read(tmp_path / "catalog.json"), catalog.build([*result.manifests, variant])])


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def exported(tmp_path, found: dict, format: str, *filters: str) -> Path:
    catalog.write(tmp_path / "all.json", found)
    path = tmp_path / f"out.{format}"
    command = ["export", str(tmp_path / "all.json"), "--format", format, "--out", str(path), *filters]
    assert cli.main(command) == 0
    return path


def test_json_lines_hold_the_whole_catalog(tmp_path):
    found = published(tmp_path)
    path = exported(tmp_path, found, "jsonl")
    entries = lines(path)
    assert found["aliases"] and catalog.build(entry["object"] for entry in entries) == found
    assert [entry["digest"] for entry in entries] == sorted(identity.digest(entry["object"]) for entry in entries)
    assert path.read_bytes() == b"".join(identity.canonical_json(entry) + b"\n" for entry in entries)


def test_filtered_json_lines_hold_the_runs_and_all_that_they_need(tmp_path):
    path = exported(tmp_path, published(tmp_path), "jsonl", "--kernel", "rms_norm", "--provider", "liger")
    part = catalog.build(entry["object"] for entry in lines(path))
    assert catalog.verify(part) == []
    assert {row["provider"] for row in query.rows(part)} == {"liger"} and len(query.rows(part)) == 5
    # one implementation, its project, three cases, three modes
    assert part["summary"]["objects"] == {
        "BenchmarkProtocol": 3,
        "BenchmarkRun": 5,
        "ExecutionEnvironment": 1,
        "ImplementationRevision": 1,
        "OperationSpec": 1,
        "SoftwareProject": 1,
        "WorkloadCase": 3,
    }


# ---- the bundle


def loads(path: Path) -> list[object]:
    """What the readers make of a YAML file: ours, ruamel.yaml's, and PyYAML's of YAML 1.1."""
    import yaml
    from ruamel.yaml import YAML

    return [files.load(path, limit=None), YAML(typ="safe", pure=True).load(path), yaml.safe_load(path.read_bytes())]


def test_a_bundle_holds_every_object_under_its_digest(tmp_path):
    found = published(tmp_path)
    for bundle in loads(exported(tmp_path, found, "bundle")):
        assert {key: bundle.pop(key) for key in ("apiVersion", "kind")} == {
            "apiVersion": "kernelindex.dev/v1alpha1",
            "kind": "SubmissionBundle",
        }
        slugs = {entry["metadata"]["name"]: entry.pop("projectSlug") for entry in bundle["implementations"]}
        assert slugs == {
            "rms-norm-liger-0-8-5": "liger-kernel",
            "matmul-torch-2-13-0": "pytorch",
            "liger-bench-rms-norm-huggingface": "another-name",
        }
        for run in bundle["runs"]:
            assert [*run] == ["run", "protocol", "environment"]
            for part in ("protocol", "environment"):
                assert identity.digest(run[part]) == run["run"]["spec"][f"{part}Digest"]
        listed = [[entry.get("run", entry) for entry in entries] for entries in bundle.values()]
        for entries in listed:
            keys = [identity.digest(manifest) for manifest in entries]
            assert keys == sorted(keys)
        beside = [run[part] for run in bundle["runs"] for part in ("protocol", "environment")]
        manifests = {identity.digest(manifest): manifest for manifest in [*sum(listed, []), *beside]}
        assert manifests == found["objects"]


WORDS = [
    "1e-6",
    "1e3",
    "no",
    "Yes",
    "n",
    "~",
    "null",
    "",
    " ",
    "0x1f",
    "0o7",
    "1_000",
    "12:30",
    "-",
    "- a",
    "a: b",
    "a #b",
]
WORDS += [
    "2024-09-03",
    "2024-09-03T15:39:46.000Z",
    "true",
    ".inf",
    "=",
    "<<",
    "!x",
    "&a",
    "*a",
    "%",
    "@",
    "`",
    "'",
    '"',
    "\\",
]
WORDS += [
    "a\nb",
    "\t",
    "\x7f",
    "\x85",
    "\u2028",
    "\ufeff",
    "\U000e0001",
    "😀",
    "é",
    "a:",
    "a/",
    "#",
    "1.0",
    "+1",
    "{",
    "[",
]
TEXT = st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    TEXT | NUMBERS | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, min_size=1))
def test_yaml_says_what_canonical_json_says(tmp_path_factory, value):
    """Text stays text, whole numbers and floats the same numbers, for each reader."""
    path = tmp_path_factory.getbasetemp() / "value.yaml"
    path.write_bytes(submission.render(value))
    for found in loads(path):
        assert identity.canonical_json(found) == identity.canonical_json(value)


def test_a_run_without_its_protocol_is_no_submission(tmp_path):
    result = importing.import_csv(SEED)
    found = catalog.build(manifest for manifest in result.manifests if manifest["kind"] != "BenchmarkProtocol")
    with pytest.raises(KernelcatError, match="expected the protocol that it cites in the catalog, found none"):
        formats.export(found, query.Filters(), "bundle", tmp_path / "out.yaml")
    assert not (tmp_path / "out.yaml").exists()


@pytest.mark.parametrize("format", formats.FORMATS)
def test_the_same_catalog_gives_the_same_bytes(tmp_path, format):
    found = published(tmp_path)
    first = exported(tmp_path, found, format).read_bytes()
    assert exported(tmp_path, catalog.build(reversed([*catalog.manifests(found)])), format).read_bytes() == first
