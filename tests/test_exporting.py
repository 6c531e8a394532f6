"""Runs as a CSV: the rows that were measured, and imported ones with the same documents from them again. Runs as
Parquet, JSON lines and bundle: every value and every digest."""

import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from test_documents import record, write

from kernelcat import (
    catalog,
    cli,
    exporting,
    files,
    formats,
    identity,
    importing,
    kernels,
    measure,
    metrics,
    query,
    schema,
    submission,
)
from kernelcat.errors import KernelcatError
from kernelcat.kernel import Case

SEED = ROOT / "tests/data/seed/rms_norm-backward-huggingface-a100.csv"
SHARED = ROOT.parent / "shared" / "liger" / "all_benchmark_data.csv"


def digests(result: importing.Import) -> list[str]:
    return [identity.digest(usable.run) for usable in result.usable]


def rows(manifests: list[dict]) -> tuple[list[metrics.Row], Counter]:
    found = catalog.build(manifests)
    return exporting.rows(found, [row["run"] for row in query.rows(found)])


def imported(source=SEED) -> list[metrics.Row]:
    found, without = rows(importing.import_csv(source).manifests)
    assert not without
    return found


def test_the_seed_s_row_comes_back_as_it_was():
    assert imported() == [row for _, row in metrics.read(SEED)]


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
    """Every record byte for byte; only the order, in which sweeps were added to the file, is no document's."""
    result = importing.import_csv(SHARED)
    found = imported(SHARED)
    assert sorted(metrics.render(found).split(b"\r\n")) == sorted(SHARED.read_bytes().split(b"\r\n"))
    assert [row.timestamp for row in found] == sorted(row.timestamp for row in found)
    path = tmp_path / "again.csv"
    metrics.write(path, found)
    again = importing.import_csv(path)
    assert sorted(digests(again)) == sorted(digests(result))
    assert again.cited == result.cited


def sweeps() -> list:
    """A row in each dialect of each kernel that sweeps over numbers: name, x and config."""
    found = []
    for name, kernel in kernels.load_all().items():
        for number, dialect in enumerate(kernel.dialects):
            if not dialect.models and not dialect.x_is_label:
                config = {key: 8 for key in sorted(dialect.keys)} | dict.fromkeys(dialect.ignored)
                config |= {key: 0.25 for key in dialect.scalars.values() if isinstance(key, str)} | dialect.fixed
                config |= {dialect.dtype: "torch.bfloat16"} if dialect.dtype else {}
                found.append(pytest.param(name, dialect.x, config, id=f"{name}-{dialect.x}-{number}"))
    return found


@pytest.mark.parametrize(("name", "x", "config"), sweeps())
def test_a_row_of_any_sweep_gives_the_same_documents_again(tmp_path, name, x, config):
    """Whatever the export's spelling: shape, dtype and scalars are the same."""
    [(_, seed)] = metrics.read(SEED)
    values = {"kernel_name": name, "x_name": x, "x_value": "64", "extra_benchmark_config_str": json.dumps(config)}
    metrics.write(tmp_path / "rows.csv", [replace(seed, **values)])
    result = importing.import_csv(tmp_path / "rows.csv")
    assert len(result.usable) == 1, result.report
    metrics.write(tmp_path / "again.csv", imported(tmp_path / "rows.csv"))
    assert catalog.build(importing.import_csv(tmp_path / "again.csv").manifests) == catalog.build(result.manifests)


@pytest.mark.parametrize("x", ["T", "H"])
def test_a_case_of_two_sweeps_is_written_in_the_one_that_it_was_measured_in(tmp_path, x):
    """8192 wide and 2048 long belongs to both of rope's sweeps; whose it was, the other cases tell."""
    [(_, seed)] = metrics.read(SEED)
    y = {"T": "hidden_size", "H": "seq_len"}[x]
    config = {"dtype": "torch.bfloat16", y: {"T": 8192, "H": 2048}[x], "num_q_heads": 32, "num_kv_heads": 8}
    label = {"T": "sequence length", "H": "hidden size"}[x]
    values = {"kernel_name": "rope", "x_name": x, "x_label": label, "extra_benchmark_config_str": json.dumps(config)}
    rows = [replace(seed, **values, x_value=str(value)) for value in (2048, 4096, 8192)]
    metrics.write(tmp_path / "rows.csv", rows)
    assert imported(tmp_path / "rows.csv") == rows


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


@pytest.mark.parametrize("scalars", [None, True, 5, "eps", ["eps"], {"eps": 1}])
def test_scalars_of_another_form_are_none(tmp_path, scalars):
    write(tmp_path, record())
    found = catalog.read(tmp_path / "catalog.json")
    [case] = [manifest for manifest in found["objects"].values() if manifest["kind"] == "WorkloadCase"]
    case["spec"]["scalars"] = scalars
    assert [row["scalars"] for row in query.rows(found)] == [{}]
    assert len(frame(found)) == 1


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


def test_a_bundle_fits_its_schema(tmp_path):
    path = exported(tmp_path, published(tmp_path), "bundle")
    schema.check(files.load(path), "submission-bundle", "bundle")


def test_what_the_index_would_refuse_is_no_submission(tmp_path):
    write(tmp_path, record())
    found = catalog.read(tmp_path / "catalog.json")
    [digest] = [digest for digest, manifest in found["objects"].items() if manifest["kind"] == "WorkloadCase"]
    del found["objects"][digest]["spec"]["tensors"]
    with pytest.raises(KernelcatError, match=f"{digest}: /spec/tensors: expected"):
        submission.bundle(found["objects"])


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
