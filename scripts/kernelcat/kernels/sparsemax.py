"""Sparsemax over the last axis: the projection onto the probability simplex (arXiv:1602.02068)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Sparsemax",
    slug="liger-sparsemax",
    family="sparsemax",
    axes=("features", "tokens"),
    inputs={
        "x": tensor("tokens features"),
    },
    outputs={"y": tensor("tokens features")},
    dialects=(
        Dialect("V", axes={"tokens": "B * T", "features": "V"}, fixed={"dim": -1}),
        *token_sweeps("BT", axes={"tokens": "BT", "features": "hidden_size"}, fixed={"dim": -1}),
    ),
)
