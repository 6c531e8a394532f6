"""Mixture of experts: each token through the SwiGLU MLPs of its k experts, weighted."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import HUGGINGFACE, LIGER


def reference(x, gate_up_proj, down_proj, top_k_index, top_k_weights):
    y = x.new_zeros(x.shape)
    for expert, (up_weight, down_weight) in enumerate(zip(gate_up_proj.unbind(), down_proj.unbind(), strict=True)):
        token, place = (top_k_index == expert).nonzero(as_tuple=True)
        gate, up = (x[token] @ up_weight.T).chunk(2, dim=-1)
        computed = (gate * gate.sigmoid() * up) @ down_weight.T
        y = y.index_add(0, token, computed * top_k_weights[token, place].unsqueeze(-1))
    return y


def _experts(module_class, gate_up_proj, down_proj, implementation):
    import torch
    from transformers.models.qwen3_moe.configuration_qwen3_moe import Qwen3MoeConfig

    experts, hidden, intermediate = down_proj.shape
    with torch.device("meta"):
        config = Qwen3MoeConfig(
            num_experts=experts, hidden_size=hidden, moe_intermediate_size=intermediate, hidden_act="silu"
        )
        config._experts_implementation = implementation
        layer = module_class(config)
    layer.gate_up_proj, layer.down_proj = gate_up_proj, down_proj
    return layer


def liger(x, gate_up_proj, down_proj, top_k_index, top_k_weights):
    from liger_kernel.transformers.swiglu import LigerExperts

    layer = _experts(LigerExperts, gate_up_proj, down_proj, None)
    return lambda: layer(x, top_k_index, top_k_weights)


def _huggingface(x, gate_up_proj, down_proj, top_k_index, top_k_weights, implementation):
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts

    layer = _experts(Qwen3MoeExperts, gate_up_proj, down_proj, implementation)
    # Its router gives int64.
    return lambda: layer(x, top_k_index.long(), top_k_weights)


def huggingface(**inputs):
    return _huggingface(**inputs, implementation="eager")


def huggingface_grouped_mm(**inputs):
    return _huggingface(**inputs, implementation="grouped_mm")


def _normalised(values):
    """Weights as a router gives them: positive, of sum 1 for each token."""
    return values.softmax(-1)


HUGGINGFACE_SYMBOL = "transformers.models.qwen3_moe.modeling_qwen3_moe:Qwen3MoeExperts"


KERNEL = Kernel(
    title="Fused MoE",
    slug="liger-fused-moe",
    family="moe",
    axes=("tokens", "experts", "hidden", "intermediate", "k"),
    derived={"intermediate_double": "intermediate * 2"},
    inputs={
        "x": tensor("tokens hidden"),
        "gate_up_proj": tensor("experts intermediate_double hidden", fan_in="hidden"),
        "down_proj": tensor("experts hidden intermediate", fan_in="intermediate"),
        "top_k_index": tensor("tokens k", "int32", below="experts"),
        "top_k_weights": tensor("tokens k", make=_normalised),
    },
    outputs={"y": tensor("tokens hidden")},
    flops="6 * tokens * k * hidden * intermediate",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.swiglu:LigerExperts"),
        "huggingface": Provider(huggingface, HUGGINGFACE, HUGGINGFACE_SYMBOL, interface="eager"),
        "huggingface-grouped-mm": Provider(
            huggingface_grouped_mm, HUGGINGFACE, HUGGINGFACE_SYMBOL, interface="grouped_mm"
        ),
        "torch_compile": torch_compile(huggingface_grouped_mm, HUGGINGFACE_SYMBOL),
    },
    dialects=(
        Dialect(
            "T",
            axes={"tokens": "T", "experts": "E", "hidden": "H", "intermediate": "intermediate_dim", "k": "K"},
            fixed={"sweep_dim": "T"},
        ),
        Dialect(
            "E",
            axes={"tokens": "T", "experts": "E", "hidden": "H", "intermediate": "intermediate_dim", "k": "K"},
            fixed={"sweep_dim": "E"},
        ),
    ),
)
