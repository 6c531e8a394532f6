"""STREAM's triad, a + 3 · b: two elements read and one written (McCalpin, STREAM benchmark; kernelcat.roofline)."""

from kernelcat.kernel import Kernel, Provider, tensor
from kernelcat.libraries import TORCH


def reference(a, b):
    return a + 3 * b


def pytorch(a, b):
    import torch

    return lambda: torch.add(a, b, alpha=3)


KERNEL = Kernel(
    title="Memory triad",
    slug="memory-triad",
    family="memory",
    axes=("elements",),
    inputs={"a": tensor("elements"), "b": tensor("elements")},
    outputs={"y": tensor("elements")},
    flops="2 * elements",
    reference=reference,
    providers={"torch": Provider(pytorch, TORCH, "torch:add")},
)
