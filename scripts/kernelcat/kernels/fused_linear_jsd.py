"""Linear layers of student and teacher and the generalised Jensen-Shannon divergence in one (arXiv:2306.13649)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Fused linear JSD",
    slug="liger-fused-linear-jsd",
    family="jsd",
    axes=("tokens", "hidden", "vocab"),
    scalars={"beta": 0.5},
    inputs={
        "student_input": tensor("tokens hidden"),
        "student_weight": tensor("vocab hidden", fan_in="hidden"),
        "teacher_input": tensor("tokens hidden"),
        "teacher_weight": tensor("vocab hidden", fan_in="hidden"),
    },
    outputs={"loss": tensor("1")},
    dialects=(
        Dialect("BT", axes={"tokens": "BT", "hidden": "H", "vocab": "V"}, scalars={"beta": 0.5}, ignored=("mode",)),
        *token_sweeps(
            "BT", axes={"tokens": "BT", "hidden": "hidden_size", "vocab": "vocab_size"}, scalars={"beta": 0.5}
        ),
    ),
)
