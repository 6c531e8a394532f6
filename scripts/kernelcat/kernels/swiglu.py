"""SwiGLU MLP: y = (silu(x · w_gateᵀ) ∗ (x · w_upᵀ)) · w_downᵀ (arXiv:2002.05202)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import HUGGINGFACE, LIGER


def reference(x, w_gate, w_up, w_down):
    gate = x @ w_gate.T
    return (gate * gate.sigmoid() * (x @ w_up.T)) @ w_down.T


def _mlp(module_class, x, w_gate, w_up, w_down):
    import torch
    from transformers.models.llama.configuration_llama import LlamaConfig

    with torch.device("meta"):
        config = LlamaConfig(
            hidden_size=w_gate.shape[1],
            intermediate_size=w_gate.shape[0],
            num_attention_heads=1,  # of no use here, but it must divide the hidden size
            hidden_act="silu",
        )
        layer = module_class(config)
    layer.gate_proj.weight, layer.up_proj.weight, layer.down_proj.weight = w_gate, w_up, w_down
    return lambda: layer(x)


def liger(**inputs):
    from liger_kernel.transformers.swiglu import LigerSwiGLUMLP

    return _mlp(LigerSwiGLUMLP, **inputs)


def huggingface(**inputs):
    from transformers.models.llama.modeling_llama import LlamaMLP

    return _mlp(LlamaMLP, **inputs)


KERNEL = Kernel(
    title="SwiGLU",
    slug="liger-swiglu",
    family="swiglu",
    axes=("seq", "batch", "hidden", "intermediate"),
    inputs={
        "x": tensor("batch seq hidden"),
        "w_gate": tensor("intermediate hidden", fan_in="hidden"),
        "w_up": tensor("intermediate hidden", fan_in="hidden"),
        "w_down": tensor("hidden intermediate", fan_in="intermediate"),
    },
    outputs={"y": tensor("batch seq hidden")},
    flops="6 * batch * seq * hidden * intermediate",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.swiglu:LigerSwiGLUMLP"),
        "huggingface": Provider(huggingface, HUGGINGFACE, "transformers.models.llama.modeling_llama:LlamaMLP"),
        "torch_compile": torch_compile(huggingface, "transformers.models.llama.modeling_llama:LlamaMLP"),
    },
    dialects=(
        Dialect(
            "T",
            axes={"batch": "B", "seq": "T", "hidden": "hidden_size", "intermediate": "intermediate_size"},
            fixed={"hidden_act": "silu"},
        ),
        *token_sweeps(
            "T",
            axes={"batch": "bsz", "seq": "T", "hidden": "hidden_size", "intermediate": "intermediate_size"},
            fixed={"hidden_act": "silu"},
        ),
    ),
)
