"""What a pass must move and compute at least, against counts made by hand."""

import pytest

from kernelcat import kernels, roofline
from kernelcat.kernel import Case
from kernelcat.roofline import Limits

KERNELS = kernels.load_all()

# x and y of 4 × 8, a weight of 8; x and weight of 16 × 32 and 64 × 32 with 16 targets of 8 bytes and one loss
RMS_NORM = Case({"rows": 4, "hidden": 8}, "bf16", {"eps": 1e-6})
LOSS = Case({"tokens": 16, "hidden": 32, "vocab": 64}, "fp32")


def fp32(**axes: int) -> Case:
    return Case(axes, "fp32")


# Counted by hand, tensor by tensor, mostly in elements of 4 bytes.
BY_HAND = [
    ("fused_add_rms_norm", fp32(rows=6, hidden=64), "forward", 4 * (4 * 384 + 64)),
    ("fused_add_rms_norm", fp32(rows=6, hidden=64), "backward", 4 * (5 * 384 + 2 * 64)),
    ("modulated_rms_norm", fp32(rows=6, hidden=64), "forward", 4 * (4 * 384 + 64)),
    ("modulated_rms_norm", fp32(rows=6, hidden=64), "backward", 4 * (6 * 384 + 2 * 64)),
    (
        "group_norm",
        fp32(channels=8, batch=3, hidden=16, channels_per_group=4),
        "forward",
        4 * (2 * 384 + 8 + 8),
    ),
    (
        "group_norm",
        fp32(channels=8, batch=3, hidden=16, channels_per_group=4),
        "backward",
        4 * (3 * 384 + 4 * 8),
    ),
    ("poly_norm", fp32(rows=6, hidden=64), "forward", 4 * (2 * 384 + 3 + 1)),
    ("poly_norm", fp32(rows=6, hidden=64), "backward", 4 * (3 * 384 + 8)),
    ("dyt", fp32(tokens=6, hidden=64), "forward", 4 * (2 * 384 + 1 + 2 * 64)),
    ("dyt", fp32(tokens=6, hidden=64), "backward", 4 * (3 * 384 + 2 + 4 * 64)),
    ("dyt_without_beta", fp32(tokens=6, hidden=64), "forward", 4 * (2 * 384 + 1 + 64)),
    ("dyt_without_beta", fp32(tokens=6, hidden=64), "backward", 4 * (3 * 384 + 2 + 2 * 64)),
    (
        "geglu",
        fp32(batch=2, seq=8, hidden=32, intermediate=48),
        "forward",
        4 * (2 * 512 + 3 * 1536),
    ),
    (
        "geglu",
        fp32(batch=2, seq=8, hidden=32, intermediate=48),
        "backward",
        4 * (3 * 512 + 6 * 1536),
    ),
    (
        "mlp",
        fp32(batch=2, seq=8, hidden=32, intermediate=48),
        "forward",
        4 * (2 * 512 + 3 * 1536),
    ),
    (
        "mlp",
        fp32(batch=2, seq=8, hidden=32, intermediate=48),
        "backward",
        4 * (3 * 512 + 6 * 1536),
    ),
    (
        "swiglu",
        fp32(batch=2, seq=8, hidden=32, intermediate=48),
        "forward",
        4 * (2 * 512 + 3 * 1536),
    ),
    (
        "swiglu",
        fp32(batch=2, seq=8, hidden=32, intermediate=48),
        "backward",
        4 * (3 * 512 + 6 * 1536),
    ),
    (
        "tiled_swiglu",
        fp32(batch=2, seq=8, hidden=32, intermediate=48),
        "forward",
        4 * (2 * 512 + 3 * 1536),
    ),
    (
        "tiled_swiglu",
        fp32(batch=2, seq=8, hidden=32, intermediate=48),
        "backward",
        4 * (3 * 512 + 6 * 1536),
    ),
    (
        "tiled_geglu",
        fp32(batch=2, seq=8, hidden=32, intermediate=48),
        "forward",
        4 * (2 * 512 + 3 * 1536),
    ),
    (
        "tiled_geglu",
        fp32(batch=2, seq=8, hidden=32, intermediate=48),
        "backward",
        4 * (3 * 512 + 6 * 1536),
    ),
    ("relu_squared", fp32(rows=6, hidden=64), "forward", 4 * 2 * 384),
    ("relu_squared", fp32(rows=6, hidden=64), "backward", 4 * 3 * 384),
    (
        "fused_moe",
        fp32(tokens=10, experts=4, hidden=32, intermediate=16, k=2),
        "forward",
        4 * (320 + 4096 + 2048 + 20 + 20 + 320),
    ),
    ("megatron_rms_norm", fp32(seq=4, batch=2, hidden=64), "forward", 4 * (2 * 512 + 64)),
    ("megatron_rms_norm", fp32(seq=4, batch=2, hidden=64), "backward", 4 * (3 * 512 + 2 * 64)),
    ("megatron_swiglu", fp32(seq=4, batch=2, ffn=32), "forward", 4 * (512 + 256)),
    ("megatron_swiglu", fp32(seq=4, batch=2, ffn=32), "backward", 4 * (512 + 256 + 512)),
    ("sparsemax", fp32(tokens=2, features=3), "forward", 4 * 12),
    (
        "multi_token_attention",
        fp32(batch=1, seq=4, heads_in=2, heads_out=3, k=3),
        "forward",
        4 * (2 * 10 + 3 * 16 + 3 * 2 * 9 + 3),
    ),
    (
        "multi_token_attention",
        fp32(batch=1, seq=4, heads_in=2, heads_out=3, k=3),
        "backward",
        4 * (20 + 30 + 32 + 2 * 54 + 3),
    ),
    (
        "multi_token_attention",
        fp32(batch=1, seq=4, heads_in=2, heads_out=3, k=3),
        "full",
        4 * (20 + 30 + 48 + 32 + 2 * 57),
    ),
    (
        "sparse_multi_token_attention",
        fp32(batch=1, seq=4, heads_in=2, heads_out=3, k=3),
        "forward",
        4 * (2 * 10 + 3 * 16 + 3 * 2 * 9 + 3),
    ),
    (
        "sparse_multi_token_attention",
        fp32(batch=1, seq=4, heads_in=2, heads_out=3, k=3),
        "backward",
        4 * (20 + 30 + 32 + 2 * 54 + 3),
    ),
    (
        "sparse_multi_token_attention",
        fp32(batch=1, seq=4, heads_in=2, heads_out=3, k=3),
        "full",
        4 * (20 + 30 + 48 + 32 + 2 * 57),
    ),
    ("attn_res", fp32(batch=1, seq=2, blocks=3, hidden=4), "forward", 4 * (24 + 4 + 4 + 8)),
    ("rope", fp32(seq=3, hidden=8, q_heads=2, kv_heads=1), "forward", 4 * 2 * 36),
    ("rope", fp32(seq=3, hidden=8, q_heads=2, kv_heads=1), "backward", 4 * 2 * 36),
    ("llama4_rope", fp32(seq=3, hidden=8, q_heads=2, kv_heads=1), "forward", 4 * 2 * 36),
    ("llama4_rope", fp32(seq=3, hidden=8, q_heads=2, kv_heads=1), "backward", 4 * 2 * 36),
    (
        "qwen2vl_mrope",
        fp32(seq=3, hidden=32, q_heads=2, kv_heads=1),
        "forward",
        4 * (2 * 3 * 3 * 16 + 3 * 16),
    ),
    ("embedding", fp32(vocab=6, batch=1, seq=3, hidden=5), "forward", 8 * 3 + 4 * (5 * 2 + 15)),
    ("embedding", fp32(vocab=6, batch=1, seq=3, hidden=5), "backward", 8 * 3 + 4 * 5 * (3 + 6)),
    (
        "mhc_coeffs",
        fp32(batch=1, seq=2, streams=2, hidden=3),
        "forward",
        4 * (12 + 48 + 8 + 3 + 4 + 4 + 8),
    ),
    ("mhc_pre", fp32(batch=1, seq=2, streams=2, hidden=3), "forward", 4 * (12 + 4 + 6)),
    ("mhc_pre", fp32(batch=1, seq=2, streams=2, hidden=3), "backward", 4 * (12 + 4 + 6 + 12 + 4)),
    ("mhc_pre", Case({"batch": 1, "seq": 2, "streams": 2, "hidden": 3}, "bf16"), "forward", 2 * 12 + 4 * 4 + 2 * 6),
    (
        "mhc_post_res",
        fp32(batch=1, seq=2, streams=2, hidden=3),
        "forward",
        4 * (12 + 6 + 4 + 8 + 12),
    ),
    ("mhc_post_res", fp32(batch=1, seq=2, streams=2, hidden=3), "backward", 4 * (30 + 12 + 30)),
    (
        "fused_neighborhood_attention",
        fp32(batch=1, seq=5, hidden=4, heads=2, kernel_size=3, dilation=1),
        "forward",
        4 * (20 + 4 * 16 + 4 * 4 + 20),
    ),
    ("kl_div", fp32(tokens=8, vocab=32), "forward", 1024 + 1024 + 4),
    ("kl_div", fp32(tokens=8, vocab=32), "backward", 1024 + 4 + 1024),
    ("kl_div", fp32(tokens=8, vocab=32), "full", 2048 + 8 + 1024),
    ("jsd", fp32(tokens=8, vocab=32), "forward", 1024 + 1024 + 4),
    ("jsd", fp32(tokens=8, vocab=32), "backward", 1024 + 4 + 1024),
    ("jsd", fp32(tokens=8, vocab=32), "full", 2048 + 8 + 1024),
    ("tvd", fp32(tokens=8, vocab=32), "forward", 1024 + 1024 + 4),
    ("tvd", fp32(tokens=8, vocab=32), "backward", 1024 + 4 + 1024),
    ("tvd", fp32(tokens=8, vocab=32), "full", 2048 + 8 + 1024),
    ("fused_linear_jsd", fp32(tokens=8, hidden=16, vocab=32), "forward", 2 * (512 + 2048) + 4),
    ("fused_linear_jsd", fp32(tokens=8, hidden=16, vocab=32), "backward", 2560 + 4 + 2560),
    ("fused_linear_jsd", fp32(tokens=8, hidden=16, vocab=32), "full", 5120 + 8 + 2560),
    ("distill_jsd_loss", fp32(tokens=8, hidden=16, vocab=32), "forward", 1280 + 2560 + 64 + 4),
    ("distill_jsd_loss", fp32(tokens=8, hidden=16, vocab=32), "backward", 1280 + 4 + 1280),
    ("distill_jsd_loss", fp32(tokens=8, hidden=16, vocab=32), "full", 3904 + 8 + 1280),
    ("distill_cosine_loss", fp32(tokens=8, hidden=16, vocab=32), "forward", 1280 + 2560 + 64 + 4),
    ("distill_cosine_loss", fp32(tokens=8, hidden=16, vocab=32), "backward", 1280 + 4 + 1280),
    ("distill_cosine_loss", fp32(tokens=8, hidden=16, vocab=32), "full", 3904 + 8 + 1280),
    ("megatron_cross_entropy", fp32(seq=4, batch=2, vocab=32), "forward", 1024 + 64 + 32),
    (
        "fused_linear_cpo_loss",
        fp32(batch=2, seq=4, hidden=16, vocab=32),
        "forward",
        512 + 2048 + 64 + 4,
    ),
    (
        "fused_linear_orpo_loss",
        fp32(batch=2, seq=4, hidden=16, vocab=32),
        "forward",
        512 + 2048 + 64 + 4,
    ),
    (
        "fused_linear_simpo_loss",
        fp32(batch=2, seq=4, hidden=16, vocab=32),
        "forward",
        512 + 2048 + 64 + 4,
    ),
    (
        "dpo_loss",
        fp32(batch=2, seq=4, hidden=16, vocab=32),
        "forward",
        2 * 512 + 2 * 2048 + 128 + 64 + 4,
    ),
    ("dpo_loss", fp32(batch=2, seq=4, hidden=16, vocab=32), "backward", 2688 + 4 + 2688),
    (
        "kto_loss",
        fp32(batch=2, seq=4, hidden=16, vocab=32),
        "forward",
        2 * 512 + 2 * 2048 + 128 + 64 + 4 + 128 + 4 + 2,
    ),
    ("kto_loss", fp32(batch=2, seq=4, hidden=16, vocab=32), "backward", 2688 + 4 + 2688),
    (
        "grpo_loss_kernel_token",
        fp32(batch=2, seq=4, vocab=32),
        "forward",
        1280 + 32 + 64 + 8 + 8 + 4,
    ),
    (
        "grpo_loss_kernel_sequence",
        fp32(batch=2, seq=4, vocab=32),
        "forward",
        1280 + 32 + 64 + 8 + 8 + 4,
    ),
]


