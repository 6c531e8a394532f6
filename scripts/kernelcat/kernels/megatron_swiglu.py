"""SwiGLU activation in the layout of Megatron-LM: out = silu(first half of y) ∗ second half (arXiv:2002.05202)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, MEGATRON, TORCH


def reference(y):
    gate, up = y.chunk(2, dim=-1)
    return gate * gate.sigmoid() * up


def _liger(y, **options):
    from liger_kernel.megatron.swiglu import LigerMegatronSwiGLU

    layer = LigerMegatronSwiGLU(**options)
    return lambda: layer(y)


def liger(y):
    return _liger(y)


def liger_in_place(y):
    return _liger(y, in_place=True)


def megatron(y):
    from megatron.core.fusions.fused_bias_swiglu import bias_swiglu_impl

    return lambda: bias_swiglu_impl(y, None, False, False)


def pytorch(y):
    import torch

    def call():
        gate, up = torch.chunk(y, 2, dim=-1)
        return torch.nn.functional.silu(gate) * up

    return call


LIGER_SYMBOL = "liger_kernel.megatron.swiglu:LigerMegatronSwiGLU"


KERNEL = Kernel(
    title="Megatron SwiGLU",
    slug="liger-megatron-swiglu",
    family="swiglu",
    axes=("ffn", "seq", "batch"),
    derived={"ffn_double": "ffn * 2"},
    inputs={
        "y": tensor("seq batch ffn_double"),
    },
    outputs={"out": tensor("seq batch ffn")},
    flops="5 * seq * batch * ffn",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, LIGER_SYMBOL),
        "liger_in_place": Provider(liger_in_place, LIGER, LIGER_SYMBOL, interface="in_place=True"),
        "megatron": Provider(megatron, MEGATRON, "megatron.core.fusions.fused_bias_swiglu:bias_swiglu_impl"),
        "torch": Provider(pytorch, TORCH, "torch.nn.functional:silu", interface="of one chunk, times the other"),
        "torch_compile": torch_compile(pytorch, "torch.nn.functional:silu"),
    },
    dialects=(
        Dialect(
            "ffn_local",
            axes={"seq": "S", "batch": "B", "ffn": "ffn_local"},
            dtype=None,
            assumes="bf16",
            backward_has_forward=True,
        ),
    ),
)
