"""Importing: from a CSV come the documents that everybody else computes, and a reason for each row left out."""

import csv
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelcat import catalog, importing, metrics
from kernelcat.errors import KernelcatError
from kernelcat.identity import canonical_json, digest

SEED = Path(__file__).parent / "data" / "seed" / "rms_norm-backward-huggingface-a100.csv"
RUN_DIGEST = "sha256:21df0b654e59f793c2f8d87b3f81249867881ad9ca5ae2325bc218aebafbab14"
SHARED = Path(__file__).parents[2] / "shared"
EXTERNAL_ID = "rms_norm/backward/huggingface/nvidia-a100-sxm4-80gb/hidden16384-rows2048-bf16/2024-09-03-15-39-46"

with SEED.open(newline="", encoding="utf-8") as _file:
    ROW = next(csv.DictReader(_file))


def text_of(*changes: dict) -> str:
    """A CSV with the seed's row once for each of `changes`."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, metrics.COLUMNS)
    writer.writeheader()
    writer.writerows({**ROW, **change} for change in changes)
    return text.getvalue()


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Imports a CSV given as bytes, as text, or as changes to the seed's row."""
    path = tmp_path_factory.mktemp("import") / "rows.csv"

    def run(*rows: dict | str | bytes) -> importing.Import:
        data = rows[0] if rows and isinstance(rows[0], bytes | str) else text_of(*rows)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return importing.import_csv(path)

    return run


def by_kind(result: importing.Import) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {}
    for manifest in result.manifests:
        found.setdefault(manifest["kind"], []).append(manifest)
    return found


def the_run(result: importing.Import) -> dict:
    return by_kind(result)["BenchmarkRun"][0]


def counts(result: importing.Import) -> tuple[int, int, int]:
    report = result.report
    skipped = sum(sum(keys.values()) for keys in report["skipped"].values())
    assert report["rows"] == sum(report["imported"].values()) + report["duplicates"] + skipped
    assert len(report["entries"]) == report["duplicates"] + skipped
    return sum(report["imported"].values()), report["duplicates"], skipped


# ---- the published documents


@pytest.mark.parametrize(
    ("part", "kind"),
    [("run", "BenchmarkRun"), ("protocol", "BenchmarkProtocol"), ("environment", "ExecutionEnvironment")],
)
def test_the_seed_gives_its_published_documents(part, kind):
    published = json.loads(SEED.with_suffix(".json").read_text(encoding="utf-8"))
    found = by_kind(importing.import_csv(SEED))[kind]
    assert [canonical_json(manifest) for manifest in found] == [canonical_json(published[part])]


def test_the_seed_gives_its_published_digest():
    assert digest(the_run(importing.import_csv(SEED))) == RUN_DIGEST


def test_everything_that_a_run_cites_is_there_once(imported):
    other = {"x_value": "8192", "y_value_50": "1.5"}
    result = imported({}, other, {"kernel_provider": "liger"}, {**other, "kernel_operation_mode": "forward"})
    assert Counter(manifest["kind"] for manifest in result.manifests) == {
        "BenchmarkRun": 4,
        "BenchmarkProtocol": 2,
        "ExecutionEnvironment": 1,
        "ImplementationRevision": 2,
        "OperationSpec": 1,
        "SoftwareProject": 2,
        "WorkloadCase": 2,
    }
    assert catalog.verify(catalog.build(result.manifests)) == []


@pytest.mark.skipif(
    not SHARED.is_dir(), reason="Liger's published data and identities are not beside the repository (../shared)"
)
def test_liger_s_published_data_gives_the_published_identities():
    result = importing.import_csv(SHARED / "liger" / "all_benchmark_data.csv")
    assert counts(result) == (2448, 0, 0)
    assert result.report["imported"] == {"memory": 799, "speed": 1649}
    assert catalog.verify(catalog.build(result.manifests)) == []
    runs = {
        run["spec"]["sourceNative"]["externalId"]: run
        for run in by_kind(result)["BenchmarkRun"]
        if "timing" in run["spec"]
    }
    compared = 0
    for line in (SHARED / "identity" / "sample-runs.jsonl").read_text().splitlines():
        published = json.loads(line)
        run = runs[published["externalId"]]
        found = {"runDigest": digest(run), **{key: run["spec"][key] for key in published if key in run["spec"]}}
        assert found == {key: value for key, value in published.items() if key.endswith("Digest")}
        compared += 1
    assert compared == 40
    for name in ("environments", "projects", "protocols"):
        wanted = {entry["digest"] for entry in json.loads((SHARED / "identity" / f"{name}.json").read_text())}
        assert wanted and wanted <= {digest for digest, _ in result.cited}, name
    assert result.report["collisions"] == {"cells": 1460, "mixed": 171}
    assert Counter(warning["reason"] for warning in result.report["warnings"])["full_faster"] == 25
    percentiles = [
        entry["value"]
        for run in runs.values()
        if run["spec"]["sourceNative"]["metrics"].get("ms_20") == 46.8328125
        for entry in run["spec"]["measurements"]
        if entry["statistic"] == "p20"
    ]
    assert percentiles == [46832813]