@pytest.mark.parametrize(
    ("kernel", "case", "mode", "expected"),
    [
        ("rms_norm", RMS_NORM, "forward", 2 * (32 + 8 + 32)),
        ("rms_norm", RMS_NORM, "backward", 2 * (32 + 8 + 32 + 32 + 8)),
        ("rms_norm", RMS_NORM, "full", 2 * (32 + 8 + 32 + 32 + 32 + 8)),
        ("fused_linear_cross_entropy", LOSS, "forward", 4 * (512 + 2048 + 1) + 8 * 16),
        ("fused_linear_cross_entropy", LOSS, "backward", 4 * (512 + 2048 + 1 + 512 + 2048) + 8 * 16),
        ("memory_copy", fp32(elements=10), "forward", 80),
        ("memory_triad", fp32(elements=10), "forward", 120),
        ("memory_read", fp32(rows=2, columns=5), "forward", 48),
        ("matmul", Case({"rows": 2, "inner": 3, "columns": 5}, "fp16"), "forward", 2 * (6 + 15 + 10)),
        ("matmul", Case({"rows": 2, "inner": 3, "columns": 5}, "fp16"), "no-grad-forward", 2 * (6 + 15 + 10)),
        *BY_HAND,
    ],
)
def test_traffic(kernel, case, mode, expected):
    assert roofline.traffic_bytes(KERNELS[kernel], case, mode) == expected


