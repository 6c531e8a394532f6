"""Multi-token attention: causal softmax and a convolution over queries, keys and heads (arXiv:2504.00927)."""

from functools import partial

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels import _multi_token_attention as mta
from kernelcat.libraries import LIGER, TORCH


def reference(scores, weight, bias):
    import torch

    return mta.attend(partial(torch.softmax, dim=-1), scores, weight, bias)


def liger(scores, weight, bias):
    return mta.liger(scores, weight, bias, sparse=False)


def pytorch(scores, weight, bias):
    import torch

    activation = torch.nn.Softmax(dim=-1)
    return lambda: mta.attend(activation, scores, weight, bias)


KERNEL = Kernel(
    title="Multi-token attention",
    slug="liger-multi-token-attention",
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
    expression="y = lower(conv2d(softmax(causal(scores)), weight) + bias)",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.multi_token_attention:LigerMultiTokenAttention"),
        "torch": Provider(pytorch, TORCH, "torch.nn.functional:conv2d", interface="on masked torch.nn.Softmax"),
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
            models=True,
            model_keys=("dtype",),
        ),
    ),
)
