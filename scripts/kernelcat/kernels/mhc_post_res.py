"""The streams after a layer, by manifold-constrained hyper-connections: h_res · x + h_post ∗ f (arXiv:2512.24880)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH

MAKES_COEFFICIENTS = ("tmax", "rms_eps", "pre_eps", "sinkhorn_eps", "post_mult")
"""Keys that say how the script makes its input tensors."""

# Liger 0.8 computes y, which is published as fp32, in the dtype of x.
X = "batch * seq * streams * hidden"
INPUTS = f"size * ({X} + batch * seq * hidden) + 4 * batch * seq * streams * (streams + 1)"
MOVES = {
    "forward": f"{INPUTS} + size * {X}",
    "backward": f"2 * ({INPUTS}) + size * {X}",
    "full": f"2 * ({INPUTS} + size * {X})",
    "no-grad-forward": f"{INPUTS} + size * {X}",
}


def reference(x, f_out, h_post, h_res):
    return h_res @ x + h_post.unsqueeze(-1) * f_out.unsqueeze(-2)


def liger(x, f_out, h_post, h_res):
    from liger_kernel.transformers.functional import liger_mhc_post_res

    return lambda: liger_mhc_post_res(x, f_out, h_post, h_res)


def distribute(x, f_out, h_post, h_res):
    import torch

    return torch.einsum("btoi,btic->btoc", h_res, x.float()) + h_post.unsqueeze(-1) * f_out.float().unsqueeze(-2)


def pytorch(x, f_out, h_post, h_res):
    return lambda: distribute(x, f_out, h_post, h_res)


KERNEL = Kernel(
    title="mHC output",
    slug="liger-mhc-post-res",
    family="mhc",
    axes=("seq", "batch", "streams", "hidden"),
    inputs={
        "x": tensor("batch seq streams hidden"),
        "f_out": tensor("batch seq hidden"),
        "h_post": tensor("batch seq streams", "fp32", make=lambda values: 2 * values.sigmoid()),
        "h_res": tensor("batch seq streams streams", "fp32", make=lambda values: values.softmax(-1)),
    },
    outputs={"y": tensor("batch seq streams hidden", "fp32")},
    flops="2 * batch * seq * streams * hidden * (streams + 1)",
    moves=MOVES,
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.functional:liger_mhc_post_res"),
        "torch": Provider(pytorch, TORCH, "torch:einsum", interface="plus products, in fp32"),
        "torch_compile": torch_compile(pytorch, "torch:einsum"),
    },
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
