"""Multi-token attention with sparsemax in the place of softmax (arXiv:2504.00927, arXiv:1602.02068)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels import _multi_token_attention as mta
from kernelcat.kernels._sparsemax import by_sorting, projection
from kernelcat.libraries import LIGER, TORCH


def reference(scores, weight, bias):
    return mta.attend(projection, scores, weight, bias)


def _convolve_in_fp32():
    # Liger takes fp32 scores only, and torch's convolutions of fp32 tensors are TF32 otherwise: three digits.
    import torch

    torch.backends.cudnn.allow_tf32 = False


def liger(scores, weight, bias):
    _convolve_in_fp32()
    return mta.liger(scores, weight, bias, sparse=True)


def pytorch(scores, weight, bias):
    _convolve_in_fp32()
    return lambda: mta.attend(by_sorting, scores, weight, bias)


LIGER_SYMBOL = "liger_kernel.transformers.multi_token_attention:LigerMultiTokenAttention"

KERNEL = Kernel(
    title="Sparse multi-token attention",
    slug="liger-sparse-multi-token-attention",
    family="multi-token-attention",
    axes=("seq", "batch", "heads_in", "heads_out", "k"),
    inputs={
        "scores": tensor("batch heads_in seq seq"),
        "weight": tensor("heads_out heads_in k k", make=mta.kernel_scale),
        "bias": tensor("heads_out"),
    },
    outputs={"y": tensor("batch heads_out seq seq")},
    flops=mta.FLOPS,
    moves=mta.MOVES,
    expression="y = lower(conv2d(sparsemax(causal(scores)), weight) + bias)",
    reference=reference,
    kinks=True,  # where an element equals tau
    providers={
        "liger": Provider(liger, LIGER, LIGER_SYMBOL, interface="sparse=True, cudnn.allow_tf32=False"),
        "torch": Provider(
            pytorch,
            TORCH,
            "torch.nn.functional:conv2d",
            interface="on masked sparsemax by torch.sort, cudnn.allow_tf32=False",
        ),
        "torch_compile": torch_compile(pytorch, "torch.nn.functional:conv2d"),
    },
    dialects=(
        Dialect(
            "L",
            axes={"batch": "B", "heads_in": "C_in", "heads_out": "C_out", "seq": "L", "k": "K"},
            fixed={"groups": 1, "bias": True},
        ),
        Dialect(
            "model_config",
            axes={"batch": "B", "heads_in": "C_in", "heads_out": "C_out", "seq": "L", "k": "K"},
            fixed={"groups": 1, "bias": True},
            x_is_label=True,  # the same shape for every model
        ),
    ),
)
