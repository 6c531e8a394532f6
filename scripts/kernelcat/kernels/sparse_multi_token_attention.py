"""Multi-token attention with sparsemax in the place of softmax (arXiv:2504.00927, arXiv:1602.02068)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Sparse multi-token attention",
    slug="liger-sparse-multi-token-attention",
    family="multi-token-attention",
    axes=("seq", "batch", "heads_in", "heads_out", "k"),
    inputs={
        "scores": tensor("batch heads_in seq seq"),
        "weight": tensor("heads_out heads_in k k", fan_in="hidden"),
        "bias": tensor("heads_out"),
    },
    outputs={"y": tensor("batch heads_out seq seq")},
    dialects=(
        Dialect(
            "L",
            axes={"batch": "B", "heads_in": "C_in", "heads_out": "C_out", "seq": "L", "k": "K"},
            fixed={"groups": 1, "bias": True},
        ),
        Dialect(
            "model_config",
            axes={"batch": "B", "heads_in": "C_in", "heads_out": "C_out", "seq": "L", "k": "K"},
            fixed={"groups": 1, "bias": True},
            x_is_label=True,  # the same shape for every model
        ),
    ),
)
