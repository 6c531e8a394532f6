"""Cross entropy in the layout of Megatron-LM, [seq, batch, vocab], one loss per token."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Megatron cross entropy",
    slug="liger-megatron-cross-entropy",
    family="cross-entropy",
    axes=("vocab", "seq", "batch"),
    inputs={
        "logits": tensor("seq batch vocab"),
        "target": tensor("seq batch", "int64", below="vocab"),
    },
    outputs={"loss": tensor("seq batch", "fp32")},
    dialects=(
        Dialect(
            "V",
            axes={"seq": "S", "batch": "B", "vocab": "V"},
            dtype=None,
            assumes="bf16",
            fixed={"TP": 1},
            backward_has_forward=True,
        ),
    ),
)
