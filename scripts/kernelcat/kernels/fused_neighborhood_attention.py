"""Neighborhood attention with its projections: each token attends to the nearest ones (arXiv:2204.07143)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

AXES = {
    "batch": "batch_size",
    "seq": "seq_len",
    "hidden": "hidden_size",
    "heads": "num_heads",
    "kernel_size": "kernel_size",
    "dilation": "dilation",
}

KERNEL = Kernel(
    title="Fused neighborhood attention",
    slug="liger-fused-neighborhood-attention",
    family="neighborhood-attention",
    axes=("seq", "batch", "hidden", "heads", "kernel_size", "dilation"),
    derived={"head_dim": "hidden // heads"},
    operation_axes=("batch", "seq", "hidden"),
    inputs={
        "hidden_states": tensor("batch seq hidden"),
        "q_weight": tensor("hidden hidden", fan_in="hidden"),
        "k_weight": tensor("hidden hidden", fan_in="hidden"),
        "v_weight": tensor("hidden hidden", fan_in="hidden"),
        "out_weight": tensor("hidden hidden", fan_in="hidden"),
        "q_bias": tensor("hidden"),
        "k_bias": tensor("hidden"),
        "v_bias": tensor("hidden"),
        "out_bias": tensor("hidden"),
    },
    outputs={"y": tensor("batch seq hidden")},
    dialects=(
        Dialect("seq_len", axes=AXES, fixed={"bias": True}),
        # what is run is the configuration that "name" names, whatever x_value says
        Dialect("model_config", axes=AXES, fixed={"bias": True}, ignored=("name",), x_is_label=True),
    ),
)
