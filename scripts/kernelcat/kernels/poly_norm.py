"""PolyNorm: y = w₀ · norm(x³) + w₁ · norm(x²) + w₂ · norm(x) + b, norm being RMSNorm without weight
(arXiv:2411.03884)."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(x, weight, bias, eps):
    import torch

    def norm(power):
        return power * torch.rsqrt(power.square().mean(-1, keepdim=True) + eps)

    return weight[0] * norm(x * x * x) + weight[1] * norm(x * x) + weight[2] * norm(x) + bias


def liger(x, weight, bias, eps):
    from liger_kernel.transformers.functional import liger_poly_norm

    # Not the module, because its bias has no dimensions and parameters cannot be views; in_place is its default.
    return lambda: liger_poly_norm(x, weight, bias.squeeze(0), eps, in_place=True)


def pytorch(x, weight, bias, eps):
    import torch

    def norm(power):
        return power * torch.rsqrt(power.pow(2).mean(-1, keepdim=True) + eps)

    def call():
        wide = x.float()
        normed = weight[0] * norm(wide**3) + weight[1] * norm(wide**2) + weight[2] * norm(wide) + bias
        return normed.to(x.dtype)

    return call


KERNEL = Kernel(
    title="PolyNorm",
    slug="liger-poly-norm",
    family="polynorm",
    axes=("rows", "hidden"),
    inputs={
        "x": tensor("rows hidden"),
        "weight": tensor("3", "fp32"),
        "bias": tensor("1", "fp32"),
    },
    outputs={"y": tensor("rows hidden")},
    scalars={"eps": 1e-6},
    # The even powers up to x⁶, their sums, and a polynomial of degree 3.
    flops="12 * rows * hidden",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.functional:liger_poly_norm"),
        "torch": Provider(pytorch, TORCH, "torch:rsqrt", interface="PolyNorm of elementary operations in fp32"),
        "torch_compile": torch_compile(pytorch, "torch:rsqrt"),
    },
    dialects=token_sweeps("T", axes={"rows": "T", "hidden": "hidden_size"}, scalars={"eps": "eps"}),
)
