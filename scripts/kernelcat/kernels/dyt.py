"""Dynamic tanh: y = gamma ∗ tanh(alpha · x) + beta (arXiv:2503.10622); without beta it is another operation."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="DyT",
    slug="liger-dyt",
    family="dyt",
    axes=("tokens", "hidden"),
    inputs={
        "x": tensor("tokens hidden"),
        "alpha": tensor("1", "fp32"),
        "gamma": tensor("hidden", "fp32"),
        "beta": tensor("hidden", "fp32"),
    },
    outputs={"y": tensor("tokens hidden")},
    dialects=token_sweeps("BT", axes={"tokens": "BT", "hidden": "hidden_size"}, fixed={"beta": True}),
)
