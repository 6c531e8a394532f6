"""Linear layer and Kahneman-Tversky preference loss in one (arXiv:2402.01306)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Fused linear KTO loss",
    slug="liger-fused-linear-kto-loss",
    family="kto",
    axes=("batch", "seq", "hidden", "vocab"),
    scalars={"beta": 0.1},
    inputs={
        "x": tensor("batch seq hidden"),
        "ref_x": tensor("batch seq hidden"),
        "weight": tensor("vocab hidden", fan_in="hidden"),
        "bias": tensor("vocab"),
        "ref_weight": tensor("vocab hidden", fan_in="hidden"),
        "ref_bias": tensor("vocab"),
        "target": tensor("batch seq", "int64", below="vocab"),
        "preference_labels": tensor("batch", "bool"),
        "kl": tensor("1"),
    },
    outputs={"loss": tensor("1")},
    dialects=(
        Dialect(
            "B",
            axes={"batch": "B", "seq": "T", "hidden": "H", "vocab": "V"},
            scalars={"beta": "beta"},
            fixed={"bias": True, "ignore_index": 42},
            ignored=("mode",),
        ),
        *token_sweeps(
            "B",
            axes={"batch": "B", "seq": "T", "hidden": "hidden_size", "vocab": "vocab_size"},
            scalars={"beta": "beta"},
            fixed={"bias": True, "ignore_index": 42},
        ),
    ),
)
