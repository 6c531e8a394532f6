"""Kullback-Leibler divergence: the mean over tokens of the sum of target · (log target - log input)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(log_probs, target_probs):
    return (target_probs * (target_probs.log() - log_probs)).sum(-1).mean()


def liger(log_probs, target_probs):
    from liger_kernel.transformers.kl_div import LigerKLDIVLoss

    loss = LigerKLDIVLoss(reduction="batchmean")
    return lambda: loss(log_probs, target_probs)


def pytorch(log_probs, target_probs):
    import torch

    loss = torch.nn.KLDivLoss(reduction="batchmean")
    return lambda: loss(log_probs, target_probs)


KERNEL = Kernel(
    title="KL divergence",
    slug="liger-kl-div",
    family="kl-divergence",
    axes=("vocab", "tokens"),
    inputs={
        "log_probs": tensor("tokens vocab", make=lambda values: values.log_softmax(-1)),
        "target_probs": tensor("tokens vocab", make=lambda values: values.softmax(-1), gradient=False),
    },
    outputs={"loss": tensor("1")},
    flops="4 * tokens * vocab",
    moves={"backward": "(2 * tokens * vocab + 1) * size"},  # the gradient does not depend on log_probs
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.kl_div:LigerKLDIVLoss"),
        "torch": Provider(pytorch, TORCH, "torch.nn:KLDivLoss"),
        "torch_compile": torch_compile(pytorch, "torch.nn:KLDivLoss"),
    },
    dialects=(
        Dialect("V", axes={"tokens": "B * T", "vocab": "V"}, dtype=None),
        *token_sweeps("BT", axes={"tokens": "BT", "vocab": "vocab_size"}, dtype=None, fixed={"reduction": "batchmean"}),
    ),
)
