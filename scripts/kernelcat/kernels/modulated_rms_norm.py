"""RMSNorm with a scale and a shift for each element: y = (1 + scale) ∗ rms_norm(x) + shift (arXiv:1910.07467)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Modulated RMSNorm",
    slug="liger-modulated-rms-norm",
    family="rmsnorm",
    axes=("rows", "hidden"),
    inputs={
        "x": tensor("rows hidden"),
        "weight": tensor("hidden", "fp32"),
        "scale": tensor("rows hidden"),
        "shift": tensor("rows hidden"),
    },
    outputs={"y": tensor("rows hidden")},
    dialects=(
        Dialect(
            "BT",
            axes={"rows": "BT", "hidden": "hidden_size"},
            scalars={"eps": "eps"},
            fixed={"has_shift": True},
        ),
        Dialect(
            "model_config",
            axes={"rows": "BT", "hidden": "hidden_size"},
            scalars={"eps": "eps"},
            fixed={"has_shift": True},
            models=True,
            model_keys=("hidden_size", "dtype"),
        ),
    ),
)
