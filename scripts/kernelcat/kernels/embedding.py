"""Embedding: the rows of a table that ids choose."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(input_ids, weight):
    return weight[input_ids]


def _layer(layer_class, input_ids, weight):
    import torch

    with torch.device("meta"):
        layer = layer_class(*weight.shape)
    layer.weight = weight
    return lambda: layer(input_ids)


def liger(input_ids, weight):
    from liger_kernel.transformers.experimental.embedding import LigerEmbedding

    return _layer(LigerEmbedding, input_ids, weight)


def pytorch(input_ids, weight):
    import torch

    return _layer(torch.nn.Embedding, input_ids, weight)


# Of n ids below v at least n · v / (n + v) are different ones on the average, as 1 - exp(-x) ≥ x / (1 + x).
ROWS = "hidden * (batch * seq * vocab // (batch * seq + vocab))"
FORWARD = f"8 * batch * seq + size * ({ROWS} + batch * seq * hidden)"

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
    # The table's gradient is as large as the table, whatever rows are chosen; its values are not needed for it.
    moves={
        "forward": FORWARD,
        "backward": "8 * batch * seq + size * hidden * (batch * seq + vocab)",
        "full": f"{FORWARD} + size * hidden * (batch * seq + vocab)",
        "no-grad-forward": FORWARD,
    },
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.experimental.embedding:LigerEmbedding"),
        "torch": Provider(pytorch, TORCH, "torch.nn:Embedding"),
        "torch_compile": torch_compile(pytorch, "torch.nn:Embedding"),
    },
    dialects=(
        Dialect("V", axes={"vocab": "V", "batch": "B", "seq": "T", "hidden": "D"}),
        *token_sweeps("BT", axes={"batch": "BT // T", "seq": "T", "hidden": "hidden_size", "vocab": "vocab_size"}),
    ),
)
