"""SwiGLU MLP whose projections belong to the kernel: (silu(x · w_gateᵀ) ∗ (x · w_upᵀ)) · w_downᵀ (arXiv:2002.05202)."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels._gated_mlp import FLOPS, layer, llama, swiglu
from kernelcat.libraries import HUGGINGFACE, LIGER


def liger(x, **weights):
    from liger_kernel.transformers.mlp import LigerMLP

    mlp = layer(LigerMLP, "silu", **weights)
    return lambda: mlp(x)


def huggingface(**inputs):
    return llama("silu", **inputs)


KERNEL = Kernel(
    title="MLP",
    slug="liger-mlp",
    family="swiglu",
    axes=("seq", "batch", "hidden", "intermediate"),
    inputs={
        "x": tensor("batch seq hidden"),
        "w_gate": tensor("intermediate hidden", fan_in="hidden"),
        "w_up": tensor("intermediate hidden", fan_in="hidden"),
        "w_down": tensor("hidden intermediate", fan_in="intermediate"),
    },
    outputs={"y": tensor("batch seq hidden")},
    flops=FLOPS,
    reference=swiglu,
    providers={
        "liger": Provider(
            liger,
            LIGER,
            "liger_kernel.transformers.mlp:LigerMLP",
            not_on={"cpu": "it asserts that its inputs are on a GPU"},
        ),
        "huggingface": Provider(huggingface, HUGGINGFACE, "transformers.models.llama.modeling_llama:LlamaMLP"),
        "torch_compile": torch_compile(huggingface, "transformers.models.llama.modeling_llama:LlamaMLP"),
    },
    dialects=token_sweeps(
        "T",
        axes={"batch": "bsz", "seq": "T", "hidden": "hidden_size", "intermediate": "intermediate_size"},
        fixed={"hidden_act": "silu"},
    ),
)