# ---- memory rows and doubtful rows

MEMORY = {
    "metric_name": "memory",
    "metric_unit": "MB",
    "y_value_20": "448.0",
    "y_value_50": "448.0009765625",
    "y_value_80": "449.5",
}


def test_a_memory_row_is_a_run_of_its_own(imported):
    result = imported({}, MEMORY)
    assert counts(result) == (2, 0, 0)
    assert result.report["imported"] == {"memory": 1, "speed": 1}
    speed, memory = by_kind(result)["BenchmarkRun"]
    assert "timing" not in memory["spec"]
    assert memory["spec"]["measurements"] == [
        {"metric": "peak_memory", "unit": "bytes", "statistic": "p20", "value": 469762048},
        {"metric": "peak_memory", "unit": "bytes", "statistic": "median", "value": 469763072},
        {"metric": "peak_memory", "unit": "bytes", "statistic": "p80", "value": 471334912},
    ]
    assert memory["spec"]["sourceNative"]["metrics"] == {"mb_20": 448.0, "mb_50": 448.0009765625, "mb_80": 449.5}
    assert memory["spec"]["sourceNative"]["externalId"] == speed["spec"]["sourceNative"]["externalId"]
    assert memory["spec"]["protocolDigest"] != speed["spec"]["protocolDigest"]
    assert memory["spec"]["workloadDigest"] == speed["spec"]["workloadDigest"]
    [protocol] = [
        protocol
        for protocol in by_kind(result)["BenchmarkProtocol"]
        if digest(protocol) == memory["spec"]["protocolDigest"]
    ]
    assert "peak of device memory" in protocol["spec"]["comparability"]["notes"]
    assert catalog.verify(catalog.build(result.manifests)) == []


def test_rows_that_differ_in_a_scalar_are_two_workloads(imported):
    result = imported({}, config(eps=1e-5), config(eps=1e-5))
    assert counts(result) == (2, 1, 0)
    values = [workload["spec"]["scalars"]["eps"]["value"] for workload in by_kind(result)["WorkloadCase"]]
    assert sorted(values) == [1e-6, 1e-5]


def test_names_that_share_a_digest_are_all_kept_whatever_the_order(imported):
    config = {"T": 1024, "H": 4096, "V": 128256, **BF16}
    rows = [
        {
            "kernel_name": f"fused_linear_grpo_loss_{level}",
            "x_name": "B",
            "x_value": "2",
            "extra_benchmark_config_str": json.dumps(config | {"importance_sampling_level": level}),
        }
        for level in ("token", "sequence")
    ]
    first, second = (catalog.build(imported(*order).manifests) for order in (rows, rows[::-1]))
    assert catalog.render(first) == catalog.render(second)
    assert any(
        "sequence" in metadata["name"] or "token" in metadata["name"] for [metadata] in first["aliases"].values()
    )


BF16 = {"dtype": "torch.bfloat16"}


# ---- the sweeps of liger-kernel 0.8

PROBED = {"bsz": 4, "seq_len": 8192}  # by a memory probe: no shape, unless a script says so
LLAMA = {"hidden_size": 4096, "intermediate_size": 14336}
HEADS = {"num_attention_heads": 32, "num_key_value_heads": 8}


