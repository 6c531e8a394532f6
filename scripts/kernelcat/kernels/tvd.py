"""Total variation distance: the mean over tokens of half the sum of |p - q|."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(p, q):
    return (p - q).abs().sum(-1).mean() / 2


def liger(p, q):
    from liger_kernel.transformers.tvd import LigerTVDLoss

    loss = LigerTVDLoss(reduction="batchmean")
    return lambda: loss(p, q)


def pytorch(p, q):
    import torch

    loss = torch.nn.L1Loss(reduction="sum")
    return lambda: loss(p, q) / (2 * p.shape[0])


KERNEL = Kernel(
    title="Total variation distance",
    slug="liger-tvd",
    family="tvd",
    axes=("vocab", "tokens"),
    inputs={
        "p": tensor("tokens vocab", make=lambda values: values.softmax(-1)),
        "q": tensor("tokens vocab", make=lambda values: values.softmax(-1), gradient=False),
    },
    outputs={"loss": tensor("1")},
    flops="3 * tokens * vocab",
    moves={"backward": "(2 * tokens * vocab + 1) * size"},  # the difference, of the forward pass, suffices
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.tvd:LigerTVDLoss", gradients_in_forward=True),
        "torch": Provider(pytorch, TORCH, "torch.nn:L1Loss", interface="reduction=sum, divided by 2 * tokens"),
        "torch_compile": torch_compile(pytorch, "torch.nn:L1Loss"),
    },
    dialects=(
        Dialect("V", axes={"tokens": "B * T", "vocab": "V"}, dtype=None),
        *token_sweeps("BT", axes={"tokens": "BT", "vocab": "vocab_size"}, dtype=None, fixed={"reduction": "batchmean"}),
    ),
)
