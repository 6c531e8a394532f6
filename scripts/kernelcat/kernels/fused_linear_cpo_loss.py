"""Linear layer and contrastive preference loss in one (arXiv:2401.08417)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Fused linear CPO loss",
    slug="liger-fused-linear-cpo-loss",
    family="cpo",
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
    also=("cpo_loss",),
)
