"""The streams after a layer, by manifold-constrained hyper-connections: h_res · x + h_post ∗ f (arXiv:2512.24880)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

MAKES_COEFFICIENTS = ("tmax", "rms_eps", "pre_eps", "sinkhorn_eps", "post_mult")
"""Keys that say how the script makes its input tensors."""

KERNEL = Kernel(
    title="mHC output",
    slug="liger-mhc-post-res",
    family="mhc",
    axes=("seq", "batch", "streams", "hidden"),
    inputs={
        "x": tensor("batch seq streams hidden"),
        "f_out": tensor("batch seq hidden"),
        "h_post": tensor("batch seq streams", "fp32"),
        "h_res": tensor("batch seq streams streams", "fp32"),
    },
    outputs={"y": tensor("batch seq streams hidden", "fp32")},
    dialects=(
        Dialect(
            "T",
            axes={"batch": "B", "seq": "T", "streams": "HC", "hidden": "C"},
            dtype=None,
            assumes="bf16",
            ignored=MAKES_COEFFICIENTS,
            fixed={"sub_kernel": "post_res"},
        ),
        Dialect(
            "model_config",
            axes={"batch": "B", "seq": "T", "streams": "HC", "hidden": "hidden_size"},
            dtype=None,
            assumes="bf16",
            ignored=MAKES_COEFFICIENTS,
            fixed={"sub_kernel": "post_res"},
            models=True,
            model_keys=("hidden_size", "dtype"),
        ),
    ),
)
