"""Jensen-Shannon divergence of two distributions: the mean over tokens of (KL(p ‖ m) + KL(q ‖ m)) / 2 with
m = (p + q) / 2 (generalised in arXiv:2306.13649).
"""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(student_log_probs, teacher_log_probs):
    student, teacher = student_log_probs.exp(), teacher_log_probs.exp()
    middle = ((student + teacher) / 2).log()
    divergence = student * (student_log_probs - middle) + teacher * (teacher_log_probs - middle)
    return divergence.sum(-1).mean() / 2


def liger(student_log_probs, teacher_log_probs):
    from liger_kernel.transformers.jsd import LigerJSD

    loss = LigerJSD(beta=0.5)
    return lambda: loss(student_log_probs, teacher_log_probs)


def pytorch(student_log_probs, teacher_log_probs):
    import torch

    divergence = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)

    def loss():
        middle = torch.lerp(student_log_probs.exp(), teacher_log_probs.exp(), 0.5).log()
        return 0.5 * divergence(middle, teacher_log_probs) + 0.5 * divergence(middle, student_log_probs)

    return loss


KERNEL = Kernel(
    title="JSD",
    slug="liger-jsd",
    family="jsd",
    axes=("vocab", "tokens"),
    inputs={
        "student_log_probs": tensor("tokens vocab", make=lambda values: values.log_softmax(-1)),
        "teacher_log_probs": tensor("tokens vocab", make=lambda values: values.log_softmax(-1), gradient=False),
    },
    outputs={"loss": tensor("1")},
    flops="12 * tokens * vocab",
    moves={"backward": "(2 * tokens * vocab + 1) * size"},  # one intermediate of the forward pass suffices
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.jsd:LigerJSD", gradients_in_forward=True),
        "torch": Provider(pytorch, TORCH, "torch.nn:KLDivLoss", interface="of each distribution to their mean"),
        "torch_compile": torch_compile(pytorch, "torch.nn:KLDivLoss"),
    },
    dialects=(
        Dialect("V", axes={"tokens": "B * T", "vocab": "V"}, dtype=None),
        *token_sweeps("BT", axes={"tokens": "BT", "vocab": "vocab_size"}, dtype=None),
    ),
)
