"""What the gated MLPs share: y = (activation(x · w_gateᵀ) ∗ (x · w_upᵀ)) · w_downᵀ."""

import math

SHARDS = 4
"""Into how many pieces Liger's suite has the tiled MLPs cut the sequence."""

FLOPS = "6 * batch * seq * hidden * intermediate"


def swiglu(x, w_gate, w_up, w_down):
    gate = x @ w_gate.T
    return (gate * gate.sigmoid() * (x @ w_up.T)) @ w_down.T


def geglu(x, w_gate, w_up, w_down):
    """With the tanh form of gelu."""
    gate = x @ w_gate.T
    gelu = 0.5 * gate * (1 + (math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)).tanh())
    return (gelu * (x @ w_up.T)) @ w_down.T


def layer(module_class, activation, w_gate, w_up, w_down, **options):
    """An MLP of `module_class`, which is made from a LlamaConfig, with these weights. `activation` is what the config
    calls it."""
    import torch
    from transformers.models.llama.configuration_llama import LlamaConfig

    with torch.device("meta"):
        config = LlamaConfig(
            hidden_size=w_gate.shape[1],
            intermediate_size=w_gate.shape[0],
            num_attention_heads=1,  # of no use here, but it must divide the hidden size
            hidden_act=activation,
        )
        made = module_class(config, **options)
    made.gate_proj.weight, made.up_proj.weight, made.down_proj.weight = w_gate, w_up, w_down
    return made


def llama(activation, x, **weights):
    """The callable of Hugging Face's MLP, whose activation comes from its config."""
    from transformers.models.llama.modeling_llama import LlamaMLP

    mlp = layer(LlamaMLP, activation, **weights)
    return lambda: mlp(x)


def deepspeed_tiled(activation, x, **weights):
    """The callable of DeepSpeed's tiled MLP around Hugging Face's."""
    from deepspeed.runtime.sequence_parallel.ulysses_sp import TiledMLP
    from transformers.models.llama.modeling_llama import LlamaMLP

    mlp = layer(LlamaMLP, activation, **weights)
    return lambda: TiledMLP.apply(LlamaMLP.forward, mlp, x, SHARDS, list(mlp.parameters()))
