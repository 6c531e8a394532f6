"""Rotary position embedding of queries and keys with neighbours as pairs, as in Llama 4 (arXiv:2104.09864)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import HUGGINGFACE, LIGER


def _turns(like):
    """The rotation of each position and pair as a complex number, [1, seq, head_dim / 2], for `like`, [1, seq, heads,
    head_dim]: always of fp32, as the model hands it to the kernels."""
    import torch

    seq, head_dim = like.shape[1], like.shape[-1]
    steps = torch.arange(0, head_dim, 2, device=like.device, dtype=torch.float32)
    positions = torch.arange(seq, device=like.device, dtype=torch.float32)
    angles = torch.outer(positions, 500000.0 ** (-steps / head_dim)).unsqueeze(0)
    return torch.polar(torch.ones_like(angles), angles)


def reference(q, k):
    import torch

    def rotate(x):
        turns = _turns(x).unsqueeze(2)
        cos, sin = turns.real.to(x.dtype), turns.imag.to(x.dtype)
        first, second = x[..., 0::2], x[..., 1::2]
        return torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-1).flatten(-2)

    return rotate(q), rotate(k)


def liger(q, k):
    from liger_kernel.transformers.llama4_rope import liger_llama4_text_rotary_pos_emb

    turns = _turns(q)
    return lambda: liger_llama4_text_rotary_pos_emb(q, k, turns)


def huggingface(q, k):
    from transformers.models.llama4.modeling_llama4 import apply_rotary_emb

    turns = _turns(q)
    return lambda: apply_rotary_emb(q, k, turns)


# A rotation's gradient is a rotation of the upstream gradient: q and k are not needed for it.
HEADS = "2 * size * seq * (q_heads + kv_heads) * head_dim"

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
    flops="3 * seq * (q_heads + kv_heads) * head_dim",
    moves={"backward": HEADS},
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.llama4_rope:liger_llama4_text_rotary_pos_emb"),
        "huggingface": Provider(
            huggingface, HUGGINGFACE, "transformers.models.llama4.modeling_llama4:apply_rotary_emb"
        ),
        "torch_compile": torch_compile(huggingface, "transformers.models.llama4.modeling_llama4:apply_rotary_emb"),
    },
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
