"""A matrix product: how fast the device's matrix units are (kernelcat.roofline)."""

from kernelcat.kernel import Kernel, Provider, tensor
from kernelcat.libraries import TORCH


def reference(a, b):
    return a @ b


def pytorch(a, b):
    return lambda: a @ b


KERNEL = Kernel(
    title="Matrix product",
    slug="matmul",
    family="matmul",
    axes=("rows", "inner", "columns"),
    inputs={"a": tensor("rows inner"), "b": tensor("inner columns", fan_in="inner")},
    outputs={"y": tensor("rows columns")},
    flops="2 * rows * inner * columns",
    reference=reference,
    providers={"torch": Provider(pytorch, TORCH, "torch:matmul")},
)
