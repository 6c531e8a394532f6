"""SwiGLU MLP whose projections belong to the kernel: (silu(x · w_gateᵀ) ∗ (x · w_upᵀ)) · w_downᵀ (arXiv:2002.05202)."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, tensor

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
    dialects=token_sweeps(
        "T",
        axes={"batch": "bsz", "seq": "T", "hidden": "hidden_size", "intermediate": "intermediate_size"},
        fixed={"hidden_act": "silu"},
    ),
)
