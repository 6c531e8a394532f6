"""Distillation: linear layers of student and teacher and, weighted, cross entropy and cosine similarity in one: the
mean over tokens of weight_hard_loss · CE(student, target) + weight_soft_loss · (1 - cos(student, teacher)), of logits.
"""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(student_input, student_weight, teacher_input, teacher_weight, target, weight_hard_loss, weight_soft_loss):
    student_logits = student_input @ student_weight.T
    hard = student_logits.logsumexp(-1) - student_logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    teacher_logits = teacher_input @ teacher_weight.T
    lengths = student_logits.square().sum(-1).sqrt() * teacher_logits.square().sum(-1).sqrt()
    soft = 1 - (student_logits * teacher_logits).sum(-1) / lengths
    return weight_hard_loss * hard.mean() + weight_soft_loss * soft.mean()


def liger(student_input, student_weight, teacher_input, teacher_weight, target, weight_hard_loss, weight_soft_loss):
    from liger_kernel.chunked_loss import LigerFusedLinearCosineSimilarityLoss

    # beta is a factor of the soft loss, 0.5 when it is not given.
    loss = LigerFusedLinearCosineSimilarityLoss(
        weight_hard_loss=weight_hard_loss,
        weight_soft_loss=weight_soft_loss,
        beta=1.0,
        compiled=student_input.is_cuda,  # as for torch_compile: compiled code is for GPUs
    )
    return lambda: loss(student_input, student_weight, teacher_input, teacher_weight, target)


def pytorch(student_input, student_weight, teacher_input, teacher_weight, target, weight_hard_loss, weight_soft_loss):
    import torch
    from torch.nn.functional import linear

    similarity = torch.nn.CosineSimilarity(dim=-1)
    cross_entropy = torch.nn.CrossEntropyLoss()

    def loss():
        student_logits = linear(student_input, student_weight).float()
        teacher_logits = linear(teacher_input, teacher_weight).float()
        soft = 1 - similarity(student_logits, teacher_logits).mean()
        return weight_hard_loss * cross_entropy(student_logits, target) + weight_soft_loss * soft

    return loss


LIGER_SYMBOL = "liger_kernel.chunked_loss:LigerFusedLinearCosineSimilarityLoss"

KERNEL = Kernel(
    title="Distillation cosine loss",
    slug="liger-distill-cosine-loss",
    family="cosine-similarity-loss",
    axes=("tokens", "hidden", "vocab"),
    derived={"student_hidden": "hidden // 2"},
    scalars={"weight_hard_loss": 0.5, "weight_soft_loss": 0.5},
    inputs={
        "student_input": tensor("tokens student_hidden"),
        "student_weight": tensor("vocab student_hidden", fan_in="student_hidden"),
        "teacher_input": tensor("tokens hidden", gradient=False),
        "teacher_weight": tensor("vocab hidden", fan_in="hidden", gradient=False),
        "target": tensor("tokens", "int64", below="vocab"),
    },
    outputs={"loss": tensor("1")},
    # Both models' layers run forward, only the student's backward.
    flops="2 * tokens * (student_hidden + hidden) * vocab",
    backward_flops="4 * tokens * student_hidden * vocab",
    moves={"backward": "(2 * (tokens + vocab) * student_hidden + 1) * size"},  # nothing of the teacher's
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, LIGER_SYMBOL, gradients_in_forward=True),
        "torch": Provider(
            pytorch,
            TORCH,
            "torch.nn:CosineSimilarity",
            interface="with torch.nn.CrossEntropyLoss on torch.nn.functional.linear",
        ),
        "torch_compile": torch_compile(pytorch, "torch.nn:CosineSimilarity"),
    },
    dialects=(
        Dialect(
            "BT",
            axes={"tokens": "BT", "hidden": "H", "vocab": "V"},
            scalars={"weight_hard_loss": "weight_hard_loss", "weight_soft_loss": "weight_soft_loss"},
            fixed={"bias": False, "ignore_index": -100},
            ignored=("mode",),
        ),
        *token_sweeps(
            "BT",
            axes={"tokens": "BT", "hidden": "hidden_size", "vocab": "vocab_size"},
            scalars={"weight_hard_loss": "weight_hard_loss", "weight_soft_loss": "weight_soft_loss"},
            fixed={"bias": False, "ignore_index": -100},
        ),
    ),
)
