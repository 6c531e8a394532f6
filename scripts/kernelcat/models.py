"""The models by whose names Liger's suite sweeps: the sizes that its scripts take from its registry
(linkedin/Liger-Kernel, benchmark/scripts/benchmark_model_configs.py, at ead96b6). All are bf16."""

_KEYS = ("hidden_size", "intermediate_size", "vocab_size", "num_attention_heads", "num_key_value_heads")

_SIZES = {
    "llama_2_7b": (4096, 11008, 32000, 32, 32),
    "llama_3_8b": (4096, 14336, 128256, 32, 8),
    "qwen2.5_7b": (3584, 18944, 152064, 28, 4),
    "qwen2.5_14b": (5120, 13824, 152064, 40, 8),
    "qwen2.5_72b": (8192, 29568, 152064, 64, 8),
    "deepseek_v2_lite": (2048, 10944, 102400, 16, 16),
    "deepseek_v3": (7168, 18432, 129280, 128, 128),
}

MODELS = {name: dict(zip(_KEYS, sizes, strict=True)) | {"dtype": "torch.bfloat16"} for name, sizes in _SIZES.items()}
"""Each model's values under the keys that a config has in sweeps over token counts."""
