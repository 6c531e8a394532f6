"""Generalised Jensen-Shannon divergence of two distributions, the mean over tokens (arXiv:2306.13649)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="JSD",
    slug="liger-jsd",
    family="jsd",
    axes=("vocab", "tokens"),
    inputs={
        "student_log_probs": tensor("tokens vocab"),
        "teacher_log_probs": tensor("tokens vocab"),
    },
    outputs={"loss": tensor("1")},
    dialects=(
        Dialect("V", axes={"tokens": "B * T", "vocab": "V"}, dtype=None),
        *token_sweeps("BT", axes={"tokens": "BT", "vocab": "vocab_size"}, dtype=None),
    ),
)
