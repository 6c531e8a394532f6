"""Linear layer and direct preference optimisation loss in one, with a reference model (arXiv:2305.18290)."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Fused linear DPO loss",
    slug="liger-dpo-loss",
    family="dpo",
    axes=("batch", "seq", "hidden", "vocab"),
    inputs={
        "x": tensor("batch seq hidden"),
        "ref_x": tensor("batch seq hidden"),
        "weight": tensor("vocab hidden", fan_in="hidden"),
        "bias": tensor("vocab"),
        "ref_weight": tensor("vocab hidden", fan_in="hidden"),
        "target": tensor("batch seq", "int64", below="vocab"),
    },
    outputs={"loss": tensor("1")},
    dialects=token_sweeps(
        "B",
        axes={"batch": "B", "seq": "T", "hidden": "hidden_size", "vocab": "vocab_size"},
        scalars={"beta": "beta"},
        fixed={"bias": True, "ignore_index": 42},
    ),
)