@pytest.mark.parametrize(
    ("kernel", "x", "value", "config", "case"),
    [
        ("rms_norm", "T", "1024", {"hidden_size": 4096, **BF16, "eps": 1e-6}, "hidden4096-rows1024-bf16"),
        ("layer_norm", "T", "2048", {"hidden_size": 4096, **BF16, "eps": 1e-6}, "hidden4096-rows2048-bf16"),
        ("softmax", "BT", "32768", {"hidden_size": 4096, **BF16}, "hidden4096-rows32768-bf16"),
        ("cross_entropy", "BT", "2048", {"vocab_size": 128256}, "tokens2048-vocab128256-fp32"),
        (
            "swiglu",
            "T",
            "1024",
            {**LLAMA, **BF16, "hidden_act": "silu"},
            "batch4-hidden4096-intermediate14336-seq1024-bf16",
        ),
        ("rope", "T", "1024", {"hidden_size": 4096, **HEADS, **BF16}, "hidden4096-kv_heads8-q_heads32-seq1024-bf16"),
        (
            "fused_linear_cross_entropy",
            "BT",
            "1024",
            {"hidden_size": 4096, "vocab_size": 128256, **BF16, "eps": 1e-6},
            "hidden4096-tokens1024-vocab128256-bf16",
        ),
        ("jsd", "BT", "1024", {"vocab_size": 128256}, "tokens1024-vocab128256-fp32"),
        (
            "group_norm",
            "BT",
            "2048",
            {"hidden_size": 4096, **BF16, "channels_per_group": 4, "eps": 1e-6, "H": 512},
            "batch4-channels4096-channels_per_group4-hidden512-bf16",
        ),
        (
            "embedding",
            "BT",
            "2048",
            {"hidden_size": 4096, "vocab_size": 128256, **BF16, "T": 1024},
            "batch2-hidden4096-seq1024-vocab128256-bf16",
        ),
        (
            "cpo_loss",
            "B",
            "8",
            {"hidden_size": 4096, "vocab_size": 128256, **BF16, "T": 1024},
            "batch8-hidden4096-seq1024-vocab128256-bf16",
        ),
        (
            "kto_loss",
            "model_config",
            "llama_2_7b",
            {"T": 512, "bias": True, "beta": 0.1, "ignore_index": 42},
            "batch4-hidden4096-seq512-vocab32000-bf16",
        ),
        (
            "fused_linear_grpo_loss_token",
            "B",
            "2",
            {"hidden_size": 4096, "vocab_size": 128256, **BF16, "T": 1024, "importance_sampling_level": "token"},
            "batch2-seq1024-vocab128256-bf16",
        ),
        ("rms_norm", "model_config", "deepseek_v3", {"eps": 1e-6}, "hidden7168-rows8192-bf16"),
        ("softmax", "model_config", "qwen2.5_7b", {}, "hidden3584-rows32768-bf16"),
        ("cross_entropy", "model_config", "llama_2_7b", {}, "tokens32768-vocab32000-fp32"),
        (
            "swiglu",
            "model_config",
            "llama_2_7b",
            {"hidden_act": "silu"},
            "batch4-hidden4096-intermediate11008-seq8192-bf16",
        ),
        ("rope", "model_config", "qwen2.5_72b", {}, "hidden8192-kv_heads8-q_heads64-seq8192-bf16"),
        (
            "group_norm",
            "model_config",
            "llama_3_8b",
            {"channels_per_group": 4, "eps": 1e-6, "H": 512},
            "batch64-channels4096-channels_per_group4-hidden512-bf16",
        ),
    ],
)
def test_today_s_sweeps_have_the_shape_that_is_really_run(imported, kernel, x, value, config, case):
    text = json.dumps(config | PROBED)
    row = {"kernel_name": kernel, "x_name": x, "x_value": value, "extra_benchmark_config_str": text}
    result = imported(row)
    assert counts(result) == (1, 0, 0), result.entries
    assert the_run(result)["spec"]["sourceNative"]["externalId"].split("/")[4] == case


def test_a_renamed_kernel_meets_the_published_workload(imported):
    old = {"T": 1024, "H": 4096, "V": 128256, "mode": "forward", **BF16}
    new = {"hidden_size": 4096, "vocab_size": 128256, **BF16, "T": 1024, **PROBED}
    row = {"x_name": "B", "x_value": "2"}
    result = imported(
        row | {"kernel_name": "fused_linear_cpo_loss", "extra_benchmark_config_str": json.dumps(old)},
        row | {"kernel_name": "cpo_loss", "extra_benchmark_config_str": json.dumps(new)},
    )
    assert counts(result) == (2, 0, 0)
    assert len(by_kind(result)["WorkloadCase"]) == 1
    assert len({digest(implementation) for implementation in by_kind(result)["ImplementationRevision"]}) == 1


