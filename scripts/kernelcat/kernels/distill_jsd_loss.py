"""Distillation: linear layers of student and teacher and, weighted, cross entropy and Jensen-Shannon divergence in one:
the mean over tokens of weight_hard_loss · CE(student, target) + weight_soft_loss · (KL(p ‖ m) + KL(q ‖ m)) / 2, with
the distributions p and q of teacher and student and m = (p + q) / 2.
"""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(student_input, student_weight, teacher_input, teacher_weight, target, weight_hard_loss, weight_soft_loss):
    student_logits = student_input @ student_weight.T
    hard = student_logits.logsumexp(-1) - student_logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    student, teacher = student_logits.log_softmax(-1), (teacher_input @ teacher_weight.T).log_softmax(-1)
    middle = ((student.exp() + teacher.exp()) / 2).log()
    soft = (student.exp() * (student - middle) + teacher.exp() * (teacher - middle)).sum(-1) / 2
    return weight_hard_loss * hard.mean() + weight_soft_loss * soft.mean()


def liger(student_input, student_weight, teacher_input, teacher_weight, target, weight_hard_loss, weight_soft_loss):
    from liger_kernel.chunked_loss import LigerFusedLinearJSDLoss

    loss = LigerFusedLinearJSDLoss(
        weight_hard_loss=weight_hard_loss,
        weight_soft_loss=weight_soft_loss,
        beta=0.5,
        compiled=student_input.is_cuda,  # as for torch_compile: compiled code is for GPUs
    )
    return lambda: loss(student_input, student_weight, teacher_input, teacher_weight, target)


def pytorch(student_input, student_weight, teacher_input, teacher_weight, target, weight_hard_loss, weight_soft_loss):
    import torch
    from torch.nn.functional import linear

    divergence = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)
    cross_entropy = torch.nn.CrossEntropyLoss()

    def loss():
        student_logits = linear(student_input, student_weight).float()
        student, teacher = student_logits.log_softmax(-1), linear(teacher_input, teacher_weight).float().log_softmax(-1)
        middle = torch.lerp(student.exp(), teacher.exp(), 0.5).log()
        soft = 0.5 * divergence(middle, teacher) + 0.5 * divergence(middle, student)
        return weight_hard_loss * cross_entropy(student_logits, target) + weight_soft_loss * soft

    return loss


LIGER_SYMBOL = "liger_kernel.chunked_loss:LigerFusedLinearJSDLoss"

KERNEL = Kernel(
    title="Distillation JSD loss",
    slug="liger-distill-jsd-loss",
    family="jsd",
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
            "torch.nn:KLDivLoss",
            interface="with torch.nn.CrossEntropyLoss on torch.nn.functional.linear",
        ),
        "torch_compile": torch_compile(pytorch, "torch.nn:KLDivLoss"),
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
