"""RMSNorm with a scale and a shift for each element: y = (1 + scale) ∗ rms_norm(x) + shift (arXiv:1910.07467)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import HUGGINGFACE, LIGER


def reference(x, weight, scale, shift, eps):
    import torch

    normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight
    return (1 + scale) * normed + shift


def liger(x, weight, scale, shift, eps):
    from liger_kernel.transformers.modulated_rms_norm import LigerModulatedRMSNorm

    layer = LigerModulatedRMSNorm(hidden_size=weight.numel(), eps=eps, in_place=False)
    layer.weight = weight
    return lambda: layer(x, scale, shift)


def huggingface(x, weight, scale, shift, eps):
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    layer = LlamaRMSNorm(weight.numel(), eps=eps)
    layer.weight = weight
    return lambda: layer(x) * (1 + scale) + shift


def _small(values):
    """Models begin with modulations near 0."""
    return 0.1 * values


KERNEL = Kernel(
    title="Modulated RMSNorm",
    slug="liger-modulated-rms-norm",
    family="rmsnorm",
    axes=("rows", "hidden"),
    inputs={
        "x": tensor("rows hidden"),
        "weight": tensor("hidden", "fp32"),
        "scale": tensor("rows hidden", make=_small),
        "shift": tensor("rows hidden", make=_small),
    },
    outputs={"y": tensor("rows hidden")},
    scalars={"eps": 1e-6},
    flops="7 * rows * hidden",
    # No gradient depends on shift. The weight and its gradient are fp32.
    moves={"backward": "size * 6 * rows * hidden + 8 * hidden"},
    reference=reference,
    providers={
        "liger": Provider(
            liger,
            LIGER,
            "liger_kernel.transformers.modulated_rms_norm:LigerModulatedRMSNorm",
            interface="in_place=False",
        ),
        "huggingface": Provider(
            huggingface,
            HUGGINGFACE,
            "transformers.models.llama.modeling_llama:LlamaRMSNorm",
            interface="times 1 + scale, plus shift",
        ),
        "torch_compile": torch_compile(huggingface, "transformers.models.llama.modeling_llama:LlamaRMSNorm"),
    },
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
