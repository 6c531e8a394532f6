"""Linear layers of student and teacher and generalised Jensen-Shannon divergence in one (arXiv:2306.13649): the mean
over tokens of beta · KL(p ‖ m) + (1 - beta) · KL(q ‖ m), with the distributions p and q of teacher and student and
m = beta · p + (1 - beta) · q.
"""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(student_input, student_weight, teacher_input, teacher_weight, beta):
    student = (student_input @ student_weight.T).log_softmax(-1)
    teacher = (teacher_input @ teacher_weight.T).log_softmax(-1)
    middle = (beta * teacher.exp() + (1 - beta) * student.exp()).log()
    divergence = beta * teacher.exp() * (teacher - middle) + (1 - beta) * student.exp() * (student - middle)
    return divergence.sum(-1).mean()


def liger(student_input, student_weight, teacher_input, teacher_weight, beta):
    from liger_kernel.transformers.fused_linear_jsd import LigerFusedLinearJSD

    loss = LigerFusedLinearJSD(jsd_beta=beta)
    return lambda: loss(student_input, student_weight, teacher_input, teacher_weight, None)


def pytorch(student_input, student_weight, teacher_input, teacher_weight, beta):
    import torch
    from torch.nn.functional import linear

    divergence = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)

    def loss():
        # in fp32: log-probabilities in bf16 are off by some hundredths
        student = linear(student_input, student_weight).float().log_softmax(-1)
        teacher = linear(teacher_input, teacher_weight).float().log_softmax(-1)
        middle = torch.lerp(student.exp(), teacher.exp(), beta).log()
        return beta * divergence(middle, teacher) + (1 - beta) * divergence(middle, student)

    return loss


LIGER_SYMBOL = "liger_kernel.transformers.fused_linear_jsd:LigerFusedLinearJSD"

KERNEL = Kernel(
    title="Fused linear JSD",
    slug="liger-fused-linear-jsd",
    family="jsd",
    axes=("tokens", "hidden", "vocab"),
    scalars={"beta": 0.5},
    inputs={
        "student_input": tensor("tokens hidden"),
        "student_weight": tensor("vocab hidden", fan_in="hidden"),
        "teacher_input": tensor("tokens hidden", gradient=False),
        "teacher_weight": tensor("vocab hidden", fan_in="hidden", gradient=False),
    },
    outputs={"loss": tensor("1")},
    # Both models' layers run forward, only the student's backward.
    flops="4 * tokens * hidden * vocab",
    backward_flops="4 * tokens * hidden * vocab",
    moves={"backward": "(2 * (tokens + vocab) * hidden + 1) * size"},  # nothing of the teacher's
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, LIGER_SYMBOL, gradients_in_forward=True),
        "torch": Provider(
            pytorch, TORCH, "torch.nn:KLDivLoss", interface="of log_softmax of torch.nn.functional.linear"
        ),
        "torch_compile": torch_compile(pytorch, "torch.nn:KLDivLoss"),
    },
    dialects=(
        Dialect("BT", axes={"tokens": "BT", "hidden": "H", "vocab": "V"}, scalars={"beta": 0.5}, ignored=("mode",)),
        *token_sweeps(
            "BT", axes={"tokens": "BT", "hidden": "hidden_size", "vocab": "vocab_size"}, scalars={"beta": 0.5}
        ),
    ),
)
