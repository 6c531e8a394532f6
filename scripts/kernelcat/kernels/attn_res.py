"""Attention residuals: softmax attention over the outputs of earlier blocks, token by token (arXiv:2603.15031)."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Attention residuals",
    slug="liger-attn-res",
    family="attention-residuals",
    axes=("seq", "batch", "blocks", "hidden"),
    inputs={
        "values": tensor("blocks batch seq hidden"),
        "w_query": tensor("hidden"),
        "w_norm": tensor("hidden"),
    },
    outputs={"y": tensor("batch seq hidden")},
    dialects=token_sweeps(
        "T",
        axes={"batch": "bsz", "seq": "T", "blocks": "N", "hidden": "hidden_size"},
        scalars={"eps": "eps"},
    ),
)
