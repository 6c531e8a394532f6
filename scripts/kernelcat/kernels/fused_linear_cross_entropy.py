"""Linear layer and cross entropy in one: the mean over tokens of logsumexp(x · weightᵀ) - (x · weightᵀ)[target]."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(x, weight, target):
    logits = x @ weight.T
    chosen = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return (logits.logsumexp(-1) - chosen).mean()


def _liger(x, weight, target, **options):
    from liger_kernel.transformers.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyLoss

    loss = LigerFusedLinearCrossEntropyLoss(**options)
    return lambda: loss(weight, x, target)


def liger(**inputs):
    return _liger(**inputs)


def liger_fp32_accum(**inputs):
    import torch

    return _liger(**inputs, accum_dtype=torch.float32)


def pytorch(x, weight, target):
    import torch

    loss = torch.nn.CrossEntropyLoss()
    return lambda: loss(torch.nn.functional.linear(x, weight), target)


LIGER_SYMBOL = "liger_kernel.transformers.fused_linear_cross_entropy:LigerFusedLinearCrossEntropyLoss"

KERNEL = Kernel(
    title="Fused linear cross entropy",
    slug="liger-fused-linear-cross-entropy",
    family="cross-entropy",
    axes=("tokens", "hidden", "vocab"),
    inputs={
        "x": tensor("tokens hidden"),
        "weight": tensor("vocab hidden", fan_in="hidden"),
        "target": tensor("tokens", "int64", below="vocab"),
    },
    outputs={"loss": tensor("1")},
    flops="2 * tokens * hidden * vocab",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, LIGER_SYMBOL, gradients_in_forward=True),
        "liger-fp32-accum": Provider(
            liger_fp32_accum, LIGER, LIGER_SYMBOL, interface="accum_dtype=float32", gradients_in_forward=True
        ),
        "torch": Provider(pytorch, TORCH, "torch.nn:CrossEntropyLoss", interface="on torch.nn.functional.linear"),
        "torch_compile": torch_compile(pytorch, "torch.nn:CrossEntropyLoss"),
    },
    dialects=(
        Dialect("BT", axes={"tokens": "BT", "hidden": "H", "vocab": "V"}, ignored=("mode",)),
        *token_sweeps("BT", axes={"tokens": "BT", "hidden": "hidden_size", "vocab": "vocab_size"}, ignored=("eps",)),
    ),
)
