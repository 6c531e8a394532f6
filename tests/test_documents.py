"""Records → documents: what follows from a record alone is in the digest, what follows from others is a label; and the
files that a run names as evidence are checked."""

import copy
import hashlib
import json
import shutil
from pathlib import Path

import pytest

from kernelcat import catalog, cli, documents, evidence, identity, roofline, samples, schema
from kernelcat.errors import KernelcatError
from kernelcat.grid import Configuration
from kernelcat.kernel import Case
from kernelcat.timing import Sampling

SAMPLING = Sampling(precision=0.01, seconds=1, samples=1000)
ENVIRONMENT = {
    "hardware": {"vendor": "nvidia", "product": "NVIDIA H200", "architecture": "sm_90"},
    "software": {"framework": {"name": "torch", "version": "2.13.0"}},
}
CASE = Case({"rows": 1024, "hidden": 4096}, "bf16", {"eps": 1e-6})
BYTES = 2 * (2 * 1024 * 4096 + 4096)  # x read, y written, the weight read


def record(mode: str = "forward", ms: float = 0.01, kernel: str = "rms_norm", case: Case = CASE, **values) -> dict:
    provider = "liger" if kernel == "rms_norm" else "torch"
    configuration = Configuration(kernel, provider, mode, case, "events", "cuda", SAMPLING)
    return {
        "status": "passed",
        "reason": "",
        "configuration": configuration.as_json(),
        "observedAt": "2026-12-01T12:44:41.000Z",
        "device": "NVIDIA H200",
        "environment": ENVIRONMENT,
        "versions": {"torch": "2.13.0", "triton": "3.7.1", "liger-kernel": "0.8.5"},
        "correctness": {"comparator": "mean_and_elementwise"},
        "compileSeconds": 0.25,
        "samplesMs": [ms * (1 + 0.001 * (number % 5)) for number in range(100)],
        "samplingSeconds": 0.1,
        "deviceMs": [ms] * 20,
        "peakMemoryBytes": {"allocated": 3 * 2**20, "reserved": 2**22, "increase": 2**20},
        "state": {"before": {}, "after": {}},
        "orderSeed": 7,
        **values,
    }


def calibration() -> list[dict]:
    """A device that copies at 4 TB/s, reads and adds more slowly, and multiplies at 800 TFLOP/s."""
    seconds = {"memory_copy": 2 * 2**30 / 4e12, "memory_read": 1.0, "memory_triad": 1.0, "matmul": 2 * 8192**3 / 8e14}
    cases = roofline.calibration({"bf16"})
    return [record(kernel=name, case=case, ms=seconds[name] * 1e3) for name, case in cases]


def write(folder: Path, *found: dict, device: str = "cuda") -> dict[str, dict]:
    """The runs that the documents of these records hold, by kernel and mode, in a catalog that is written as well."""
    paths = []
    for values in found:
        place = Configuration.from_json(values["configuration"]).path.replace("cuda/", f"{device}/", 1)
        path = folder / "metrics" / f"{place}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
        paths.append(path)
    documents.write(paths, folder / "metrics", folder / "documents", None)
    runs = sorted((folder / "documents/runs").rglob("*.json"))
    assert len(runs) == len(paths)
    catalog.write(folder / "catalog.json", catalog.build(documents.read(folder / "documents")))
    bundles = [json.loads(path.read_text()) for path in runs]
    assert all(schema.faults(bundle) == [] for bundle in bundles)
    return {bundle["run"]["spec"]["sourceNative"]["benchmark"]: bundle["run"] for bundle in bundles}


def test_what_only_plans_read_changes_a_run_in_its_log_alone(tmp_path):
    """The log is cited by the digest of the record."""
    extra = {"jobSeconds": 1.5, "code": "0" * 64, "conditions": "1" * 64}
    runs = [write(tmp_path / name, record(**more)) for name, more in (("a", {}), ("b", extra))]
    logs = [run["rms_norm/forward"]["spec"]["evidence"].pop("logs") for run in runs]
    assert runs[0] == runs[1] and logs[0] != logs[1]


