"""Distillation: linear layers of student and teacher, Jensen-Shannon divergence and cross entropy, weighted, in one."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

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
        "teacher_input": tensor("tokens hidden"),
        "teacher_weight": tensor("vocab hidden", fan_in="hidden"),
        "target": tensor("tokens", "int64", below="vocab"),
    },
    outputs={"loss": tensor("1")},
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
