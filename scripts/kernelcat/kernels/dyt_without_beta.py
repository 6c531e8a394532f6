"""Dynamic tanh without beta: y = gamma ∗ tanh(alpha · x) (arXiv:2503.10622)."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(x, alpha, gamma):
    return gamma * (alpha * x).tanh()


def liger(x, alpha, gamma):
    from liger_kernel.transformers.dyt import LigerDyT

    layer = LigerDyT(gamma.numel(), beta=False)
    layer.alpha, layer.gamma = alpha, gamma
    return lambda: layer(x)


def pytorch(x, alpha, gamma):
    import torch

    return lambda: gamma * torch.tanh(alpha * x)


NO_CPU = "its backward pass needs to know how many multiprocessors a GPU has"


KERNEL = Kernel(
    title="DyT without beta",
    slug="liger-dyt-without-beta",
    family="dyt",
    axes=("tokens", "hidden"),
    inputs={"x": tensor("tokens hidden"), "alpha": tensor("1", "fp32"), "gamma": tensor("hidden", "fp32")},
    outputs={"y": tensor("tokens hidden")},
    flops="3 * tokens * hidden",
    reference=reference,
    providers={
        "liger": Provider(
            liger, LIGER, "liger_kernel.transformers.dyt:LigerDyT", interface="beta=False", not_on={"cpu": NO_CPU}
        ),
        "torch": Provider(pytorch, TORCH, "torch:tanh", interface="gamma * tanh(alpha * x)"),
        "torch_compile": torch_compile(pytorch, "torch:tanh"),
    },
    dialects=token_sweeps("BT", axes={"tokens": "BT", "hidden": "hidden_size"}, fixed={"beta": False}),
    also=("dyt",),
)
