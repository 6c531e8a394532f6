"""Kullback-Leibler divergence: the mean over tokens of the sum of target · (log target - log input)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="KL divergence",
    slug="liger-kl-div",
    family="kl-divergence",
    axes=("vocab", "tokens"),
    inputs={
        "log_probs": tensor("tokens vocab"),
        "target_probs": tensor("tokens vocab"),
    },
    outputs={"loss": tensor("1")},
    dialects=(
        Dialect("V", axes={"tokens": "B * T", "vocab": "V"}, dtype=None),
        *token_sweeps("BT", axes={"tokens": "BT", "vocab": "vocab_size"}, dtype=None, fixed={"reduction": "batchmean"}),
    ),
)
