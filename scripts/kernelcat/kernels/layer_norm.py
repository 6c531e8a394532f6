"""LayerNorm: y = (x - mean(x)) / sqrt(var(x) + eps) · weight + bias over the last axis (arXiv:1607.06450)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(x, weight, bias, eps):
    import torch

    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps) * weight + bias


def liger(x, weight, bias, eps):
    from liger_kernel.transformers.layer_norm import LigerLayerNorm

    layer = LigerLayerNorm(hidden_size=weight.numel(), eps=eps)
    layer.weight, layer.bias = weight, bias
    return lambda: layer(x)


def pytorch(x, weight, bias, eps):
    import torch

    layer = torch.nn.LayerNorm(weight.numel(), eps=eps)
    layer.weight, layer.bias = weight, bias
    return lambda: layer(x)


KERNEL = Kernel(
    title="LayerNorm",
    slug="liger-layer-norm",
    family="layernorm",
    axes=("rows", "hidden"),
    inputs={"x": tensor("rows hidden"), "weight": tensor("hidden"), "bias": tensor("hidden")},
    outputs={"y": tensor("rows hidden")},
    scalars={"eps": 1e-6},
    flops="8 * rows * hidden",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.layer_norm:LigerLayerNorm"),
        "torch": Provider(pytorch, TORCH, "torch.nn:LayerNorm"),
        "torch_compile": torch_compile(pytorch, "torch.nn:LayerNorm"),
    },
    dialects=(
        Dialect("N", axes={"rows": "M", "hidden": "N"}, scalars={"eps": "eps"}),
        *token_sweeps("T", axes={"rows": "T", "hidden": "hidden_size"}, scalars={"eps": "eps"}),
    ),
)