@pytest.mark.parametrize(
    ("kernel", "case", "mode", "expected"),
    [
        ("matmul", Case({"rows": 2, "inner": 3, "columns": 5}, "fp16"), "forward", 60),
        ("matmul", Case({"rows": 2, "inner": 3, "columns": 5}, "fp16"), "backward", 120),
        ("fused_linear_cross_entropy", LOSS, "full", 3 * 2 * 16 * 32 * 64),
        ("swiglu", Case({"seq": 3, "batch": 2, "hidden": 4, "intermediate": 5}, "bf16"), "forward", 6 * 3 * 2 * 4 * 5),
        (
            "group_norm",
            fp32(channels=8, batch=3, hidden=16, channels_per_group=4),
            "forward",
            3072,
        ),
        ("mlp", fp32(batch=2, seq=8, hidden=32, intermediate=48), "forward", 147456),
        ("dyt", fp32(tokens=6, hidden=64), "forward", 1536),
        ("sparsemax", fp32(tokens=2, features=3), "forward", 24),
        (
            "multi_token_attention",
            fp32(batch=1, seq=4, heads_in=2, heads_out=3, k=3),
            "forward",
            1180,
        ),
        ("attn_res", fp32(batch=1, seq=2, blocks=3, hidden=4), "forward", 144),
        (
            "fused_neighborhood_attention",
            fp32(batch=1, seq=5, hidden=4, heads=2, kernel_size=3, dilation=1),
            "forward",
            880,
        ),
        ("mhc_coeffs", fp32(batch=1, seq=2, streams=2, hidden=3), "forward", 216),
        ("mhc_post_res", fp32(batch=1, seq=2, streams=2, hidden=3), "forward", 72),
        ("jsd", fp32(tokens=8, vocab=32), "forward", 3072),
        ("fused_linear_jsd", fp32(tokens=8, hidden=16, vocab=32), "forward", 16384),
        ("dpo_loss", fp32(batch=2, seq=4, hidden=16, vocab=32), "forward", 16384),
        ("distill_jsd_loss", fp32(tokens=8, hidden=16, vocab=32), "forward", 12288),
        ("grpo_loss_kernel_token", fp32(batch=2, seq=4, vocab=32), "forward", 1024),
        ("distill_jsd_loss", fp32(tokens=8, hidden=16, vocab=32), "backward", 8192),
        ("dpo_loss", fp32(batch=2, seq=4, hidden=16, vocab=32), "full", 4 * 8192),
        ("memory_copy", fp32(elements=10), "forward", None),
    ],
)
def test_operations(kernel, case, mode, expected):
    assert roofline.operations(KERNELS[kernel], case, mode) == expected


