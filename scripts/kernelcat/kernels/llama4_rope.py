"""Rotary position embedding of queries and keys with neighbours as pairs, as in Llama 4 (arXiv:2104.09864)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Llama 4 RoPE",
    slug="liger-llama4-rope",
    family="rope",
    axes=("seq", "hidden", "q_heads", "kv_heads"),
    derived={"head_dim": "hidden // q_heads"},
    operation_axes=("seq", "q_heads", "kv_heads"),
    inputs={
        "q": tensor("1 seq q_heads head_dim"),
        "k": tensor("1 seq kv_heads head_dim"),
    },
    outputs={"q_out": tensor("1 seq q_heads head_dim"), "k_out": tensor("1 seq kv_heads head_dim")},
    dialects=(
        Dialect("H", axes={"seq": "seq_len", "hidden": "H", "q_heads": "num_q_heads", "kv_heads": "num_kv_heads"}),
        Dialect("T", axes={"seq": "T", "hidden": "hidden_size", "q_heads": "num_q_heads", "kv_heads": "num_kv_heads"}),
        *token_sweeps(
            "T",
            axes={
                "seq": "T",
                "hidden": "hidden_size",
                "q_heads": "num_attention_heads",
                "kv_heads": "num_key_value_heads",
            },
        ),
    ),
)
