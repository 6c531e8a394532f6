"""Measuring on an NVIDIA GPU."""

import pytest

from kernelcat import correctness, kernels
from kernelcat.grid import Configuration
from kernelcat.kernel import Case
from kernelcat.measure import measure, rows

pytestmark = pytest.mark.gpu

SHAPES = {
    "rms_norm": {"rows": 2048, "hidden": 16384},
    "layer_norm": {"rows": 2048, "hidden": 4096},
    "softmax": {"rows": 2048, "hidden": 4096},
    "cross_entropy": {"tokens": 2048, "vocab": 32000},
    "swiglu": {"seq": 1024, "batch": 1, "hidden": 2048, "intermediate": 5632},
    "rope": {"seq": 2048, "hidden": 4096, "q_heads": 32, "kv_heads": 8},
    "fused_linear_cross_entropy": {"tokens": 2048, "hidden": 2048, "vocab": 32000},
}


def measured(kernel: str, provider: str, mode: str, dtype: str, protocol: str = "events") -> dict:
    case = Case(SHAPES[kernel], dtype, dict(kernels.load_all()[kernel].scalars))
    return measure(Configuration(kernel, provider, mode, case, protocol, "cuda"), None, seconds=300)


@pytest.mark.parametrize("kernel", SHAPES)
def test_liger_agrees_with_the_reference_and_is_timed(kernel):
    record = measured(kernel, "liger", "full", "bf16")
    assert (record["status"], record["reason"]) == ("passed", "")
    assert len(record["samplesMs"]) >= 20 and min(record["samplesMs"]) > 0
    assert record["peakMemoryBytes"] > 0
    assert [row.metric_name for row in rows(record)] == ["speed", "memory"]


@pytest.mark.parametrize("mode", ["forward", "backward", "full"])
@pytest.mark.parametrize("protocol", ["events", "do_bench"])
def test_medians_are_those_of_do_bench(protocol, mode):
    """Hugging Face's module, because it takes the device longer than it takes the host to launch it: of what is
    launched more slowly than it runs, do_bench gives another median each time."""
    import torch
    import triton

    record = measured("rms_norm", "huggingface", mode, "bf16", protocol)
    ordered = sorted(record["samplesMs"])
    kernel = kernels.load_all()["rms_norm"]
    case = Case(SHAPES["rms_norm"], "bf16", dict(kernel.scalars))
    inputs = correctness.make_inputs(kernel, case, "cuda", seed=0)
    call = kernel.providers["huggingface"].prepare(**inputs, **case.scalars)
    y = call()
    upstream = torch.randn_like(y)
    passes = {
        "forward": call,
        "backward": lambda: y.backward(upstream, retain_graph=True),
        "full": lambda: call().backward(upstream),
    }
    by_hand = triton.testing.do_bench(
        passes[mode], rep=500, grad_to_none=list(inputs.values()), quantiles=[0.5, 0.2, 0.8]
    )
    assert ordered[len(ordered) // 2] == pytest.approx(by_hand[0], rel=0.05)