def test_every_kernel_that_is_measured_says_its_operations():
    """A copy and a lookup have none."""
    silent = {name for name, kernel in KERNELS.items() if kernel.providers and kernel.flops is None}
    assert silent == {"embedding", "memory_copy"}
    for name, kernel in KERNELS.items():
        if kernel.flops:
            axes = {axis: 64 for axis in kernel.axes}
            assert roofline.operations(kernel, Case(axes, "fp32"), "forward") > 0, name


def limits(*runs: tuple[str, Case, float]) -> Limits:
    found = Limits()
    for name, case, seconds in runs:
        found.add(name, KERNELS[name], case, seconds)
    return found


def test_the_best_bandwidth_counts_and_the_rate_of_each_dtype():
    cases = {name: case for name, case in roofline.calibration({"fp32"})}
    found = limits(
        ("memory_copy", cases["memory_copy"], 1.0),
        ("memory_triad", cases["memory_triad"], 1.0),
        ("memory_read", cases["memory_read"], 1.0),
        ("matmul", cases["matmul"], 2.0),
    )
    assert found.bytes_per_second == 3 * 2**30
    assert found.flops_per_second == {"fp32": 8192**3}


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        (Limits(), None),
        (Limits(flops_per_second={"fp32": 1.0}), None),
        (Limits(1e3), 10.372),
        (Limits(1e3, {"fp32": 1e9}), 10.372),
        (Limits(1e3, {"bf16": 1.0}), 10.372),
        (Limits(1e3, {"fp32": 1e3}), 65.536),
    ],
)
def test_the_slower_of_moving_and_computing_is_attainable(found, seconds):
    attainable = found.attainable_seconds(KERNELS["fused_linear_cross_entropy"], LOSS, "forward")
    assert attainable == (seconds and pytest.approx(seconds))


def test_calibration_covers_each_dtype_and_is_known_again():
    cases = roofline.calibration({"bf16", "fp32"})
    assert [(name, case.dtype) for name, case in cases] == [
        ("memory_copy", "fp32"),
        ("memory_read", "fp32"),
        ("memory_triad", "fp32"),
        ("matmul", "bf16"),
        ("matmul", "fp32"),
    ]
    assert all(roofline.is_calibration(name, case) for name, case in cases)
    assert not roofline.is_calibration("memory_copy", fp32(elements=64))
    assert not roofline.is_calibration("rms_norm", RMS_NORM)
