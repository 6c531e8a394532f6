"""Linear layer and cross entropy of logits / temperature in one, for each token, as benchmarked on Hopper."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

AXES = {"tokens": "BT", "hidden": "hidden_size", "vocab": "vocab_size"}

KERNEL = Kernel(
    title="Fused scaled cross entropy (Hopper)",
    slug="liger-fused-scaled-cross-entropy-sm90",
    family="cross-entropy",
    axes=("tokens", "hidden", "vocab"),
    inputs={
        "x": tensor("tokens hidden"),
        "weight": tensor("vocab hidden", fan_in="hidden"),
        "target": tensor("tokens", "int64", below="vocab"),
    },
    outputs={"loss": tensor("tokens", "fp32")},
    dialects=(
        Dialect("BT", axes=AXES, scalars={"temperature": 1.0}),
        *token_sweeps("BT", axes=AXES, scalars={"temperature": 1.0}),
    ),
)
