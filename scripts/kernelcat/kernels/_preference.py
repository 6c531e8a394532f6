"""What the losses on preferred and rejected completions share: padding, and the log-probabilities of completions.

In a batch of pairs the preferred completions come first, in the same order as the rejected ones.
"""

PADDING = 42
"""The target that Liger's suite ignores in the losses that it pads (`ignore_index` in its rows)."""


def padded(target):
    """The last quarter of each completion as padding."""
    length = target.shape[1]
    target[:, length - length // 4 :] = PADDING
    return target


def reference_log_probabilities(x, weight, target, bias=None, ignored=None):
    """By completion and token, 0 where the target is `ignored`."""
    logits = x @ weight.T if bias is None else x @ weight.T + bias
    kept = target != ignored if ignored is not None else target >= 0
    chosen = logits.gather(-1, (target * kept).unsqueeze(-1)).squeeze(-1)
    return (chosen - logits.logsumexp(-1)) * kept


def log_probabilities(x, weight, target, bias=None, ignored=-100):
    """The same, as the torch providers compute them: with PyTorch's losses, on logits in fp32."""
    from torch.nn.functional import cross_entropy, linear

    logits = linear(x, weight, bias).float()
    loss = cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=ignored, reduction="none")
    return -loss.view_as(target)
