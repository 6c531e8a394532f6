"""How Liger's published data writes what no document keeps: the label of x, the order of a config's keys, and the
values of keys that change nothing, or only their product. Read off that data, not off the scripts: rows of another file
may have held other values there, and are written with these. Imported again, they give the same documents."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Spelling:
    """`label` is the x_label, `keys` are those of the config in their order, `values` what some of them always hold."""

    label: str
    keys: tuple[str, ...]
    values: dict[str, object] = field(default_factory=dict)


def _spelling(label: str, keys: str, **values: object) -> Spelling:
    return Spelling(label, tuple(keys.split()), values)


_FORWARD = {"mode": "forward"}
_ATTENTION = _spelling("sequence length", "B C_in C_out K groups bias dtype")
_DISTILL = _spelling("B x T", "H V mode dtype bias weight_hard_loss weight_soft_loss ignore_index", **_FORWARD)
_GRPO = _spelling("B", "T H V importance_sampling_level dtype", H=4096)
_PREFERENCE = _spelling("B", "T H V mode dtype", **_FORWARD)
_TILED = _spelling("sequence length", "bsz hidden_size intermediate_size hidden_act activation_type num_shards dtype")

SPELLINGS = {
    ("cross_entropy", "V"): _spelling("vocab size", "B T", B=8),
    ("distill_cosine_loss", "BT"): _DISTILL,
    ("distill_jsd_loss", "BT"): _DISTILL,
    ("embedding", "V"): _spelling("embedding dimension", "B T D dtype"),
    ("fused_add_rms_norm", "H"): _spelling("hidden size", "M dtype eps"),
    ("fused_linear_cpo_loss", "B"): _PREFERENCE,
    ("fused_linear_cross_entropy", "BT"): _spelling("B x T", "H V mode dtype", **_FORWARD),
    ("fused_linear_grpo_loss_sequence", "B"): _GRPO,
    ("fused_linear_grpo_loss_token", "B"): _GRPO,
    ("fused_linear_jsd", "BT"): _spelling("B x T", "H V mode dtype", **_FORWARD),
    ("fused_linear_orpo_loss", "B"): _PREFERENCE,
    ("fused_linear_simpo_loss", "B"): _PREFERENCE,
    ("fused_moe", "E"): _spelling("num_experts", "sweep_dim T E H intermediate_dim K dtype"),
    ("fused_moe", "T"): _spelling("num_tokens", "sweep_dim T E H intermediate_dim K dtype"),
    ("fused_neighborhood_attention", "seq_len"): _spelling(
        "sequence length", "batch_size hidden_size num_heads kernel_size dilation bias dtype"
    ),
    ("geglu", "T"): _spelling("sequence length", "bsz hidden_size intermediate_size hidden_act dtype"),
    ("group_norm", "C"): _spelling("num_channels", "M H channels_per_group dtype eps"),
    ("jsd", "BT"): _spelling("total tokens", "vocab_size bsz seq_len", bsz=1, seq_len=8192),
    ("jsd", "V"): _spelling("vocab size", "B T", B=4),
    ("kl_div", "V"): _spelling("vocab size", "B T", B=8),
    ("kto_loss", "B"): _spelling("Batch Size (B)", "T H V mode dtype bias beta ignore_index", **_FORWARD),
    ("layer_norm", "N"): _spelling("hidden size", "M dtype eps"),
    ("llama4_rope", "H"): _spelling("hidden size", "dtype seq_len num_q_heads num_kv_heads"),
    ("llama4_rope", "T"): _spelling("sequence length", "dtype hidden_size num_q_heads num_kv_heads"),
    ("megatron_cross_entropy", "V"): _spelling("vocab size", "S B TP"),
    ("megatron_rms_norm", "H"): _spelling("hidden size", "S B"),
    ("megatron_swiglu", "ffn_local"): _spelling("per-rank FFN hidden size", "S B"),
    ("multi_token_attention", "L"): _ATTENTION,
    ("relu_squared", "N"): _spelling("hidden size", "M dtype"),
    ("rms_norm", "H"): _spelling("hidden size", "M dtype eps"),
    ("rope", "H"): _spelling("hidden size", "dtype seq_len num_q_heads num_kv_heads"),
    ("rope", "T"): _spelling("sequence length", "dtype hidden_size num_q_heads num_kv_heads"),
    ("softmax", "N"): _spelling("hidden size", "M dtype"),
    ("sparse_multi_token_attention", "L"): _ATTENTION,
    ("sparsemax", "V"): _spelling("feature size", "B T dim dtype", B=4),
    ("swiglu", "T"): _spelling("sequence length", "B hidden_size dtype intermediate_size hidden_act"),
    ("tiled_geglu", "T"): _TILED,
    ("tiled_swiglu", "T"): _TILED,
    ("tvd", "V"): _spelling("vocab size", "B T", B=8),
}
"""By kernel_name and x_name. Where a sweep is not listed, the label is x itself and the keys are sorted."""
