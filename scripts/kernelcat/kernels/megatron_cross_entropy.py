"""Cross entropy in the layout of Megatron-LM, [seq, batch, vocab], one loss per token."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, MEGATRON, TORCH


def reference(logits, target):
    return logits.logsumexp(-1) - logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)


def liger(logits, target):
    from liger_kernel.megatron.cross_entropy import LigerMegatronCrossEntropy

    loss = LigerMegatronCrossEntropy()
    return lambda: loss(logits, target)


def _alone(logits):
    """The process group of this process, which Megatron reduces over: it skips nothing when that has one member."""
    from torch import distributed

    if not distributed.is_initialized():
        backend = "nccl" if logits.is_cuda else "gloo"
        distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
    return distributed.group.WORLD


def megatron_fused(logits, target):
    from megatron.core.fusions.fused_cross_entropy import fused_vocab_parallel_cross_entropy

    group = _alone(logits)
    return lambda: fused_vocab_parallel_cross_entropy(logits, target, group)


def megatron_unfused(logits, target):
    from megatron.core.tensor_parallel.cross_entropy import vocab_parallel_cross_entropy

    group = _alone(logits)
    return lambda: vocab_parallel_cross_entropy(logits, target, 0.0, group)


def pytorch(logits, target):
    import torch

    cross_entropy = torch.nn.CrossEntropyLoss(reduction="none")
    return lambda: cross_entropy(logits.float().flatten(0, 1), target.flatten()).view_as(target)


FUSED = "megatron.core.fusions.fused_cross_entropy:fused_vocab_parallel_cross_entropy"
UNFUSED = "megatron.core.tensor_parallel.cross_entropy:vocab_parallel_cross_entropy"

KERNEL = Kernel(
    title="Megatron cross entropy",
    slug="liger-megatron-cross-entropy",
    family="cross-entropy",
    axes=("vocab", "seq", "batch"),
    inputs={
        "logits": tensor("seq batch vocab"),
        "target": tensor("seq batch", "int64", below="vocab"),
    },
    outputs={"loss": tensor("seq batch", "fp32")},
    flops="4 * seq * batch * vocab",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.megatron.cross_entropy:LigerMegatronCrossEntropy"),
        "megatron-fused": Provider(megatron_fused, MEGATRON, FUSED),
        "megatron-unfused": Provider(megatron_unfused, MEGATRON, UNFUSED),
        "torch": Provider(pytorch, TORCH, "torch.nn:CrossEntropyLoss", interface="reduction=none, in fp32"),
        "torch_compile": torch_compile(pytorch, "torch.nn:CrossEntropyLoss"),
    },
    dialects=(
        Dialect(
            "V",
            axes={"seq": "S", "batch": "B", "vocab": "V"},
            dtype=None,
            assumes="bf16",
            fixed={"TP": 1},
            backward_has_forward=True,
        ),
    ),
)
