"""A small Llama-like language model whose layers have manifold-constrained hyper-connections (arXiv:2512.24880)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

AXES = {
    "seq": "T",
    "batch": "B",
    "hidden": "hidden_size",
    "streams": "HC",
    "layers": "layers",
    "heads": "heads",
    "vocab": "vocab",
    "intermediate_mult": "intermediate_mult",
}
SCALARS = {"tmax": "tmax", "rms_eps": 1e-6, "pre_eps": 1e-4, "sinkhorn_eps": 1e-6, "post_mult": 2.0}

KERNEL = Kernel(
    title="mHC language model",
    slug="liger-mhc-llama-like-lm",
    family="mhc",
    axes=tuple(AXES),
    derived={
        "head_dim": "hidden // heads",
        "intermediate": "hidden * intermediate_mult",
        "stream_hidden": "streams * hidden",
        "coefficients": "streams * streams + 2 * streams",
    },
    # the weights of all layers stand in one tensor each; a layer has hyper-connections around attention and the MLP
    inputs={
        "input_ids": tensor("batch seq", "int64", below="vocab"),
        "embedding": tensor("vocab stream_hidden"),
        "attention_norm": tensor("layers hidden"),
        "q_weight": tensor("layers hidden hidden", fan_in="hidden"),
        "k_weight": tensor("layers hidden hidden", fan_in="hidden"),
        "v_weight": tensor("layers hidden hidden", fan_in="hidden"),
        "out_weight": tensor("layers hidden hidden", fan_in="hidden"),
        "mlp_norm": tensor("layers hidden"),
        "w_gate": tensor("layers intermediate hidden", fan_in="hidden"),
        "w_up": tensor("layers intermediate hidden", fan_in="hidden"),
        "w_down": tensor("layers hidden intermediate", fan_in="intermediate"),
        "phi": tensor("layers 2 stream_hidden coefficients", fan_in="stream_hidden"),
        "b": tensor("layers 2 coefficients", "fp32"),
        "alpha_pre": tensor("layers 2", "fp32"),
        "alpha_post": tensor("layers 2", "fp32"),
        "alpha_res": tensor("layers 2", "fp32"),
        "final_norm": tensor("hidden"),
        "head_weight": tensor("vocab hidden", fan_in="hidden"),
    },
    outputs={"logits": tensor("batch seq vocab")},
    dialects=(
        Dialect("T", axes=AXES, scalars=SCALARS),
        Dialect("model_config", axes=AXES, scalars=SCALARS, models=True, model_keys=("hidden_size", "dtype")),
    ),
)
