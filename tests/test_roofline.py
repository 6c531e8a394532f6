"""What a pass must move and compute at least, against counts made by hand."""

import pytest

from kernelcat import kernels, roofline
from kernelcat.kernel import Case
from kernelcat.roofline import Limits

KERNELS = kernels.load_all()

# x and y of 4 × 8, a weight of 8; x and weight of 16 × 32 and 64 × 32 with 16 targets of 8 bytes and one loss
RMS_NORM = Case({"rows": 4, "hidden": 8}, "bf16", {"eps": 1e-6})
LOSS = Case({"tokens": 16, "hidden": 32, "vocab": 64}, "fp32")


@pytest.mark.parametrize(
    ("kernel", "case", "mode", "expected"),
    [
        ("rms_norm", RMS_NORM, "forward", 2 * (32 + 8 + 32)),
        ("rms_norm", RMS_NORM, "backward", 2 * (32 + 8 + 32 + 32 + 8)),
        ("rms_norm", RMS_NORM, "full", 2 * (32 + 8 + 32 + 32 + 32 + 8)),
        ("fused_linear_cross_entropy", LOSS, "forward", 4 * (512 + 2048 + 1) + 8 * 16),
        ("fused_linear_cross_entropy", LOSS, "backward", 4 * (512 + 2048 + 1 + 512 + 2048) + 8 * 16),
        ("memory_copy", Case({"elements": 10}, "fp32"), "forward", 80),
        ("memory_triad", Case({"elements": 10}, "fp32"), "forward", 120),
        ("memory_read", Case({"rows": 2, "columns": 5}, "fp32"), "forward", 48),
        ("matmul", Case({"rows": 2, "inner": 3, "columns": 5}, "fp16"), "forward", 2 * (6 + 15 + 10)),
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
        ("memory_copy", Case({"elements": 10}, "fp32"), "forward", None),
    ],
)
def test_operations(kernel, case, mode, expected):
    assert roofline.operations(KERNELS[kernel], case, mode) == expected


def test_every_kernel_that_is_measured_says_its_operations():
    """A copy has none."""
    silent = {name for name, kernel in KERNELS.items() if kernel.providers and kernel.flops is None}
    assert silent == {"memory_copy"}
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
    assert not roofline.is_calibration("memory_copy", Case({"elements": 64}, "fp32"))
    assert not roofline.is_calibration("rms_norm", RMS_NORM)
