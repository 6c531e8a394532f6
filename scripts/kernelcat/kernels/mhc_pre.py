"""A layer's input, by manifold-constrained hyper-connections: the sum of h_pre ∗ x over streams (arXiv:2512.24880)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

MAKES_COEFFICIENTS = ("tmax", "rms_eps", "pre_eps", "sinkhorn_eps", "post_mult")
"""Keys that say how the script makes its input tensors."""

KERNEL = Kernel(
    title="mHC input",
    slug="liger-mhc-pre",
    family="mhc",
    axes=("seq", "batch", "streams", "hidden"),
    inputs={
        "x": tensor("batch seq streams hidden"),
        "h_pre": tensor("batch seq streams", "fp32"),
    },
    outputs={"y": tensor("batch seq hidden", "fp32")},
    dialects=(
        Dialect(
            "T",
            axes={"batch": "B", "seq": "T", "streams": "HC", "hidden": "C"},
            dtype=None,
            assumes="bf16",
            ignored=MAKES_COEFFICIENTS,
            fixed={"sub_kernel": "pre"},
        ),
        Dialect(
            "model_config",
            axes={"batch": "B", "seq": "T", "streams": "HC", "hidden": "hidden_size"},
            dtype=None,
            assumes="bf16",
            ignored=MAKES_COEFFICIENTS,
            fixed={"sub_kernel": "pre"},
            models=True,
            model_keys=("hidden_size", "dtype"),
        ),
    ),
)
