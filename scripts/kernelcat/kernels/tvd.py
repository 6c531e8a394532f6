"""Total variation distance: the mean over tokens of half the sum of |p - q|."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Total variation distance",
    slug="liger-tvd",
    family="tvd",
    axes=("vocab", "tokens"),
    inputs={
        "p": tensor("tokens vocab"),
        "q": tensor("tokens vocab"),
    },
    outputs={"loss": tensor("1")},
    dialects=(
        Dialect("V", axes={"tokens": "B * T", "vocab": "V"}, dtype=None),
        *token_sweeps("BT", axes={"tokens": "BT", "vocab": "vocab_size"}, dtype=None, fixed={"reduction": "batchmean"}),
    ),
)
