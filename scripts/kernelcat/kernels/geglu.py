"""GEGLU MLP: y = (gelu(x · w_gateᵀ) ∗ (x · w_upᵀ)) · w_downᵀ with the tanh form of gelu (arXiv:2002.05202)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels._gated_mlp import FLOPS, geglu, layer, llama
from kernelcat.libraries import HUGGINGFACE, LIGER


def liger(x, **weights):
    from liger_kernel.transformers.geglu import LigerGEGLUMLP

    mlp = layer(LigerGEGLUMLP, "gelu_pytorch_tanh", **weights)
    return lambda: mlp(x)


def huggingface(**inputs):
    return llama("gelu_pytorch_tanh", **inputs)


KERNEL = Kernel(
    title="GEGLU",
    slug="liger-geglu",
    family="geglu",
    axes=("seq", "batch", "hidden", "intermediate"),
    inputs={
        "x": tensor("batch seq hidden"),
        "w_gate": tensor("intermediate hidden", fan_in="hidden"),
        "w_up": tensor("intermediate hidden", fan_in="hidden"),
        "w_down": tensor("hidden intermediate", fan_in="intermediate"),
    },
    outputs={"y": tensor("batch seq hidden")},
    flops=FLOPS,
    reference=geglu,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.geglu:LigerGEGLUMLP"),
        "huggingface": Provider(huggingface, HUGGINGFACE, "transformers.models.llama.modeling_llama:LlamaMLP"),
        "torch_compile": torch_compile(huggingface, "transformers.models.llama.modeling_llama:LlamaMLP"),
    },
    dialects=(
        Dialect(
            "T",
            axes={"batch": "bsz", "seq": "T", "hidden": "hidden_size", "intermediate": "intermediate_size"},
            fixed={"hidden_act": "gelu_pytorch_tanh"},
        ),
        *token_sweeps(
            "T",
            axes={"batch": "bsz", "seq": "T", "hidden": "hidden_size", "intermediate": "intermediate_size"},
            fixed={"hidden_act": "gelu_pytorch_tanh"},
        ),
    ),
)
