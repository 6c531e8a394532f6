"""Multimodal rotary position embedding: sections of each head turn by time, height and width (arXiv:2409.12191)."""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import HUGGINGFACE, LIGER


def _sections(head_dim):
    """How many of a head's pairs turn by time, by height and by width: Qwen2-VL's 16, 24 and 24, in proportion."""
    side = head_dim * 3 // 16
    return [head_dim // 2 - 2 * side, side, side]


def _angles(like):
    """Angles in the place of `like`, [3, 1, seq, head_dim], by positions that differ between time, height and width."""
    import torch

    seq, head_dim = like.shape[2:]
    steps = torch.arange(0, head_dim, 2, device=like.device, dtype=torch.float32)
    positions = torch.arange(3 * seq, device=like.device, dtype=torch.float32).view(3, 1, seq, 1)
    return (positions * 1000000.0 ** (-steps / head_dim)).repeat(1, 1, 1, 2)


def reference(q, k, cos, sin):
    import torch

    sections = _sections(q.shape[-1])

    def chosen(values):
        parts = [part[axis] for axis, part in enumerate(values[..., : values.shape[-1] // 2].split(sections, dim=-1))]
        return torch.cat(parts, dim=-1).unsqueeze(1)

    cos, sin = chosen(cos), chosen(sin)

    def rotate(x):
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    return rotate(q), rotate(k)


def liger(q, k, cos, sin):
    from liger_kernel.transformers.qwen2vl_mrope import liger_multimodal_rotary_pos_emb

    sections = _sections(q.shape[-1])
    return lambda: liger_multimodal_rotary_pos_emb(q, k, cos, sin, sections)


def huggingface(q, k, cos, sin):
    import torch
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLTextConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLRotaryEmbedding, apply_rotary_pos_emb

    heads, head_dim = q.shape[1], q.shape[-1]
    rope = {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": _sections(head_dim)}
    with torch.device("meta"):
        config = Qwen2VLTextConfig(hidden_size=heads * head_dim, num_attention_heads=heads, rope_parameters=rope)
        choose = Qwen2VLRotaryEmbedding(config).recomposition_frequencies

    def call():
        halves = (values[..., : head_dim // 2] for values in (cos, sin))
        return apply_rotary_pos_emb(q, k, *map(choose, halves))

    return call


# transformers 5 chooses the sections of cos and sin once for all layers, before this function; the operation chooses.
HUGGINGFACE_SYMBOL = "transformers.models.qwen2_vl.modeling_qwen2_vl:apply_rotary_pos_emb"

# Of cos and sin one section each is needed, and of its two equal halves one. A rotation's
# gradient is a rotation of the upstream gradient: q and k are not needed for it.
HEADS = "seq * (q_heads + kv_heads) * head_dim"
MOVES = {
    "forward": f"size * (2 * {HEADS} + seq * head_dim)",
    "backward": f"size * (2 * {HEADS} + seq * head_dim)",
    "full": f"size * (4 * {HEADS} + seq * head_dim)",
    "no-grad-forward": f"size * (2 * {HEADS} + seq * head_dim)",
}

KERNEL = Kernel(
    title="Qwen2-VL M-RoPE",
    slug="liger-qwen2vl-mrope",
    family="rope",
    axes=("seq", "hidden", "q_heads", "kv_heads"),
    derived={"head_dim": "hidden // q_heads"},
    inputs={
        "q": tensor("1 q_heads seq head_dim", physical=(0, 2, 1, 3)),
        "k": tensor("1 kv_heads seq head_dim", physical=(0, 2, 1, 3)),
        "cos": tensor("3 1 seq head_dim", gradient=False, make=lambda values: _angles(values).cos().to(values.dtype)),
        "sin": tensor("3 1 seq head_dim", gradient=False, make=lambda values: _angles(values).sin().to(values.dtype)),
    },
    outputs={"q_out": tensor("1 q_heads seq head_dim"), "k_out": tensor("1 kv_heads seq head_dim")},
    flops="3 * seq * (q_heads + kv_heads) * head_dim",
    moves=MOVES,
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.qwen2vl_mrope:liger_multimodal_rotary_pos_emb"),
        "huggingface": Provider(
            huggingface, HUGGINGFACE, HUGGINGFACE_SYMBOL, interface="after recomposition_frequencies"
        ),
        "torch_compile": torch_compile(huggingface, HUGGINGFACE_SYMBOL),
    },
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
