"""Coefficients of manifold-constrained hyper-connections, with tmax Sinkhorn steps (arXiv:2512.24880).

The streams of a token, as one vector, are normed as by RMSNorm and projected by phi. Of the coefficients' logits,
alpha ∗ projection + b, the first make h_pre, the next h_post and the rest h_res, a matrix whose rows and columns are
normed in turn until they add up to 1.
"""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH

SCALARS = {key: key for key in ("tmax", "rms_eps", "pre_eps", "sinkhorn_eps", "post_mult")}


def reference(x, phi, b, alpha_pre, alpha_post, alpha_res, tmax, rms_eps, pre_eps, sinkhorn_eps, post_mult):
    import torch

    streams = x.shape[-2]
    parts = (streams, streams, streams * streams)
    flat = x.flatten(-2)
    mixed = (flat @ phi) * torch.rsqrt(flat.square().mean(-1, keepdim=True) + rms_eps)
    alphas = torch.cat(
        [alpha.expand(part) for alpha, part in zip((alpha_pre, alpha_post, alpha_res), parts, strict=True)]
    )
    pre, post, res = (mixed * alphas + b).split(parts, dim=-1)
    matrix = res.unflatten(-1, (streams, streams)).softmax(-1) + sinkhorn_eps
    for step in range(int(tmax)):
        if step:  # the softmax has normed the rows
            matrix = matrix / (matrix.sum(-1, keepdim=True) + sinkhorn_eps)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + sinkhorn_eps)
    return pre.sigmoid() + pre_eps, post_mult * post.sigmoid(), matrix


def liger(x, phi, b, alpha_pre, alpha_post, alpha_res, tmax, **options):
    import torch
    from liger_kernel.transformers.functional import liger_mhc_coeffs

    options |= {"tmax": int(tmax), "allow_fp32": x.dtype == torch.float32}

    def call():
        alphas = (alpha.view(()) for alpha in (alpha_pre, alpha_post, alpha_res))
        return liger_mhc_coeffs(x, phi, b, *alphas, **options)

    return call


def coefficients(x, phi, b, *alphas, **options):
    """The same in fp32, which the coefficients are of."""
    return reference(x.float(), phi.float(), b, *alphas, **options)


def pytorch(x, phi, b, alpha_pre, alpha_post, alpha_res, **options):
    return lambda: coefficients(x, phi, b, alpha_pre, alpha_post, alpha_res, **options)


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
        "alpha_pre": tensor("1", "fp32", make=lambda values: 1 + 0.1 * values),
        "alpha_post": tensor("1", "fp32", make=lambda values: 1 + 0.1 * values),
        "alpha_res": tensor("1", "fp32", make=lambda values: 1 + 0.1 * values),
    },
    outputs={
        "h_pre": tensor("batch seq streams", "fp32"),
        "h_post": tensor("batch seq streams", "fp32"),
        "h_res": tensor("batch seq streams streams", "fp32"),
    },
    scalars={"tmax": 20, "rms_eps": 1e-6, "pre_eps": 0.0, "sinkhorn_eps": 1e-6, "post_mult": 2.0},
    # The projection and the squares. What the Sinkhorn steps add depends on tmax and is little beside them.
    flops="2 * batch * seq * stream_hidden * (coefficients + 1)",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.functional:liger_mhc_coeffs"),
        "torch": Provider(pytorch, TORCH, "torch:matmul", interface="with norm and Sinkhorn steps, in fp32"),
        "torch_compile": torch_compile(pytorch, "torch:matmul"),
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
