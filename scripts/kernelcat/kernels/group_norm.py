"""Group normalisation: each group of channels of a sample to mean 0 and variance 1 (arXiv:1803.08494)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="GroupNorm",
    slug="liger-group-norm",
    family="groupnorm",
    axes=("channels", "batch", "hidden", "channels_per_group"),
    derived={"groups": "channels // channels_per_group"},
    operation_axes=("batch", "channels", "hidden"),
    scalars={"eps": 1e-6},
    inputs={
        "x": tensor("batch channels hidden"),
        "weight": tensor("channels"),
        "bias": tensor("channels"),
    },
    outputs={"y": tensor("batch channels hidden")},
    dialects=(
        Dialect(
            "C",
            axes={"batch": "M", "channels": "C", "hidden": "H", "channels_per_group": "channels_per_group"},
            scalars={"eps": "eps"},
        ),
        *token_sweeps(
            "BT",
            axes={
                "batch": "BT // H",
                "channels": "hidden_size",
                "hidden": "H",
                "channels_per_group": "channels_per_group",
            },
            scalars={"eps": "eps"},
        ),
    ),
)
