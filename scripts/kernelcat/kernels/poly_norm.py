"""PolyNorm: y = w₀ · norm(x³) + w₁ · norm(x²) + w₂ · norm(x) + b, norm being RMSNorm without weight
(arXiv:2411.03884)."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="PolyNorm",
    slug="liger-poly-norm",
    family="polynorm",
    axes=("rows", "hidden"),
    inputs={
        "x": tensor("rows hidden"),
        "weight": tensor("3", "fp32"),
        "bias": tensor("1", "fp32"),
    },
    outputs={"y": tensor("rows hidden")},
    dialects=token_sweeps("T", axes={"rows": "T", "hidden": "hidden_size"}, scalars={"eps": "eps"}),
)
