"""Kullback-Leibler divergence: the mean over tokens of the sum of target · (log target - log input)."""

from kernelcat.kernel import Dialect, Kernel, tensor

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
    dialects=(Dialect("V", axes={"tokens": "B * T", "vocab": "V"}, dtype=None),),
)
