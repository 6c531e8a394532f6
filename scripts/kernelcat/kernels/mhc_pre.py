"""A layer's input, by manifold-constrained hyper-connections: the sum of h_pre ∗ x over streams (arXiv:2512.24880)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH

MAKES_COEFFICIENTS = ("tmax", "rms_eps", "pre_eps", "sinkhorn_eps", "post_mult")
"""Keys that say how the script makes its input tensors."""

# Liger 0.8 computes y, which is published as fp32, in the dtype of x.
STREAMS = "batch * seq * streams"
MOVES = {
    "forward": f"{STREAMS} * (size * hidden + 4) + size * batch * seq * hidden",
    "backward": f"2 * {STREAMS} * (size * hidden + 4) + size * batch * seq * hidden",
    "full": f"2 * {STREAMS} * (size * hidden + 4) + 2 * size * batch * seq * hidden",
    "no-grad-forward": f"{STREAMS} * (size * hidden + 4) + size * batch * seq * hidden",
}


def reference(x, h_pre):
    import torch

    return torch.einsum("btsc,bts->btc", x, h_pre)


def liger(x, h_pre):
    from liger_kernel.transformers.functional import liger_mhc_pre

    return lambda: liger_mhc_pre(x, h_pre)


def aggregate(x, h_pre):
    return (h_pre.unsqueeze(-1) * x.float()).sum(-2)


def pytorch(x, h_pre):
    return lambda: aggregate(x, h_pre)


KERNEL = Kernel(
    title="mHC input",
    slug="liger-mhc-pre",
    family="mhc",
    axes=("seq", "batch", "streams", "hidden"),
    inputs={
        "x": tensor("batch seq streams hidden"),
        "h_pre": tensor("batch seq streams", "fp32", make=lambda values: values.sigmoid()),
    },
    outputs={"y": tensor("batch seq hidden", "fp32")},
    flops="2 * batch * seq * streams * hidden",
    moves=MOVES,
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.functional:liger_mhc_pre"),
        "torch": Provider(pytorch, TORCH, "torch:sum", interface="of products in fp32"),
        "torch_compile": torch_compile(pytorch, "torch:sum"),
    },
    dialects=(
        Dialect(
            "T",
            axes={"batch": "B", "seq": "T", "streams": "HC", "hidden": "C"},
            dtype=None,
            assumes="bf16",
            ignored=MAKES_COEFFICIENTS,
            fixed={"sub_kernel": "pre"},
        ),
        Dialect(
            "model_config",
            axes={"batch": "B", "seq": "T", "streams": "HC", "hidden": "hidden_size"},
            dtype=None,
            assumes="bf16",
            ignored=MAKES_COEFFICIENTS,
            fixed={"sub_kernel": "pre"},
            models=True,
            model_keys=("hidden_size", "dtype"),
        ),
    ),
)
