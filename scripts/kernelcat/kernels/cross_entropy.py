"""Cross entropy: the mean over tokens of logsumexp(logits) - logits[target]."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(logits, target):
    chosen = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return (logits.logsumexp(-1) - chosen).mean()


def liger(logits, target):
    from liger_kernel.transformers.cross_entropy import LigerCrossEntropyLoss

    loss = LigerCrossEntropyLoss()
    return lambda: loss(logits, target)


def pytorch(logits, target):
    import torch

    loss = torch.nn.CrossEntropyLoss()
    return lambda: loss(logits, target)


KERNEL = Kernel(
    title="Cross entropy",
    slug="liger-cross-entropy",
    family="cross-entropy",
    axes=("tokens", "vocab"),
    inputs={"logits": tensor("tokens vocab"), "target": tensor("tokens", "int64", below="vocab")},
    outputs={"loss": tensor("1")},
    flops="4 * tokens * vocab",
    reference=reference,
    providers={
        "liger": Provider(
            liger, LIGER, "liger_kernel.transformers.cross_entropy:LigerCrossEntropyLoss", gradients_in_forward=True
        ),
        "torch": Provider(pytorch, TORCH, "torch.nn:CrossEntropyLoss"),
        "torch_compile": torch_compile(pytorch, "torch.nn:CrossEntropyLoss"),
    },
    dialects=(
        Dialect("V", axes={"tokens": "B * T", "vocab": "V"}, dtype=None),
        *token_sweeps("BT", axes={"tokens": "BT", "vocab": "vocab_size"}, dtype=None),
    ),
)
