"""Multi-token attention in plain torch, with either activation."""

SCORES = "batch * heads_in * seq * (seq + 1) // 2"
"""How many scores count: no later key changes a query's output."""

FLOPS = f"batch * heads_out * heads_in * k * k * seq * (seq + 1) + 5 * {SCORES}"
"""The convolution's outputs from the diagonal downwards, and the activation of the scores there."""

_FORWARD = f"size * ({SCORES} + batch * heads_out * seq * seq + heads_out * (heads_in * k * k + 1))"
_LOWER = "batch * (heads_in + heads_out) * seq * (seq + 1) // 2"  # of the scores and the upstream gradient

MOVES = {
    "forward": _FORWARD,
    "backward": f"size * ({_LOWER} + batch * heads_in * seq * seq + heads_out * (2 * heads_in * k * k + 1))",
    "full": f"size * ({_LOWER} + batch * (heads_in + heads_out) * seq * seq + 2 * heads_out * (heads_in * k * k + 1))",
    "no-grad-forward": _FORWARD,
}
"""Scores and upstream gradients above the diagonal need not be read; the zeros there are written."""


def kernel_scale(weight):
    """The values of a convolution's weight at the scale that its layers begin with."""
    return weight / weight[0].numel() ** 0.5


def attend(activation, scores, weight, bias):
    """The convolution of the activated scores over queries, keys and heads; masked, causally, before and after.

    `scores` are [batch, heads, queries, keys].
    """
    import torch

    seq = scores.shape[-1]
    later = torch.ones(seq, seq, dtype=torch.bool, device=scores.device).triu(1)
    # Finite, so that an activation may multiply it; no score of a model comes near.
    weights = activation(scores.masked_fill(later, -1e9))
    mixed = torch.nn.functional.conv2d(weights, weight, bias, padding=weight.shape[-1] // 2)
    return mixed.masked_fill(later, 0)


def liger(scores, weight, bias, sparse):
    from liger_kernel.transformers.multi_token_attention import LigerMultiTokenAttention

    heads_out, heads_in, k, _ = weight.shape
    layer = LigerMultiTokenAttention(heads_in, heads_out, k, padding=k // 2, sparse=sparse)
    layer.weight, layer.bias = weight, bias
    return lambda: layer(scores)
