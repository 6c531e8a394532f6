"""Mixture of experts: each token through the SwiGLU MLPs of its k experts, weighted."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

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
        "top_k_weights": tensor("tokens k"),
    },
    outputs={"y": tensor("tokens hidden")},
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
