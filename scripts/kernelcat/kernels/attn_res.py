"""Attention residuals: softmax attention over the outputs of earlier blocks, token by token (arXiv:2603.15031).

Block n's score is w_query · (rmsnorm(values_n) ∗ w_norm); y is the sum of the values by the softmax of their scores.
"""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH


def reference(values, w_query, w_norm, eps):
    import torch

    scale = torch.rsqrt(values.square().mean(-1) + eps)
    scores = (values @ (w_query * w_norm)) * scale
    return (scores.softmax(0).unsqueeze(-1) * values).sum(0)


def liger(values, w_query, w_norm, eps):
    from liger_kernel.transformers.functional import liger_attn_res

    return lambda: liger_attn_res(values, w_query, w_norm, eps)


def attend(values, w_query, w_norm, eps):
    import torch

    keys = torch.nn.functional.rms_norm(values, w_norm.shape, w_norm, eps)
    scores = torch.einsum("nbtd,d->nbt", keys.float(), w_query.float())
    return torch.einsum("nbt,nbtd->btd", scores.softmax(0), values.float()).to(values.dtype)


def pytorch(values, w_query, w_norm, eps):
    return lambda: attend(values, w_query, w_norm, eps)


KERNEL = Kernel(
    title="Attention residuals",
    slug="liger-attn-res",
    family="attention-residuals",
    axes=("seq", "batch", "blocks", "hidden"),
    inputs={
        "values": tensor("blocks batch seq hidden"),
        "w_query": tensor("hidden", fan_in="hidden"),
        "w_norm": tensor("hidden"),
    },
    outputs={"y": tensor("batch seq hidden")},
    scalars={"eps": 1e-6},
    flops="6 * blocks * batch * seq * hidden",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, "liger_kernel.transformers.functional:liger_attn_res"),
        "pytorch": Provider(pytorch, TORCH, "torch:einsum", interface="on torch.nn.functional.rms_norm, in fp32"),
        "torch_compile": torch_compile(pytorch, "torch:einsum"),
    },
    dialects=token_sweeps(
        "T",
        axes={"batch": "bsz", "seq": "T", "blocks": "N", "hidden": "hidden_size"},
        scalars={"eps": "eps"},
    ),
)
