"""RMSNorm: y = x / sqrt(mean(x²) + eps) · weight, the mean over the last axis (arXiv:1910.07467)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import HUGGINGFACE, LIGER


def reference(x, weight, eps):
    import torch

    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def liger(x, weight, eps):
    from liger_kernel.transformers.rms_norm import LigerRMSNorm

    layer = LigerRMSNorm(hidden_size=weight.numel(), eps=eps)
    layer.weight = weight
    return lambda: layer(x)


def huggingface(x, weight, eps):
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    layer = LlamaRMSNorm(weight.numel(), eps=eps)
    layer.weight = weight
    return lambda: layer(x)


KERNEL = Kernel(
    title="RMSNorm",
    slug="liger-rms-norm",
    family="rmsnorm",
    axes=("rows", "hidden"),
    inputs={"x": tensor("rows hidden"), "weight": tensor("hidden")},
    outputs={"y": tensor("rows hidden")},
    scalars={"eps": 1e-6},
    flops="4 * rows * hidden",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.rms_norm:LigerRMSNorm"),
        "huggingface": Provider(huggingface, HUGGINGFACE, "transformers.models.llama.modeling_llama:LlamaRMSNorm"),
        "torch_compile": torch_compile(huggingface, "transformers.models.llama.modeling_llama:LlamaRMSNorm"),
    },
    dialects=(
        Dialect("H", axes={"rows": "M", "hidden": "H"}, scalars={"eps": "eps"}),
        *token_sweeps("T", axes={"rows": "T", "hidden": "hidden_size"}, scalars={"eps": "eps"}),
    ),
)
