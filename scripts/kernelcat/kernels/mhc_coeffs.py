"""Coefficients of manifold-constrained hyper-connections, with tmax Sinkhorn steps (arXiv:2512.24880)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

SCALARS = {key: key for key in ("tmax", "rms_eps", "pre_eps", "sinkhorn_eps", "post_mult")}

KERNEL = Kernel(
    title="mHC coefficients",
    slug="liger-mhc-coeffs",
    family="mhc",
    axes=("seq", "batch", "streams", "hidden"),
    derived={"stream_hidden": "streams * hidden", "coefficients": "streams * streams + 2 * streams"},
    inputs={
        "x": tensor("batch seq streams hidden"),
        "phi": tensor("stream_hidden coefficients", fan_in="stream_hidden"),
        "b": tensor("coefficients", "fp32"),
        "alpha_pre": tensor("1", "fp32"),
        "alpha_post": tensor("1", "fp32"),
        "alpha_res": tensor("1", "fp32"),
    },
    outputs={
        "h_pre": tensor("batch seq streams", "fp32"),
        "h_post": tensor("batch seq streams", "fp32"),
        "h_res": tensor("batch seq streams streams", "fp32"),
    },
    dialects=(
        Dialect(
            "T",
            axes={"batch": "B", "seq": "T", "streams": "HC", "hidden": "C"},
            dtype=None,
            assumes="bf16",
            scalars=SCALARS,
            fixed={"sub_kernel": "coeffs"},
        ),
        Dialect(
            "model_config",
            axes={"batch": "B", "seq": "T", "streams": "HC", "hidden": "hidden_size"},
            dtype=None,
            assumes="bf16",
            scalars=SCALARS,
            fixed={"sub_kernel": "coeffs"},
            models=True,
            model_keys=("hidden_size", "dtype"),
        ),
    ),
)