def test_a_run_says_what_was_measured(tmp_path):
    spec = write(tmp_path, record())["rms_norm/forward"]["spec"]
    found = {(entry["metric"], entry["statistic"]): (entry["value"], entry["unit"]) for entry in spec["measurements"]}
    median_s = samples.quantile(sorted(record()["samplesMs"]), 0.5) / 1e3
    assert found == {
        ("latency", "p20"): (10008, "ns"),
        ("latency", "p80"): (10032, "ns"),
        ("device_latency", "median"): (10000, "ns"),
        ("compile_time", "single"): (250_000_000, "ns"),
        ("peak_memory_allocated", "maximum"): (3 * 2**20, "bytes"),
        ("peak_memory_reserved", "maximum"): (2**22, "bytes"),
        ("peak_memory_increase", "maximum"): (2**20, "bytes"),
        ("bandwidth", "median"): (round(BYTES / median_s), "bytes_per_second"),
        ("flop_rate", "median"): (round(4 * 1024 * 4096 / median_s), "flop_per_second"),
    }
    assert spec["timing"]["samples"] == 100
    assert spec["timing"]["latencyNs"].keys() == {
        *("median", "mean", "p05", "p95", "minimum", "maximum", "mad", "confidence95")
    }
    assert spec["sourceNative"]["metrics"]["order_seed"] == 7


def test_the_folder_of_a_named_gpu_model_changes_no_number(tmp_path):
    [plain], [named] = (write(tmp_path / name, record(), device=name).values() for name in ("cuda", "cuda-h200"))
    assert plain["spec"]["timing"] == named["spec"]["timing"]


def test_the_record_of_another_configuration_is_refused(tmp_path):
    path = tmp_path / "metrics/cuda/elsewhere.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record()))
    with pytest.raises(KernelcatError, match="elsewhere.json: expected the record of this configuration, found cuda/"):
        documents.write([path], tmp_path / "metrics", tmp_path / "documents", None)


def test_raw_samples_lie_in_a_file_named_by_its_digest(tmp_path):
    artifact = write(tmp_path, record())["rms_norm/forward"]["spec"]["timing"]["rawSamples"]
    data = (tmp_path / artifact["uri"]).read_bytes()
    assert artifact["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert Path(artifact["uri"]).stem == hashlib.sha256(data).hexdigest()
    assert json.loads(data) == {"unit": "ms", "samples": record()["samplesMs"]}


def test_what_follows_from_other_runs_changes_no_digest(tmp_path):
    alone = write(tmp_path / "alone", record("full", 0.0075))["rms_norm/full"]
    assert alone["metadata"]["labels"] == {"liger_version": "0.8.5", "quality": "good"}
    among = write(tmp_path / "among", record("full", 0.0075), record("forward", 0.02), *calibration())["rms_norm/full"]
    assert among["metadata"]["labels"]["quality"] == "inconsistent above_limit"
    assert identity.digest(among) == identity.digest(alone)


def test_the_attainable_part_is_that_of_the_best_bandwidth(tmp_path):
    runs = write(tmp_path, record("forward", 0.02), *calibration())
    assert runs["rms_norm/forward"]["metadata"]["labels"]["attainable"] == f"{BYTES / 4e12 * 1e3 / 0.02:.3g}"
    assert runs["memory_copy/forward"]["metadata"]["labels"]["attainable"] == "1"
    assert runs["memory_triad/forward"]["metadata"]["labels"]["attainable"] == "0.000805"


@pytest.mark.parametrize(
    ("part", "field", "counts"),
    [("software", "driver", True), ("hardware", "formFactor", False), ("settings", "powerLimitWatts", False)],
)
def test_calibration_counts_for_the_device_whatever_runs_on_it(tmp_path, part, field, counts):
    other = copy.deepcopy(ENVIRONMENT)
    other.setdefault(part, {})[field] = 999 if part == "settings" else "999"
    runs = write(tmp_path, record(), *[{**run, "environment": other} for run in calibration()])
    assert ("attainable" in runs["rms_norm/forward"]["metadata"]["labels"]) == counts


def test_a_failed_run_has_a_log_and_no_marks(tmp_path):
    failed = {**record(), "status": "timeout", "reason": "took longer than 1 s"}
    run = write(tmp_path, failed)["rms_norm/forward"]
    assert run["metadata"]["labels"] == {"liger_version": "0.8.5"}
    assert run["spec"].keys() & {"timing", "measurements"} == set()
    assert (tmp_path / "documents/samples").is_dir()  # an output of the rule, even when no run has samples
    assert evidence.verify(catalog.read(tmp_path / "catalog.json"), tmp_path) == ([], 1, 0)


# ---- evidence


def verified(folder: Path, capsys) -> tuple[int, str]:
    code = cli.main(["verify", str(folder / "catalog.json")])
    return code, capsys.readouterr().out


def test_evidence_that_holds_is_counted(tmp_path, capsys):
    write(tmp_path, record(), record("full", 0.03))
    code, said = verified(tmp_path, capsys)
    assert code == 0
    assert "4 files of evidence beside it, every digest holds" in said


@pytest.mark.parametrize("kind", ["documents/samples", "metrics"])
@pytest.mark.parametrize("damage", ["change", "delete"])
def test_damaged_evidence_is_named(tmp_path, capsys, kind, damage):
    write(tmp_path, record())
    [path] = (tmp_path / kind).rglob("*.json")
    path.write_text(path.read_text() + " ") if damage == "change" else path.unlink()
    code, said = verified(tmp_path, capsys)
    assert code == 1
    assert f"{kind}/" in said
    assert ("expected the digest sha256:" if damage == "change" else "expected a file, found none") in said


def test_evidence_of_a_catalog_that_was_moved_is_said_to_be_away(tmp_path, capsys):
    write(tmp_path, record())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "catalog.json").rename(tmp_path / "elsewhere/catalog.json")
    code, said = verified(tmp_path / "elsewhere", capsys)
    assert code == 0
    assert "the evidence of 1 run is not beside it, not verified" in said


