"""Dynamic tanh: y = gamma ∗ tanh(alpha · x) + beta (arXiv:2503.10622); without beta it is another operation."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(x, alpha, gamma, beta):
    return gamma * (alpha * x).tanh() + beta


def liger(x, alpha, gamma, beta):
    from liger_kernel.transformers.dyt import LigerDyT

    layer = LigerDyT(gamma.numel())
    layer.alpha, layer.gamma, layer.beta = alpha, gamma, beta
    return lambda: layer(x)


def pytorch(x, alpha, gamma, beta):
    import torch

    return lambda: gamma * torch.tanh(alpha * x) + beta


NO_CPU = "its backward pass needs to know how many multiprocessors a GPU has"


KERNEL = Kernel(
    title="DyT",
    slug="liger-dyt",
    family="dyt",
    axes=("tokens", "hidden"),
    inputs={
        "x": tensor("tokens hidden"),
        "alpha": tensor("1", "fp32"),
        "gamma": tensor("hidden", "fp32"),
        "beta": tensor("hidden", "fp32"),
    },
    outputs={"y": tensor("tokens hidden")},
    flops="4 * tokens * hidden",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.dyt:LigerDyT", not_on={"cpu": NO_CPU}),
        "torch": Provider(pytorch, TORCH, "torch:tanh", interface="gamma * tanh(alpha * x) + beta"),
        "torch_compile": torch_compile(pytorch, "torch:tanh"),
    },
    dialects=token_sweeps("BT", axes={"tokens": "BT", "hidden": "hidden_size"}, fixed={"beta": True}),
)
