"""Rotary position embedding of queries and keys: the halves of each head, as pairs, turned by position · 10000^(-2i/d)
(arXiv:2104.09864, in the half-split layout of Llama)."""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import HUGGINGFACE, LIGER


def _angles(like):
    """cos and sin, [1, seq, head_dim], for `like`, [1, heads, seq, head_dim]: computed in fp32 and rounded to its
    dtype, as models hand them to the kernels."""
    import torch

    seq, head_dim = like.shape[-2:]
    steps = torch.arange(0, head_dim, 2, device=like.device, dtype=torch.float32)
    positions = torch.arange(seq, device=like.device, dtype=torch.float32)
    angles = torch.outer(positions, 10000.0 ** (-steps / head_dim)).repeat(1, 2).unsqueeze(0)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def reference(q, k):
    import torch

    def rotate(x):
        cos, sin = _angles(x)
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    return rotate(q), rotate(k)


def liger(q, k):
    from liger_kernel.transformers.rope import liger_rotary_pos_emb

    cos, sin = _angles(q)
    return lambda: liger_rotary_pos_emb(q, k, cos, sin)


def huggingface(q, k):
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    cos, sin = _angles(q)
    return lambda: apply_rotary_pos_emb(q, k, cos, sin)


KERNEL = Kernel(
    title="RoPE",
    slug="liger-rope",
    family="rope",
    axes=("seq", "hidden", "q_heads", "kv_heads"),
    derived={"head_dim": "hidden // q_heads"},
    operation_axes=("seq", "q_heads", "kv_heads"),
    # Attention computes [batch, seq, heads, head_dim] and transposes it: in memory the sequence comes before the heads.
    inputs={
        "q": tensor("1 q_heads seq head_dim", physical=(0, 2, 1, 3)),
        "k": tensor("1 kv_heads seq head_dim", physical=(0, 2, 1, 3)),
    },
    outputs={"q_out": tensor("1 q_heads seq head_dim"), "k_out": tensor("1 kv_heads seq head_dim")},
    flops="3 * seq * (q_heads + kv_heads) * (hidden // q_heads)",
    # A rotation's gradient is a rotation of the upstream gradient: q and k are not needed for it.
    moves={"backward": "2 * size * seq * (q_heads + kv_heads) * head_dim"},
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.rope:liger_rotary_pos_emb"),
        "huggingface": Provider(
            huggingface, HUGGINGFACE, "transformers.models.llama.modeling_llama:apply_rotary_pos_emb"
        ),
        "torch_compile": torch_compile(huggingface, "transformers.models.llama.modeling_llama:apply_rotary_pos_emb"),
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
