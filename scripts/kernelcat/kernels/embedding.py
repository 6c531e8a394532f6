"""Embedding: the rows of a table that ids choose."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Embedding",
    slug="liger-embedding",
    family="embedding",
    axes=("vocab", "batch", "seq", "hidden"),
    inputs={
        "input_ids": tensor("batch seq", "int64", below="vocab"),
        "weight": tensor("vocab hidden", fan_in="hidden"),
    },
    outputs={"y": tensor("batch seq hidden")},
    dialects=(
        Dialect("V", axes={"vocab": "V", "batch": "B", "seq": "T", "hidden": "D"}),
        *token_sweeps("BT", axes={"batch": "BT // T", "seq": "T", "hidden": "hidden_size", "vocab": "vocab_size"}),
    ),
)
