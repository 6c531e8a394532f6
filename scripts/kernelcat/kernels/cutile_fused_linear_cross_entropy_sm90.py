"""Linear layer and cross entropy in one, the mean over tokens, as the cuTile kernel for Hopper is benchmarked."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Fused linear cross entropy (cuTile, Hopper)",
    slug="liger-cutile-fused-linear-cross-entropy-sm90",
    family="cross-entropy",
    axes=("tokens", "hidden", "vocab"),
    inputs={
        "x": tensor("tokens hidden"),
        "weight": tensor("vocab hidden", fan_in="hidden"),
        "target": tensor("tokens", "int64", below="vocab"),
    },
    outputs={"loss": tensor("1")},
    dialects=token_sweeps("BT", axes={"tokens": "BT", "hidden": "hidden_size", "vocab": "vocab_size"}),
)
