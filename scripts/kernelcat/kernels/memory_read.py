"""Sums of rows so long that hardly anything is written: each element read once (kernelcat.roofline)."""

from kernelcat.kernel import Kernel, Provider, tensor
from kernelcat.libraries import TORCH


def reference(x):
    return x.sum(-1)


def pytorch(x):
    return lambda: x.sum(-1)


KERNEL = Kernel(
    title="Memory read",
    slug="memory-read",
    family="memory",
    axes=("rows", "columns"),
    inputs={"x": tensor("rows columns")},
    outputs={"y": tensor("rows")},
    flops="rows * columns",
    reference=reference,
    providers={"torch": Provider(pytorch, TORCH, "torch:sum")},
)
