"""Squared ReLU: y = max(x, 0)² (arXiv:2109.08668)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Squared ReLU",
    slug="liger-relu-squared",
    family="relu-squared",
    axes=("hidden", "rows"),
    inputs={
        "x": tensor("rows hidden"),
    },
    outputs={"y": tensor("rows hidden")},
    dialects=(
        Dialect("N", axes={"rows": "M", "hidden": "N"}),
        *token_sweeps("BT", axes={"rows": "BT", "hidden": "hidden_size"}),
    ),
)
