"""Rows of Liger's benchmark suite of today: each kernel's and each sweep's case, by hand from what the script runs."""

import csv
import io
import json
from pathlib import Path

import pytest

from kernelcat import catalog, importing, kernels, libraries, metrics
from kernelcat.models import MODELS

SEED = Path(__file__).parent / "data" / "seed" / "rms_norm-backward-huggingface-a100.csv"

with SEED.open(newline="", encoding="utf-8") as _file:
    ROW = next(csv.DictReader(_file))


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Imports changes to the seed's row."""
    path = tmp_path_factory.mktemp("import") / "rows.csv"

    def run(*changes: dict) -> importing.Import:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, metrics.COLUMNS)
        writer.writeheader()
        writer.writerows({**ROW, **change} for change in changes)
        path.write_text(text.getvalue(), encoding="utf-8", newline="")
        return importing.import_csv(path)

    return run


def row(kernel: str, x: str, value: str, config: dict, **change: str) -> dict:
    text = json.dumps(config)
    return {"kernel_name": kernel, "x_name": x, "x_value": value, "extra_benchmark_config_str": text} | change


def of_models(*keys: str, **more: object) -> dict:
    """The `model_configs` of some scripts."""
    return {"model_configs": {name: {key: model[key] for key in keys} | more for name, model in MODELS.items()}}


def spec(result: importing.Import, kind: str) -> dict:
    (found,) = [manifest["spec"] for manifest in result.manifests if manifest["kind"] == kind]
    return found


PROBED = {"bsz": 4, "seq_len": 8192}  # by a memory probe: no shape, unless a script says so
BF16 = {"dtype": "torch.bfloat16"}
FP32 = {"dtype": "torch.float32"}
HIDDEN = {"hidden_size": 4096, **BF16}
HEAD = {"hidden_size": 4096, "vocab_size": 128256, **BF16}
DPO = {"T": 512, "bias": True, "beta": 0.1, "ignore_index": 42}
ATTN_RES = {"N": 8, "bsz": 1, "seq_len": 8192, "eps": 1e-6}
MLP = {"bsz": 1, "seq_len": 8192, "hidden_act": "silu"}
GRPO = {"T": 512, "V": 32000, "beta": 0.1, **BF16}
MHC = {"HC": 4, "tmax": 20, "rms_eps": 1e-6, "pre_eps": 0.0, "sinkhorn_eps": 1e-6, "post_mult": 2.0}
MHC_LM = {"HC": 4, "layers": 2, "heads": 8, "vocab": 4096, "tmax": 8, "intermediate_mult": 4}
MTA = {"C_in": 4, "C_out": 4, "K": 3, "groups": 1, "bias": True}
NEIGHBORHOOD = {"num_heads": 12, "kernel_size": 7, "dilation": 1, "bias": True}
SWIGLU = {"activation_type": "swiglu", "num_shards": 4}
GEGLU = {"activation_type": "geglu", "num_shards": 4}
SIZES = ("hidden_size", "intermediate_size", "dtype")