def test_an_unknown_model_is_refused(imported):
    text = json.dumps(PROBED)
    row = {"kernel_name": "softmax", "x_name": "model_config", "extra_benchmark_config_str": text}
    result = imported(row | {"x_value": "llama_9"}, row | {"x_value": "llama_3_8b"})
    assert result.report["skipped"] == {"unknown_model": {"llama_9": 1}}


def test_modes_and_providers_of_today_s_suite(imported):
    result = imported({"kernel_operation_mode": "no-grad-forward"}, {"kernel_provider": "liger_triton"}, {})
    assert counts(result) == (3, 0, 0)
    notes = [protocol["spec"]["comparability"]["notes"] for protocol in by_kind(result)["BenchmarkProtocol"]]
    assert sum("under torch.no_grad" in note for note in notes) == 1


MEGATRON = {
    "kernel_name": "megatron_rms_norm",
    "x_value": "1024",
    "extra_benchmark_config_str": '{"S": 4096, "B": 1}',
}


@pytest.mark.parametrize(
    ("rows", "warnings"),
    [
        ([{}], []),
        ([dict.fromkeys(("y_value_20", "y_value_50", "y_value_80"), "5.5")], [(2, "single_sample")]),
        ([dict.fromkeys(("y_value_20", "y_value_50", "y_value_80"), "0.5")], []),
        ([{"y_value_20": "1.0", "y_value_50": "1.2", "y_value_80": "1.51"}], [(2, "wide_spread")]),
        ([{"y_value_20": "1.0", "y_value_50": "1.2", "y_value_80": "1.5"}], []),
        ([MEGATRON], [(2, "backward_has_forward")]),
        ([MEGATRON | {"kernel_operation_mode": "full"}], []),
        ([{}, {"kernel_operation_mode": "full", "y_value_50": "2.5696"}], [(3, "full_faster")]),
        ([{"kernel_operation_mode": "full", "y_value_50": "2.5696"}, {"gpu_name": "NVIDIA B200"}], []),
        (
            [{"kernel_operation_mode": "full"}, {"kernel_operation_mode": "forward", "y_value_50": "2.57"}],
            [(2, "full_faster")],
        ),
        ([{"y_value_20": ""}], [(2, "no_spread")]),
        ([{"y_value_20": "2.6", "y_value_50": "2.5", "y_value_80": "2.7"}], [(2, "unordered")]),
    ],
    ids=range(12),
)
def test_doubtful_rows_are_imported_with_a_warning(imported, rows, warnings):
    result = imported(*rows)
    assert counts(result) == (len(rows), 0, 0)
    assert [(entry["record"], entry["reason"]) for entry in result.report["warnings"]] == warnings


def test_providers_that_share_an_identity_are_counted_and_listed_apart(imported):
    rows = [{"kernel_provider": "megatron"}, {"kernel_provider": "torch"}, {"kernel_provider": "huggingface"}]
    result = imported(*(MEGATRON | row for row in rows[:2]), rows[2])
    assert result.report["collisions"] == {"cells": 2, "mixed": 1}
    groups = [
        {run["provider"] for run in group["runs"]}
        for operation in catalog.build(result.manifests)["index"].values()
        for workload in operation["workloads"].values()
        for group in workload["measured"]
    ]
    assert sorted(groups, key=len) == [{"huggingface"}, {"megatron", "torch"}]


@pytest.mark.parametrize(
    ("gpu", "hardware"),
    [
        ("NVIDIA H200", {"product": "NVIDIA H200", "architecture": "sm_90"}),
        ("NVIDIA H100 NVL", {"product": "NVIDIA H100", "architecture": "sm_90", "formFactor": "NVL"}),
        ("NVIDIA L40S", {"product": "NVIDIA L40S", "architecture": "sm_89"}),
        ("NVIDIA GeForce RTX 5090", {"product": "NVIDIA GeForce RTX 5090", "architecture": "sm_120"}),
        ("NVIDIA A10G", {"product": "NVIDIA A10G", "architecture": "sm_86"}),
    ],
)
def test_other_gpus_than_the_published_ones_are_mapped_by_rule(imported, gpu, hardware):
    [found] = by_kind(imported({"gpu_name": gpu}))["ExecutionEnvironment"]
    assert found["spec"] == {"hardware": {"vendor": "nvidia", **hardware}, "software": {}}


