"""Linear layer and odds-ratio preference loss in one (arXiv:2403.07691)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Fused linear ORPO loss",
    slug="liger-fused-linear-orpo-loss",
    family="orpo",
    axes=("batch", "seq", "hidden", "vocab"),
    inputs={
        "x": tensor("batch seq hidden"),
        "weight": tensor("vocab hidden", fan_in="hidden"),
        "target": tensor("batch seq", "int64", below="vocab"),
    },
    outputs={"loss": tensor("1")},
    dialects=(
        Dialect("B", axes={"batch": "B", "seq": "T", "hidden": "H", "vocab": "V"}, ignored=("mode",)),
        *token_sweeps(
            "B",
            axes={"batch": "B", "seq": "T", "hidden": "hidden_size", "vocab": "vocab_size"},
        ),
    ),
    also=("orpo_loss",),
)
