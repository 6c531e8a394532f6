"""Softmax over the last axis: y = exp(x - max(x)) / sum(exp(x - max(x)))."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(x):
    exponentials = (x - x.amax(-1, keepdim=True).detach()).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def liger(x):
    from liger_kernel.transformers.softmax import LigerSoftmax

    layer = LigerSoftmax()
    return lambda: layer(x)


def pytorch(x):
    import torch

    layer = torch.nn.Softmax(dim=-1)
    return lambda: layer(x)


KERNEL = Kernel(
    title="Softmax",
    slug="liger-softmax",
    family="softmax",
    axes=("rows", "hidden"),
    inputs={"x": tensor("rows hidden")},
    outputs={"y": tensor("rows hidden")},
    flops="5 * rows * hidden",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.softmax:LigerSoftmax"),
        "torch": Provider(pytorch, TORCH, "torch.nn:Softmax"),
        "torch_compile": torch_compile(pytorch, "torch.nn:Softmax"),
    },
    dialects=(
        Dialect("N", axes={"rows": "M", "hidden": "N"}),
        *token_sweeps("BT", axes={"rows": "BT", "hidden": "hidden_size"}),
    ),
)
