"""Group normalisation: each group of channels of a sample to mean 0 and variance 1 (arXiv:1803.08494)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(x, weight, bias, eps, groups):
    import torch

    grouped = x.unflatten(1, (groups, -1))
    centred = grouped - grouped.mean((2, 3), keepdim=True)
    normed = centred * torch.rsqrt(centred.square().mean((2, 3), keepdim=True) + eps)
    return normed.flatten(1, 2) * weight.unsqueeze(-1) + bias.unsqueeze(-1)


def liger(x, weight, bias, eps, groups):
    from liger_kernel.transformers.group_norm import LigerGroupNorm

    layer = LigerGroupNorm(num_channels=weight.numel(), num_groups=groups, eps=eps, bias=True)
    layer.weight, layer.bias = weight, bias
    return lambda: layer(x)


def pytorch(x, weight, bias, eps, groups):
    import torch

    layer = torch.nn.GroupNorm(groups, weight.numel(), eps=eps)
    layer.weight, layer.bias = weight, bias
    return lambda: layer(x)


KERNEL = Kernel(
    title="GroupNorm",
    slug="liger-group-norm",
    family="groupnorm",
    axes=("channels", "batch", "hidden", "channels_per_group"),
    derived={"groups": "channels // channels_per_group"},
    operation_axes=("batch", "channels", "hidden"),
    scalars={"eps": 1e-6},
    arguments=("groups",),
    inputs={
        "x": tensor("batch channels hidden"),
        "weight": tensor("channels"),
        "bias": tensor("channels"),
    },
    outputs={"y": tensor("batch channels hidden")},
    flops="8 * batch * channels * hidden",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.group_norm:LigerGroupNorm"),
        "torch": Provider(pytorch, TORCH, "torch.nn:GroupNorm"),
        "torch_compile": torch_compile(pytorch, "torch.nn:GroupNorm"),
    },
    dialects=(
        Dialect(
            "C",
            axes={"batch": "M", "channels": "C", "hidden": "H", "channels_per_group": "channels_per_group"},
            scalars={"eps": "eps"},
        ),
        *token_sweeps(
            "BT",
            axes={
                "batch": "BT // H",
                "channels": "hidden_size",
                "hidden": "H",
                "channels_per_group": "channels_per_group",
            },
            scalars={"eps": "eps"},
        ),
    ),
)
