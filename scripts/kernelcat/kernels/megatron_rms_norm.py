"""RMSNorm in the layout of Megatron-LM, [seq, batch, hidden] (arXiv:1910.07467)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Megatron RMSNorm",
    slug="liger-megatron-rms-norm",
    family="rmsnorm",
    axes=("hidden", "seq", "batch"),
    scalars={"eps": 1e-6},
    inputs={
        "x": tensor("seq batch hidden"),
        "weight": tensor("hidden"),
    },
    outputs={"y": tensor("seq batch hidden")},
    dialects=(
        Dialect(
            "H",
            axes={"seq": "S", "batch": "B", "hidden": "H"},
            dtype=None,
            assumes="bf16",
            scalars={"eps": 1e-6},
            backward_has_forward=True,
        ),
    ),
)