def rewritten(folder: Path, change) -> list[str]:
    """The faults of the evidence after `change` was made to the only run."""
    write(folder, record())
    found = catalog.read(folder / "catalog.json")
    [run] = [value for value in found["objects"].values() if value["kind"] == "BenchmarkRun"]
    change(run["spec"])
    return evidence.verify(found, folder)[0]


def test_numbers_that_the_samples_do_not_say_are_named(tmp_path):
    def change(spec):
        spec["timing"]["latencyNs"]["median"] += 1

    [fault] = rewritten(tmp_path, change)
    assert fault.endswith("expected median 10021, found 10020")


@pytest.mark.parametrize("uri", ["../outside.json", "documents/../../outside.json", "/etc/passwd"])
def test_no_file_outside_the_catalog_s_folder_is_read(tmp_path, uri):
    (tmp_path / "outside.json").write_text("{}")

    def change(spec):
        spec["timing"]["rawSamples"]["uri"] = uri

    [fault] = rewritten(tmp_path / "inside", change)
    assert "expected a path below the catalog" in fault


@pytest.mark.parametrize("uri", [".", "./", "a\0b", "x" * 5000])
def test_evidence_that_is_no_file_is_a_fault(tmp_path, uri):
    """Any of these may stand in a catalog that nobody has validated; the first two are valid."""

    def change(spec):
        spec["timing"]["rawSamples"]["uri"] = uri

    [fault] = rewritten(tmp_path, change)
    assert "raw samples: " in fault and "expected a file, found none" in fault
    assert fault.isprintable()


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"samples": [1e999]}', f'{{"samples": [{"9" * 400}]}}', '{"samples": ' + "[" * 10**5, '"a"']
)
def test_evidence_that_is_no_samples_is_a_fault(tmp_path, text):
    """Under a digest of its own: who makes the one makes the other."""
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/x.json").write_text(text)

    def change(spec):
        digest = hashlib.sha256(text.encode()).hexdigest()
        spec["timing"]["rawSamples"] = {"uri": "documents/x.json", "digest": f"sha256:{digest}"}

    [fault] = rewritten(tmp_path, change)
    assert fault.endswith("documents/x.json: expected {samples: [milliseconds], unit: ms}, found something else")


def test_evidence_at_an_address_is_left_alone(tmp_path):
    def change(spec):
        spec["timing"]["rawSamples"]["uri"] = "https://example.org/samples.json"

    assert rewritten(tmp_path, change) == []


def test_records_that_are_gone_are_missed_where_samples_are_there(tmp_path, capsys):
    write(tmp_path, record())
    shutil.rmtree(tmp_path / "metrics")
    code, said = verified(tmp_path, capsys)
    assert code == 1
    assert "log: metrics/cuda/rms_norm/forward/liger/hidden4096-rows1024-bf16-events-" in said
    assert said.count("expected a file, found none") == 1
