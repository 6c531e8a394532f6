"""Imported documents, written as a CSV again: the same numbers, the same order, and the same documents from it."""

from operator import attrgetter

import pytest
from conftest import ROOT

from kernelcat import exporting, identity, importing, metrics
from kernelcat.errors import KernelcatError

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


def test_the_seed_s_row_comes_back_but_for_its_label():
    [(_, row)] = metrics.read(SEED)
    [found] = exporting.rows(importing.import_csv(SEED).manifests)
    assert found == type(row)(**{**{name: getattr(row, name) for name in metrics.COLUMNS}, "x_label": "H"})


def test_a_row_without_spread_comes_back(tmp_path):
    path = tmp_path / "rows.csv"
    text = SEED.read_text().replace("2.5663681030273438,2.5731201171875", ",")
    path.write_text(text)
    result = importing.import_csv(path)
    [found] = exporting.rows(result.manifests)
    assert (found.y_value_50, found.y_value_20, found.y_value_80) == ("2.569632053375244", "", "")


@pytest.mark.skipif(
    not SHARED.is_file(), reason="Liger's published data is not beside the repository (../shared/liger)"
)
def test_liger_s_published_data_comes_back(tmp_path):
    original = [row for _, row in metrics.read(SHARED)]
    result = importing.import_csv(SHARED)
    found = list(exporting.rows(result.manifests))
    assert [KEPT(row) for row in found] == [KEPT(row) for row in original]
    path = tmp_path / "again.csv"
    metrics.write(path, found)
    again = importing.import_csv(path)
    assert digests(again) == digests(result)
    assert again.cited == result.cited


@pytest.mark.parametrize("time", ["2024-09-03 15:39:46.5", "2024-09-03T15:39:46Z", "2024-09-03T15:39:46.0009"])
def test_a_time_comes_back_as_it_was_written(tmp_path, time):
    path = tmp_path / "rows.csv"
    path.write_text(SEED.read_text().replace("2024-09-03 15:39:46", time))
    [found] = exporting.rows(importing.import_csv(path).manifests)
    assert found.timestamp == time


@pytest.mark.parametrize(
    "native",
    [{"externalId": "a/b"}, {"externalId": 5}, {"metrics": None}, {"metrics": {"ms_50": "x"}}, {"metrics": {}}],
)
def test_a_run_that_no_import_makes_is_refused_in_one_line(native):
    result = importing.import_csv(SEED)
    [run] = [usable.run for usable in result.usable]
    damaged = {**run, "spec": {**run["spec"], "sourceNative": run["spec"]["sourceNative"] | native}}
    with pytest.raises(KernelcatError, match="expected a run as `kernelcat import` makes them") as caught:
        list(exporting.rows([damaged, *result.cited.values()]))
    assert len(str(caught.value).splitlines()) == 1


def test_what_a_run_cites_must_be_there():
    runs = [usable.run for usable in importing.import_csv(SEED).usable]
    with pytest.raises(KernelcatError, match="expected a run as `kernelcat import` makes them, found KeyError"):
        list(exporting.rows(runs))


def test_other_runs_than_imported_ones_have_no_row():
    result = importing.import_csv(SEED)
    [run] = [usable.run for usable in result.usable]
    native = {**run["spec"]["sourceNative"], "source": "kernelcat"}
    measured = {**run, "spec": {**run["spec"], "sourceNative": native}}
    assert list(exporting.rows([measured, *result.cited.values()])) == []
