"""GEGLU MLP whose sequence is computed in shards (arXiv:2002.05202)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="Tiled GEGLU",
    slug="liger-tiled-geglu",
    family="geglu",
    axes=("seq", "batch", "hidden", "intermediate"),
    inputs={
        "x": tensor("batch seq hidden"),
        "w_gate": tensor("intermediate hidden", fan_in="hidden"),
        "w_up": tensor("intermediate hidden", fan_in="hidden"),
        "w_down": tensor("hidden intermediate", fan_in="intermediate"),
    },
    outputs={"y": tensor("batch seq hidden")},
    dialects=(
        Dialect(
            "T",
            axes={"batch": "bsz", "seq": "T", "hidden": "hidden_size", "intermediate": "intermediate_size"},
            fixed={"hidden_act": "gelu_pytorch_tanh", "activation_type": "geglu", "num_shards": 4},
        ),
        Dialect(
            "model_config",
            axes={"batch": "bsz", "seq": "seq_len", "hidden": "hidden_size", "intermediate": "intermediate_size"},
            fixed={"hidden_act": "gelu_pytorch_tanh", "activation_type": "geglu", "num_shards": 4},
            models=True,
            model_keys=("hidden_size", "intermediate_size", "hidden_act", "dtype"),
        ),
    ),
)