ROWS = [
    ("attn_res", "T", "2048", HIDDEN | ATTN_RES, "batch1-blocks8-hidden4096-seq2048-bf16"),
    ("attn_res", "model_config", "qwen2.5_7b", ATTN_RES, "batch1-blocks8-hidden3584-seq8192-bf16"),
    ("dpo_loss", "B", "8", HEAD | DPO | PROBED, "batch8-hidden4096-seq512-vocab128256-bf16"),
    ("dpo_loss", "model_config", "llama_2_7b", DPO | PROBED, "batch4-hidden4096-seq512-vocab32000-bf16"),
    ("dyt", "BT", "2048", HIDDEN | PROBED | {"beta": True}, "hidden4096-tokens2048-bf16"),
    ("dyt", "BT", "2048", HIDDEN | PROBED | {"beta": False}, "hidden4096-tokens2048-bf16"),
    ("dyt", "model_config", "deepseek_v3", PROBED | {"beta": True}, "hidden7168-tokens32768-bf16"),
    ("poly_norm", "T", "1024", HIDDEN | PROBED | {"eps": 1e-6}, "hidden4096-rows1024-bf16"),
    ("poly_norm", "model_config", "qwen2.5_14b", PROBED | {"eps": 1e-6}, "hidden5120-rows8192-bf16"),
    (
        "mlp",
        "T",
        "1024",
        {"intermediate_size": 14336} | HIDDEN | MLP,
        "batch1-hidden4096-intermediate14336-seq1024-bf16",
    ),
    ("mlp", "model_config", "llama_2_7b", MLP, "batch1-hidden4096-intermediate11008-seq8192-bf16"),
    ("modulated_rms_norm", "BT", "4096", HIDDEN | {"eps": 1e-6, "has_shift": True}, "hidden4096-rows4096-bf16"),
    (
        "modulated_rms_norm",
        "model_config",
        "qwen2.5_72b",
        of_models("hidden_size", "dtype") | {"BT": 2048, "eps": 1e-6, "has_shift": True},
        "hidden8192-rows2048-bf16",
    ),
    (
        "qwen2vl_mrope",
        "T",
        "1024",
        HIDDEN | PROBED | {"num_attention_heads": 32, "num_key_value_heads": 8},
        "hidden4096-kv_heads8-q_heads32-seq1024-bf16",
    ),
    ("qwen2vl_mrope", "model_config", "qwen2.5_7b", PROBED, "hidden3584-kv_heads4-q_heads28-seq8192-bf16"),
    (
        "grpo_loss_kernel_token",
        "B",
        "16",
        GRPO | {"importance_sampling_level": "token"},
        "batch16-seq512-vocab32000-bf16",
    ),
    (
        "grpo_loss_kernel_sequence",
        "B",
        "2",
        GRPO | {"importance_sampling_level": "sequence"},
        "batch2-seq512-vocab32000-bf16",
    ),
    *(
        (
            f"mhc_{part}",
            "T",
            "128",
            MHC | {"B": 4, "C": 4096, "sub_kernel": part},
            "batch4-hidden4096-seq128-streams4-bf16",
        )
        for part in ("coeffs", "pre", "post_res")
    ),
    *(
        (
            f"mhc_{part}",
            "model_config",
            "deepseek_v2_lite",
            of_models("hidden_size", "dtype") | MHC | {"B": 2, "T": 1024, "sub_kernel": part},
            "batch2-hidden2048-seq1024-streams4-bf16",
        )
        for part in ("coeffs", "pre", "post_res")
    ),
    (
        "mhc_llama_like_lm",
        "T",
        "256",
        HIDDEN | MHC_LM | {"B": 2},
        "batch2-heads8-hidden4096-intermediate_mult4-layers2-seq256-streams4-vocab4096-bf16",
    ),
    (
        "mhc_llama_like_lm",
        "model_config",
        "qwen2.5_7b",
        of_models("hidden_size", "dtype") | MHC_LM | {"B": 1, "T": 2048},
        "batch1-heads8-hidden3584-intermediate_mult4-layers2-seq2048-streams4-vocab4096-bf16",
    ),
    *(
        (name, x, value, config, case)
        for name in (
            "cutedsl_fused_linear_cross_entropy_sm90",
            "cutile_fused_linear_cross_entropy_sm90",
            "fused_scaled_cross_entropy_sm90",
        )
        for x, value, config, case in (
            ("BT", "8192", HEAD | PROBED, "hidden4096-tokens8192-vocab128256-bf16"),
            ("model_config", "qwen2.5_7b", PROBED, "hidden3584-tokens32768-vocab152064-bf16"),
        )
    ),
    (
        "fused_scaled_cross_entropy_sm90",
        "BT",
        "4096",
        {"hidden_size": 4096, "vocab_size": 131072, **BF16},
        "hidden4096-tokens4096-vocab131072-bf16",
    ),
    ("multi_token_attention", "L", "1024", MTA | BF16 | {"B": 2}, "batch2-heads_in4-heads_out4-k3-seq1024-bf16"),
    (
        "multi_token_attention",
        "model_config",
        "llama_3_8b",
        of_models("dtype") | MTA | {"B": 2, "L": 32},
        "batch2-heads_in4-heads_out4-k3-seq32-bf16",
    ),
    ("sparse_multi_token_attention", "L", "64", MTA | FP32 | {"B": 2}, "batch2-heads_in4-heads_out4-k3-seq64-fp32"),
    (
        "sparse_multi_token_attention",
        "model_config",
        "llama_3_8b",
        MTA | FP32 | {"B": 2, "L": 32},
        "batch2-heads_in4-heads_out4-k3-seq32-fp32",
    ),
    (
        "fused_neighborhood_attention",
        "seq_len",
        "64",
        HIDDEN | NEIGHBORHOOD | {"batch_size": 2},
        "batch2-dilation1-heads12-hidden4096-kernel_size7-seq64-bf16",
    ),
    (
        "fused_neighborhood_attention",
        "model_config",
        "small_bf16",  # as every other name: what "name" says is run
        {"name": "medium_fp32", "batch_size": 4, "hidden_size": 768, "seq_len": 1024} | FP32 | NEIGHBORHOOD,
        "batch4-dilation1-heads12-hidden768-kernel_size7-seq1024-fp32",
    ),
    (
        "tiled_swiglu",
        "T",
        "1024",
        {"intermediate_size": 14336, "hidden_act": "silu", "bsz": 2} | HIDDEN | SWIGLU,
        "batch2-hidden4096-intermediate14336-seq1024-bf16",
    ),
    (
        "tiled_swiglu",
        "model_config",
        "llama_2_7b",
        of_models(*SIZES, hidden_act="silu") | SWIGLU | PROBED,
        "batch4-hidden4096-intermediate11008-seq8192-bf16",
    ),
    (
        "tiled_geglu",
        "model_config",
        "qwen2.5_72b",
        of_models(*SIZES, hidden_act="gelu_pytorch_tanh") | GEGLU | PROBED,
        "batch4-hidden8192-intermediate29568-seq8192-bf16",
    ),
    (
        "fused_moe",
        "E",
        "64",
        {"sweep_dim": "E", "T": 8192, "E": None, "H": 2048, "intermediate_dim": 768, "K": 8, **BF16},
        "experts64-hidden2048-intermediate768-k8-tokens8192-bf16",
    ),
]


