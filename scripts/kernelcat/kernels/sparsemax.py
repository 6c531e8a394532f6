"""Sparsemax over the last axis: the projection onto the probability simplex (arXiv:1602.02068)."""

from kernelcat.kernel import Dialect, Kernel, tensor

KERNEL = Kernel(
    title="Sparsemax",
    slug="liger-sparsemax",
    family="sparsemax",
    axes=("features", "tokens"),
    inputs={
        "x": tensor("tokens features"),
    },
    outputs={"y": tensor("tokens features")},
    dialects=(Dialect("V", axes={"tokens": "B * T", "features": "V"}, fixed={"dim": -1}),),
)
