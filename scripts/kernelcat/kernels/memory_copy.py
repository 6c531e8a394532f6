"""A copy: each element read once and written once. Together with memory_read and memory_triad it says how fast the
device's memory is (kernelcat.roofline)."""

from kernelcat.kernel import Kernel, Provider, tensor
from kernelcat.libraries import TORCH


def reference(x):
    return x.clone()


def pytorch(x):
    return lambda: x.clone()


KERNEL = Kernel(
    title="Memory copy",
    slug="memory-copy",
    family="memory",
    axes=("elements",),
    inputs={"x": tensor("elements")},
    outputs={"y": tensor("elements")},
    reference=reference,
    providers={"torch": Provider(pytorch, TORCH, "torch:clone")},
)