# ---- rows that cannot be used


def config(**changes) -> dict:
    values = {"M": 2048, "dtype": "torch.bfloat16", "eps": 1e-6} | changes
    values = {key: value for key, value in values.items() if value is not ...}
    return {"extra_benchmark_config_str": json.dumps(values)}


def raw_config(text: str) -> dict:
    return {"extra_benchmark_config_str": text}


BAD_ROWS = [
    ({"kernel_name": "geglu2"}, "unknown_kernel", "geglu2", "geglu2"),
    ({"kernel_name": ""}, "unknown_kernel", "", ""),
    ({"metric_name": "energy", "metric_unit": "J"}, "unknown_metric", "energy", "energy"),
    ({"metric_unit": "us"}, "unknown_unit", "us", "us"),
    ({"kernel_operation_mode": "sideways"}, "unknown_mode", "sideways", "sideways"),
    ({"kernel_provider": "cublas"}, "unknown_provider", "cublas", "cublas"),
    ({"x_name": "T"}, "unknown_dialect", "rms_norm", "x_name T with the config keys M, dtype, eps"),
    (config(bsz=1), "unknown_dialect", "rms_norm", "x_name H with the config keys M, bsz, dtype, eps"),
    (config(eps=...), "unknown_dialect", "rms_norm", "x_name H with the config keys M, dtype"),
    (raw_config("{}"), "unknown_dialect", "rms_norm", "x_name H with the config keys nothing"),
    (raw_config('{"M": 2048'), "bad_config", "rms_norm", 'extra_benchmark_config_str {"M": 2048'),
    (raw_config("null"), "bad_config", "rms_norm", "extra_benchmark_config_str null"),
    (raw_config("[1]"), "bad_config", "rms_norm", "extra_benchmark_config_str [1]"),
    (raw_config(""), "bad_config", "rms_norm", "extra_benchmark_config_str "),
    (raw_config("[" * 50_000), "bad_config", "rms_norm", "extra_benchmark_config_str [[["),
    (config(eps=float("nan")), "bad_config", "rms_norm", "extra_benchmark_config_str {"),
    (config(dtype="torch.float64"), "unknown_dtype", "torch.float64", "dtype 'torch.float64'"),
    (config(dtype=None), "unknown_dtype", "None", "dtype None"),
    (config(dtype=["torch.float32"]), "unknown_dtype", "['torch.float32']", "dtype ['torch.float32']"),
    (config(eps="1e-6"), "bad_scalar", "rms_norm", "eps '1e-6'"),
    (config(eps=True), "bad_scalar", "rms_norm", "eps True"),
    (config(eps=None), "bad_scalar", "rms_norm", "eps None"),
    (raw_config('{"M": 1, "dtype": "torch.float32", "eps": 1e999}'), "bad_scalar", "rms_norm", "eps inf"),
    (config(M=None), "bad_axis", "rms_norm", "rows: "),
    (config(M="2048"), "bad_axis", "rms_norm", "rows: "),
    (config(M=2048.5), "bad_axis", "rms_norm", "rows: "),
    (config(M=True), "bad_axis", "rms_norm", "rows: "),
    (config(M=0), "bad_axis", "rms_norm", "rows 0, expected at least 1"),
    (config(M=-1), "bad_axis", "rms_norm", "rows -1, expected at least 1"),
    (config(M=2**53), "bad_axis", "rms_norm", "rows: "),
    ({"x_value": "llama_3_8b"}, "bad_x_value", "rms_norm", "x_value llama_3_8b"),
    ({"x_value": "16384.5"}, "bad_x_value", "rms_norm", "x_value 16384.5"),
    ({"x_value": "16_384"}, "bad_x_value", "rms_norm", "x_value 16_384"),
    ({"x_value": "nan"}, "bad_x_value", "rms_norm", "x_value nan"),
    ({"x_value": "inf"}, "bad_x_value", "rms_norm", "x_value inf"),
    ({"x_value": ""}, "bad_x_value", "rms_norm", "x_value "),
    ({"x_value": "0"}, "bad_axis", "rms_norm", "hidden 0, expected at least 1"),
    ({"x_value": "1e300"}, "bad_axis", "rms_norm", "hidden: "),
    ({"y_value_50": "nan"}, "bad_median", "rms_norm", "y_value_50 nan"),
    ({"y_value_50": "0.0"}, "bad_median", "rms_norm", "y_value_50 0.0"),
    ({"y_value_50": "-2.5"}, "bad_median", "rms_norm", "y_value_50 -2.5"),
    ({"y_value_50": "1e300"}, "bad_median", "rms_norm", "y_value_50 1e300"),
    ({"y_value_50": "inf"}, "bad_median", "rms_norm", "y_value_50 inf"),
    ({"y_value_50": ""}, "bad_median", "rms_norm", "y_value_50 "),
    ({"y_value_50": "2,5"}, "bad_median", "rms_norm", "y_value_50 2,5"),
    ({"y_value_50": "٢.٥"}, "bad_median", "rms_norm", "y_value_50 ٢.٥"),
    ({"timestamp": "2024-02-30 00:00:00"}, "bad_timestamp", "2024-02-30 00:00:00", "2024-02-30 00:00:00"),
    ({"timestamp": "now"}, "bad_timestamp", "now", "now"),
    ({"y_value_50": "1e-7"}, "bad_median", "rms_norm", "y_value_50 1e-7"),
    (
        {"extra_benchmark_config_str": '{"M": 1, "M": 2048, "dtype": "torch.bfloat16", "eps": 1e-06}'},
        "bad_config",
        "rms_norm",
        "extra_benchmark_config_str {",
    ),
    (config(H=1), "bad_config", "rms_norm", "H 1 beside the x of that name"),
    ({"timestamp": "1999-12-31 23:59:59"}, "bad_timestamp", "1999-12-31 23:59:59", "1999-12-31 23:59:59"),
    (config(M=2**40), "absurd_size", "rms_norm", "x of shape [1099511627776, 16384]"),
    (
        {
            "kernel_name": "rope",
            "x_value": "16",
            "extra_benchmark_config_str": json.dumps(
                {"dtype": "torch.bfloat16", "seq_len": 8, "num_q_heads": 32, "num_kv_heads": 8}
            ),
        },
        "bad_shape",
        "rope",
        "q: expected dimensions of at least 1",
    ),
    ({"gpu_name": "NVIDIA Z9"}, "unknown_gpu", "NVIDIA Z9", "NVIDIA Z9"),
    ({"gpu_name": ""}, "unknown_gpu", "", ""),
]


