"""GEGLU MLP: y = (gelu(x · w_gateᵀ) ∗ (x · w_upᵀ)) · w_downᵀ with the tanh form of gelu (arXiv:2002.05202)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

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