@pytest.mark.parametrize(("kernel", "x", "value", "config", "case"), ROWS)
def test_a_row_has_the_case_that_is_really_run(imported, kernel, x, value, config, case):
    result = imported(row(kernel, x, value, config))
    assert result.report["skipped"] == {}, result.report["entries"]
    assert spec(result, "BenchmarkRun")["sourceNative"]["externalId"].split("/")[4] == case
    assert catalog.verify(catalog.build(result.manifests)) == []


def test_all_rows_together_are_a_verified_catalog(imported):
    result = imported(*(row(*cells[:4]) for cells in ROWS))
    assert result.report["imported"] == {"speed": len(ROWS)}
    assert catalog.verify(catalog.build(result.manifests)) == []


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        ("attn_res", {"values": ([8, 1, 2048, 4096], "bf16"), "w_query": ([4096], "bf16")}),
        ("dyt", {"x": ([2048, 4096], "bf16"), "alpha": ([1], "fp32"), "beta": ([4096], "fp32")}),
        ("qwen2vl_mrope", {"k": ([1, 8, 1024, 128], "bf16"), "cos": ([3, 1, 1024, 128], "bf16")}),
        (
            "grpo_loss_kernel_token",
            {"logits": ([16, 513, 32000], "bf16"), "ref_logp": ([16, 512], "fp32"), "advantages": ([16], "bf16")},
        ),
        ("mhc_coeffs", {"x": ([4, 128, 4, 4096], "bf16"), "phi": ([16384, 24], "bf16"), "b": ([24], "fp32")}),
        ("mhc_post_res", {"f_out": ([4, 128, 4096], "bf16"), "h_res": ([4, 128, 4, 4], "fp32")}),
        (
            "mhc_llama_like_lm",
            {"embedding": ([4096, 16384], "bf16"), "w_down": ([2, 4096, 16384], "bf16"), "b": ([2, 2, 24], "fp32")},
        ),
    ],
)
def test_the_tensors_are_those_of_the_script(imported, kernel, shapes):
    cells = next(cells for cells in ROWS if cells[0] == kernel)
    tensors = spec(imported(row(*cells[:4])), "WorkloadCase")["tensors"]
    assert {name: tensors[name] for name in shapes} == {
        name: {"shape": shape, "dtype": dtype} for name, (shape, dtype) in shapes.items()
    }