@pytest.mark.parametrize(("change", "reason", "key", "found"), BAD_ROWS, ids=range(len(BAD_ROWS)))
def test_a_row_that_cannot_be_used_has_a_reason_and_stops_no_other(imported, change, reason, key, found):
    result = imported({}, change, {"x_value": "512"})
    assert counts(result) == (2, 0, 1)
    assert result.report["skipped"] == {reason: {key: 1}}
    (entry,) = result.report["entries"]
    assert (entry["record"], entry["reason"]) == (3, reason)
    assert entry["found"].startswith(found)
    assert len(entry["found"]) <= 160
    assert entry["found"].isprintable()


def test_the_report_and_the_summary_show_no_line_breaks(imported):
    result = imported({"gpu_name": "A100\n80GB\x1b[31m"})
    ((key, count),) = result.report["skipped"]["unknown_gpu"].items()
    assert (count, key.isprintable(), key[:4]) == (1, True, "A100")
    assert result.report["entries"][0]["found"].isprintable()
    assert all(line.isprintable() for line in result.summary())


def test_a_scalar_of_400_digits_stops_no_other_row(imported):
    assert counts(imported({}, config(eps=10**400))) == (1, 0, 1)


def test_a_row_that_cannot_be_used_leaves_nothing_behind(imported):
    assert imported({"gpu_name": "NVIDIA Z9"}).manifests == []


def test_another_activation_than_the_published_one_is_another_function(imported):
    swiglu = {
        "kernel_name": "swiglu",
        "x_name": "T",
        "x_value": "1024",
        "extra_benchmark_config_str": json.dumps(
            {
                "B": 4,
                "hidden_size": 4096,
                "dtype": "torch.bfloat16",
                "intermediate_size": 11008,
                "hidden_act": "silu",
            }
        ),
    }
    gelu = swiglu["extra_benchmark_config_str"].replace("silu", "gelu")
    result = imported(swiglu, {**swiglu, "extra_benchmark_config_str": gelu})
    assert counts(result) == (1, 0, 1)
    assert result.report["skipped"] == {"unknown_config": {"swiglu": 1}}


