"""Dynamic tanh without beta: y = gamma ∗ tanh(alpha · x) (arXiv:2503.10622)."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="DyT without beta",
    slug="liger-dyt-without-beta",
    family="dyt",
    axes=("tokens", "hidden"),
    inputs={"x": tensor("tokens hidden"), "alpha": tensor("1", "fp32"), "gamma": tensor("hidden", "fp32")},
    outputs={"y": tensor("tokens hidden")},
    dialects=token_sweeps("BT", axes={"tokens": "BT", "hidden": "hidden_size"}, fixed={"beta": False}),
    also=("dyt",),
)
