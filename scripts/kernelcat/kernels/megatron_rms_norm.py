"""RMSNorm in the layout of Megatron-LM, [seq, batch, hidden] (arXiv:1910.07467)."""

from types import SimpleNamespace

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, MEGATRON, TORCH


def reference(x, weight, eps):
    import torch

    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def _config():
    """What the layers read of Megatron's TransformerConfig."""
    return SimpleNamespace(
        normalization="RMSNorm",
        sequence_parallel=False,
        layernorm_zero_centered_gamma=False,
        persist_layer_norm=False,
        memory_efficient_layer_norm=False,
    )


def liger(x, weight, eps):
    from liger_kernel.megatron.rms_norm import LigerMegatronRMSNorm

    layer = LigerMegatronRMSNorm(_config(), weight.numel(), eps=eps)
    layer.weight = weight
    return lambda: layer(x)


def megatron(x, weight, eps):
    from megatron.core.transformer.torch_norm import WrappedTorchNorm

    layer = WrappedTorchNorm(_config(), weight.numel(), eps=eps)
    layer.weight = weight
    return lambda: layer(x)


def pytorch(x, weight, eps):
    import torch

    layer = torch.nn.RMSNorm(weight.numel(), eps=eps)
    layer.weight = weight
    return lambda: layer(x)


KERNEL = Kernel(
    title="Megatron RMSNorm",
    slug="liger-megatron-rms-norm",
    family="rmsnorm",
    axes=("hidden", "seq", "batch"),
    scalars={"eps": 1e-6},
    inputs={
        "x": tensor("seq batch hidden"),
        "weight": tensor("hidden"),
    },
    outputs={"y": tensor("seq batch hidden")},
    flops="4 * seq * batch * hidden",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.megatron.rms_norm:LigerMegatronRMSNorm"),
        "megatron": Provider(megatron, MEGATRON, "megatron.core.transformer.torch_norm:WrappedTorchNorm"),
        "torch": Provider(pytorch, TORCH, "torch.nn:RMSNorm"),
        "torch_compile": torch_compile(pytorch, "torch.nn:RMSNorm"),
    },
    dialects=(
        Dialect(
            "H",
            axes={"seq": "S", "batch": "B", "hidden": "H"},
            dtype=None,
            assumes="bf16",
            scalars={"eps": 1e-6},
            backward_has_forward=True,
        ),
    ),
)