def test_losses_whose_scripts_say_no_dtype_are_fp32(imported):
    row = {"kernel_name": "cross_entropy", "kernel_provider": "liger", "x_name": "V", "x_value": "4096"}
    result = imported({**row, "extra_benchmark_config_str": '{"B": 8, "T": 2048}'})
    assert the_run(result)["spec"]["workloadDigest"] == (
        "sha256:df069011a833333c75db108c9ab4f5218a0504fc94981ec3a1241be70443d1f1"
    )


def test_records_that_are_no_rows_are_skipped_too(imported):
    text = text_of({}, {"x_value": "512"})
    header, first, second = text.splitlines(keepends=True)
    result = imported(header + first + "a,b\r\n" + second + '"x"y,\r\n')
    assert counts(result) == (2, 0, 2)
    assert [(entry["record"], entry["reason"]) for entry in result.report["entries"]] == [
        (3, "ragged_record"),
        (5, "bad_quoting"),
    ]


@pytest.mark.parametrize("data", [b"", b"kernel_name,kernel_provider\r\n", b"\xff\xfe", b"a\0b"])
def test_a_file_that_cannot_be_trusted_is_refused_in_one_line(imported, data):
    with pytest.raises(KernelcatError) as caught:
        imported(data)
    assert len(str(caught.value).splitlines()) == 1


# ---- spread, duplicates, labels


@pytest.mark.parametrize("column", ["y_value_20", "y_value_80"])
@pytest.mark.parametrize("value", ["", "nan", "inf", "-inf", "none", "1_0"])
def test_without_both_quantiles_a_run_has_no_spread(imported, column, value):
    spec = the_run(imported({column: value}))["spec"]
    assert "measurements" not in spec
    assert spec["sourceNative"]["metrics"] == {"ms_50": 2.569632053375244}
    assert spec["timing"]["latencyNs"] == {"median": 2569632}


def test_half_a_nanosecond_is_rounded_up(imported):
    assert the_run(imported({"y_value_50": "46.8328125"}))["spec"]["timing"]["latencyNs"] == {"median": 46832813}


def test_of_duplicates_the_first_wins(imported):
    label = {"x_label": "another label"}
    result = imported({}, {"x_value": "512"}, {"y_value_50": "9.5"}, label, {"gpu_name": "NVIDIA A100 SXM4 80GB"})
    assert counts(result) == (2, 3, 0)
    assert digest(the_run(result)) == RUN_DIGEST
    assert result.report["entries"] == [
        {
            "record": 4,
            "reason": "duplicate",
            "found": f"{EXTERNAL_ID} as in record 2, p50 2.569632053375244 there, 9.5 here",
        },
        {"record": 5, "reason": "duplicate", "found": f"{EXTERNAL_ID} as in record 2, the same values"},
        {"record": 6, "reason": "duplicate", "found": f"{EXTERNAL_ID} as in record 2, the same values"},
    ]


def test_a_row_that_was_skipped_makes_no_duplicate(imported):
    assert counts(imported({"y_value_50": "nan"}, {}, {})) == (1, 1, 1)


@pytest.mark.parametrize(("version", "labels"), [("0.5.10", {"liger_version": "0.5.10"}), ("", None)])
def test_the_release_of_liger_is_a_label(imported, version, labels):
    run = the_run(imported({"liger_version": version}))
    assert run["metadata"].get("labels") == labels
    assert digest(run) == RUN_DIGEST


@pytest.mark.parametrize(
    ("name", "hardware"),
    [
        ("NVIDIA H100 80GB HBM3", {"product": "NVIDIA H100", "architecture": "sm_90", "formFactor": "80GB HBM3"}),
        ("NVIDIA GeForce RTX 3090", {"product": "NVIDIA GeForce RTX 3090", "architecture": "sm_86"}),
        ("NVIDIA B200", {"product": "NVIDIA B200", "architecture": "sm_100"}),
    ],
)
def test_a_gpu_is_product_and_form_factor(imported, name, hardware):
    (environment,) = by_kind(imported({"gpu_name": name}))["ExecutionEnvironment"]
    assert environment["spec"] == {"hardware": {"vendor": "nvidia", **hardware}, "software": {}}


