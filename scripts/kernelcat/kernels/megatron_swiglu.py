"""SwiGLU activation in the layout of Megatron-LM: out = silu(first half of y) ∗ second half (arXiv:2002.05202)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

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