@pytest.mark.parametrize(
    ("kernel", "scalars"),
    [
        ("attn_res", {"eps": 1e-6}),
        ("dpo_loss", {"beta": 0.1}),
        ("mhc_coeffs", {"tmax": 20, "rms_eps": 1e-6, "pre_eps": 0.0, "sinkhorn_eps": 1e-6, "post_mult": 2.0}),
        ("mhc_llama_like_lm", {"tmax": 8, "rms_eps": 1e-6, "pre_eps": 1e-4, "sinkhorn_eps": 1e-6, "post_mult": 2.0}),
        ("fused_scaled_cross_entropy_sm90", {"temperature": 1.0}),
    ],
)
def test_the_scalars_are_those_of_the_script(imported, kernel, scalars):
    cells = next(cells for cells in ROWS if cells[0] == kernel)
    found = spec(imported(row(*cells[:4])), "WorkloadCase")["scalars"]
    assert {name: said["value"] for name, said in found.items()} == scalars


@pytest.mark.parametrize("name", sorted({cells[0] for cells in ROWS}))
def test_no_row_has_two_dialects(name):
    known = [(dialect.x, dialect.keys) for dialect in kernels.load_all()[name].dialects]
    assert len(set(known)) == len(known)


TILED = of_models(*SIZES, hidden_act="silu") | SWIGLU | PROBED
MODULATED = {"BT": 2048, "eps": 1e-6, "has_shift": True}


@pytest.mark.parametrize(
    ("kernel", "x", "value", "config", "reason"),
    [
        ("attn_res", "T", "2048", HIDDEN | ATTN_RES | {"heads": 2}, "unknown_dialect"),
        ("dyt", "BT", "2048", HIDDEN | PROBED | {"beta": None}, "unknown_config"),
        ("grpo_loss_kernel_token", "B", "2", GRPO | {"importance_sampling_level": "sequence"}, "unknown_config"),
        ("mhc_pre", "T", "128", MHC | {"B": 4, "C": 4096, "sub_kernel": "coeffs"}, "unknown_config"),
        ("tiled_swiglu", "model_config", "llama_9", TILED, "unknown_model"),
        ("tiled_swiglu", "model_config", "llama_2_7b", TILED | {"model_configs": None}, "bad_config"),
        ("tiled_swiglu", "model_config", "llama_2_7b", TILED | {"model_configs": {"llama_2_7b": 1}}, "unknown_config"),
        ("tiled_swiglu", "model_config", "llama_2_7b", TILED | of_models(*SIZES, hidden_act="gelu"), "unknown_config"),
        ("modulated_rms_norm", "model_config", "llama_2_7b", of_models(*SIZES) | MODULATED, "unknown_config"),
        (
            "modulated_rms_norm",
            "model_config",
            "llama_2_7b",
            of_models("dtype", hidden_size="4096") | MODULATED,
            "bad_axis",
        ),
        ("modulated_rms_norm", "model_config", "llama_2_7b", MODULATED, "unknown_dialect"),
        ("sparse_multi_token_attention", "model_config", "llama_3_8b", MTA | {"B": 2, "L": 32}, "unknown_dialect"),
    ],
)
def test_what_is_not_exactly_known_is_refused(imported, kernel, x, value, config, reason):
    result = imported(row(kernel, x, value, config))
    assert list(result.report["skipped"]) == [reason]
    assert result.manifests == []


@pytest.mark.parametrize(
    ("provider", "project", "language"),
    [
        ("pytorch", "PyTorch", "python"),
        ("cutile-sm90", "Liger-Kernel", "cutile"),
        ("cutedsl-sm90", "Liger-Kernel", "cutedsl"),
        ("liger_cutile", "Liger-Kernel", "cutile"),
        ("liger_triton-fp32-accum", "Liger-Kernel", "triton"),
    ],
)
def test_providers_of_today(imported, provider, project, language):
    result = imported(row(*ROWS[0][:4], kernel_provider=provider))
    assert spec(result, "SoftwareProject")["name"] == project
    assert spec(result, "ImplementationRevision")["callable"]["language"] == language


def test_each_language_of_liger_needs_its_own_compiler():
    found = {library.language: library.packages for library in (libraries.LIGER_CUTILE, libraries.LIGER_CUTEDSL)}
    assert found == {
        "cutile": ("cuda-tile", "liger-kernel", "torch"),
        "cutedsl": ("liger-kernel", "nvidia-cutlass-dsl", "torch"),
    }
