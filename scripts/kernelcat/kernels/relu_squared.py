"""Squared ReLU: y = max(x, 0)² (arXiv:2109.08668)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(x):
    return x.clamp(min=0).square()


def liger(x):
    from liger_kernel.transformers.relu_squared import LigerReLUSquared

    layer = LigerReLUSquared()
    return lambda: layer(x)


def pytorch(x):
    import torch

    return lambda: torch.square(torch.nn.functional.relu(x))


KERNEL = Kernel(
    title="Squared ReLU",
    slug="liger-relu-squared",
    family="relu-squared",
    axes=("hidden", "rows"),
    inputs={
        "x": tensor("rows hidden"),
    },
    outputs={"y": tensor("rows hidden")},
    flops="2 * rows * hidden",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.relu_squared:LigerReLUSquared"),
        "torch": Provider(pytorch, TORCH, "torch.nn.functional:relu", interface="squared by torch.square"),
        "torch_compile": torch_compile(pytorch, "torch.nn.functional:relu"),
    },
    dialects=(
        Dialect("N", axes={"rows": "M", "hidden": "N"}),
        *token_sweeps("BT", axes={"rows": "BT", "hidden": "hidden_size"}),
    ),
)
