"""Addition of a residual and RMSNorm in one: residual_out = x + residual, y = rms_norm(residual_out)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import HUGGINGFACE, LIGER, TORCH


def reference(x, residual, weight, eps):
    import torch

    total = x + residual
    return total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * weight, total


def liger_fused_add_rms_norm(x, residual, weight, eps):
    from liger_kernel.transformers.fused_add_rms_norm import LigerFusedAddRMSNorm

    layer = LigerFusedAddRMSNorm(hidden_size=weight.numel(), eps=eps)
    layer.weight = weight
    return lambda: layer(x, residual)


def _after_addition(layer, x, residual, weight):
    layer.weight = weight

    def call():
        total = x + residual
        return layer(total), total

    return call


def liger_rms_norm(x, residual, weight, eps):
    from liger_kernel.transformers.rms_norm import LigerRMSNorm

    layer = LigerRMSNorm(hidden_size=weight.numel(), eps=eps, in_place=False)
    return _after_addition(layer, x, residual, weight)


def huggingface(x, residual, weight, eps):
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    return _after_addition(LlamaRMSNorm(weight.numel(), eps=eps), x, residual, weight)


def pytorch(x, residual, weight, eps):
    """As models write it: in fp32, and what leaves the layer in the dtype of its input."""
    import torch

    def call():
        total = x.float() + residual.float()
        normed = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + eps)
        return weight * normed.to(x.dtype), total.to(x.dtype)

    return call


ELEMENTARY = "x + residual and RMSNorm of elementary operations in fp32"


KERNEL = Kernel(
    title="Fused add RMSNorm",
    slug="liger-fused-add-rms-norm",
    family="rmsnorm",
    axes=("hidden", "rows"),
    scalars={"eps": 1e-6},
    inputs={
        "x": tensor("rows hidden"),
        "residual": tensor("rows hidden"),
        "weight": tensor("hidden"),
    },
    outputs={"y": tensor("rows hidden"), "residual_out": tensor("rows hidden")},
    flops="5 * rows * hidden",
    # The sum is all that the backward pass needs of x and residual.
    moves={"backward": "size * (5 * rows * hidden + 2 * hidden)"},
    reference=reference,
    providers={
        "liger_fused_add_rms_norm": Provider(
            liger_fused_add_rms_norm, LIGER, "liger_kernel.transformers.fused_add_rms_norm:LigerFusedAddRMSNorm"
        ),
        "liger_rms_norm": Provider(
            liger_rms_norm,
            LIGER,
            "liger_kernel.transformers.rms_norm:LigerRMSNorm",
            interface="in_place=False, on x + residual",
        ),
        "huggingface": Provider(
            huggingface,
            HUGGINGFACE,
            "transformers.models.llama.modeling_llama:LlamaRMSNorm",
            interface="on x + residual",
        ),
        "torch": Provider(pytorch, TORCH, "torch:rsqrt", interface=ELEMENTARY),
        "torch_compile": torch_compile(pytorch, "torch:rsqrt"),
    },
    dialects=(
        Dialect("H", axes={"rows": "M", "hidden": "H"}, scalars={"eps": "eps"}),
        *token_sweeps(
            "BT", axes={"rows": "BT", "hidden": "hidden_size"}, scalars={"eps": "eps"}, ignored=("intermediate_size",)
        ),
    ),
)