# ---- whatever a file holds

cells = st.sampled_from(
    [
        "",
        "0",
        "-1",
        "nan",
        "1e999",
        "2.5",
        "512",
        "null",
        "{}",
        "speed",
        "ms",
        "H",
        "liger",
        "rope",
        "full",
        "\x01",
        "𝟙",
    ]
) | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
json_values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())
configs = st.fixed_dictionaries(
    {"M": st.integers(1, 9) | json_values, "dtype": st.just("torch.float32") | json_values, "eps": json_values},
    optional={"bsz": json_values},
).map(json.dumps)
mutations = st.dictionaries(st.sampled_from(metrics.COLUMNS), cells, max_size=3) | st.fixed_dictionaries(
    {"extra_benchmark_config_str": configs}
)


@settings(deadline=None)
@given(st.lists(mutations, max_size=6))
@example([{}, {}, {"y_value_50": "nan"}, {"kernel_name": "x"}, {}])
def test_every_row_is_imported_a_duplicate_or_skipped(imported, rows):
    result = imported(text_of(*rows))
    assert result.rows == len(rows)
    number, _, _ = counts(result)
    runs = by_kind(result).get("BenchmarkRun", [])
    assert len({digest(run) for run in runs}) == len(runs) == number
    json.dumps(result.report, allow_nan=False).encode()
    assert all(len(line.splitlines()) == 1 for line in result.summary())


HEADER = ",".join(metrics.COLUMNS).encode()


@settings(deadline=None)
@given(
    st.binary()
    | st.binary().map(lambda data: HEADER + b"\r\n" + data)
    | st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=4)
)
def test_any_bytes_are_read_or_refused_in_one_line(imported, found):
    data = found
    if isinstance(found, list):
        data = SEED.read_bytes()
        for place, piece in found:
            data = data[:place] + piece + data[place + len(piece) :]
    try:
        result = imported(data)
    except KernelcatError as error:
        assert len(str(error).splitlines()) == 1
    else:
        counts(result)


# ---- what is written


def test_what_is_written_is_a_verified_catalog_and_the_report(imported, tmp_path):
    result = imported({}, {}, {"kernel_provider": "liger"}, {"metric_name": "energy"}, {"kernel_name": "größer"})
    importing.write(result, tmp_path / "new" / "folder")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["catalog.json", "report.json"]
    found = catalog.read(tmp_path / "new" / "folder" / "catalog.json")
    assert catalog.verify(found) == []
    assert RUN_DIGEST in found["objects"]
    assert found["summary"]["runs"] == {"passed": 2}
    report = (tmp_path / "new" / "folder" / "report.json").read_text(encoding="utf-8")
    assert json.loads(report) == {
        "rows": 5,
        "imported": {"speed": 2},
        "duplicates": 1,
        "skipped": {"unknown_kernel": {"größer": 1}, "unknown_metric": {"energy": 1}},
        "entries": [
            {"record": 3, "reason": "duplicate", "found": f"{EXTERNAL_ID} as in record 2, the same values"},
            {"record": 5, "reason": "unknown_metric", "found": "energy"},
            {"record": 6, "reason": "unknown_kernel", "found": "größer"},
        ],
        "warnings": [],
        "collisions": {"cells": 2, "mixed": 0},
    }


def test_a_file_without_rows_gives_an_empty_catalog(imported, tmp_path):
    result = imported()
    assert counts(result) == (0, 0, 0)
    importing.write(result, tmp_path)
    assert catalog.verify(catalog.read(tmp_path / "catalog.json")) == []


def test_the_order_of_rows_does_not_change_the_catalog(imported):
    rows = [{"x_value": "512"}, {"kernel_provider": "liger"}, {"gpu_name": "NVIDIA B200"}]
    first, second = imported(*rows), imported(*reversed(rows))
    assert catalog.render(catalog.build(first.manifests)) == catalog.render(catalog.build(second.manifests))


def test_the_summary_counts_every_row(imported):
    rows = [{}, {}, {"kernel_name": "a"}, {"kernel_name": "a"}, {"kernel_name": "b"}, {"metric_unit": ""}]
    assert imported(*rows).summary() == [
        "6 rows: 1 imported, 1 duplicate, 4 skipped",
        "skipped, unknown_kernel: a (2), b (1)",
        "skipped, unknown_unit: (nothing) (1)",
    ]
