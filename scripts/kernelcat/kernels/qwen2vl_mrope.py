"""Multimodal rotary position embedding: sections of each head turn by time, height and width (arXiv:2409.12191)."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Qwen2-VL M-RoPE",
    slug="liger-qwen2vl-mrope",
    family="rope",
    axes=("seq", "hidden", "q_heads", "kv_heads"),
    derived={"head_dim": "hidden // q_heads"},
    inputs={
        "q": tensor("1 q_heads seq head_dim", physical=(0, 2, 1, 3)),
        "k": tensor("1 kv_heads seq head_dim", physical=(0, 2, 1, 3)),
        "cos": tensor("3 1 seq head_dim"),
        "sin": tensor("3 1 seq head_dim"),
    },
    outputs={"q_out": tensor("1 q_heads seq head_dim"), "k_out": tensor("1 kv_heads seq head_dim")},
    dialects=token_sweeps(
        "T",
        axes={
            "seq": "T",
            "hidden": "hidden_size",
            "q_heads": "num_attention_heads",
            "kv_heads": "num_key_value_heads",
        },
    ),
)
