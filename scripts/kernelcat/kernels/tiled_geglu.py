"""GEGLU MLP whose sequence is computed in shards (arXiv:2002.05202)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels._gated_mlp import FLOPS, SHARDS, deepspeed_tiled, geglu, layer, llama
from kernelcat.libraries import DEEPSPEED, HUGGINGFACE, LIGER


def liger(x, **weights):
    from liger_kernel.transformers.geglu import LigerGEGLUMLP

    mlp = layer(LigerGEGLUMLP, "gelu_pytorch_tanh", **weights)
    return lambda: mlp(x)


def liger_tiled(x, **weights):
    from liger_kernel.transformers.tiled_mlp import LigerTiledGEGLUMLP

    mlp = layer(LigerTiledGEGLUMLP, "gelu_pytorch_tanh", num_shards=SHARDS, **weights)
    return lambda: mlp(x)


def huggingface(**inputs):
    return llama("gelu_pytorch_tanh", **inputs)


def deepspeed(**inputs):
    return deepspeed_tiled("gelu_pytorch_tanh", **inputs)


KERNEL = Kernel(
    title="Tiled GEGLU",
    slug="liger-tiled-geglu",
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
        "liger_tiled": Provider(
            liger_tiled,
            LIGER,
            "liger_kernel.transformers.tiled_mlp:LigerTiledGEGLUMLP",
            interface=f"num_shards={SHARDS}",
        ),
        "deepspeed_tiled": Provider(
            deepspeed,
            DEEPSPEED,
            "deepspeed.runtime.sequence_parallel.ulysses_sp:TiledMLP",
            interface=f"of LlamaMLP, shards={SHARDS}",
        ),
        "huggingface": Provider(huggingface, HUGGINGFACE, "transformers.models.llama.modeling_llama:LlamaMLP"),
        "torch_compile": torch_compile(huggingface, "transformers.models.llama.modeling_llama:LlamaMLP"),
    },
    dialects=(
        Dialect(
            "T",
            axes={"batch": "bsz", "seq": "T", "hidden": "hidden_size", "intermediate": "intermediate_size"},
            fixed={"hidden_act": "gelu_pytorch_tanh", "activation_type": "geglu", "num_shards": 4},
        ),
        Dialect(
            "model_config",
            axes={"batch": "bsz", "seq": "seq_len", "hidden": "hidden_size", "intermediate": "intermediate_size"},
            fixed={"hidden_act": "gelu_pytorch_tanh", "activation_type": "geglu", "num_shards": 4},
            models=True,
            model_keys=("hidden_size", "intermediate_size", "hidden_act", "dtype"),
        ),
    ),
)
