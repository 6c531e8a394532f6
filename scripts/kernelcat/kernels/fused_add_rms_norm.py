"""Addition of a residual and RMSNorm in one: residual_out = x + residual, y = rms_norm(residual_out)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Fused add RMSNorm",
    slug="liger-fused-add-rms-norm",
    family="rmsnorm",
    axes=("hidden", "rows"),
    scalars={"eps": 1e-6},
    inputs={
        "x": tensor("rows hidden"),
        "residual": tensor("rows hidden"),
        "weight": tensor("hidden"),
    },
    outputs={"y": tensor("rows hidden"), "residual_out": tensor("rows hidden")},
    dialects=(
        Dialect("H", axes={"rows": "M", "hidden": "H"}, scalars={"eps": "eps"}),
        *token_sweeps(
            "BT", axes={"rows": "BT", "hidden": "hidden_size"}, scalars={"eps": "eps"}, ignored=("intermediate_size",)
        ),
    ),
)
