"""Sparsemax over the last axis: the projection onto the probability simplex (arXiv:1602.02068)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels._sparsemax import by_sorting, projection
from kernelcat.libraries import LIGER, TORCH


def reference(x):
    return projection(x)


def liger(x):
    from liger_kernel.transformers.sparsemax import LigerSparsemax

    layer = LigerSparsemax(dim=-1)
    return lambda: layer(x)


def pytorch(x):
    return lambda: by_sorting(x)


KERNEL = Kernel(
    title="Sparsemax",
    slug="liger-sparsemax",
    family="sparsemax",
    axes=("features", "tokens"),
    inputs={
        "x": tensor("tokens features"),
    },
    outputs={"y": tensor("tokens features")},
    # Comparing with tau, adding up what lies above, subtracting tau, cutting at zero. Sorting is one way to find tau.
    flops="4 * tokens * features",
    reference=reference,
    kinks=True,  # where an element equals tau
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.sparsemax:LigerSparsemax"),
        "torch": Provider(pytorch, TORCH, "torch:sort", interface="sparsemax by sorting, in fp32"),
        "torch_compile": torch_compile(pytorch, "torch:sort"),
    },
    dialects=(
        Dialect("V", axes={"tokens": "B * T", "features": "V"}, fixed={"dim": -1}),
        *token_sweeps("BT", axes={"tokens": "BT", "features": "hidden_size"}, fixed={"dim": -1}),
    ),
)
