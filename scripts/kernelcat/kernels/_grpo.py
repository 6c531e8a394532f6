"""What the group relative policy losses of given logits share.

An importance weight is the policy's probability over that of the policy that made the completions: by token, or by
sequence, whose weight is the geometric mean of its tokens' weights. Without log-probabilities of the latter (Liger's
suite gives none) it is the policy itself, not differentiated: all weights are 1, and only their gradients count.
"""

EPSILON = 0.2
"""How far from 1 a weight may go before it is clipped."""


def _mean(values, mask):
    """By sequence, over the tokens of `mask`."""
    return (values * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)


def reference(logits, ref_logp, completion_ids, advantages, completion_mask, beta, level):
    logits = logits[:, :-1]  # what follows the last token is not asked for
    chosen = logits.gather(-1, completion_ids.unsqueeze(-1)).squeeze(-1)
    logp, mask = chosen - logits.logsumexp(-1), completion_mask.to(logits.dtype)
    weights = logp - logp.detach()
    if level == "sequence":
        weights = _mean(weights, mask)
    weights = weights.exp()
    advantages = advantages.unsqueeze(-1)
    gains = (weights * advantages).minimum(weights.clamp(1 - EPSILON, 1 + EPSILON) * advantages)
    difference = ref_logp - logp
    return _mean(beta * (difference.exp() - difference - 1) - gains, mask).mean()


def liger(logits, ref_logp, completion_ids, advantages, completion_mask, beta, level):
    from liger_kernel.transformers.grpo_loss import triton_grpo_loss

    return lambda: triton_grpo_loss(
        logits,
        None,
        ref_logp,
        completion_ids,
        advantages,
        completion_mask,
        temperature=1.0,
        beta=beta,
        eps_low=EPSILON,
        eps_high=EPSILON,
        inplace=False,
        loss_type="grpo",
        importance_sampling_level=level,
        reduce=True,
    )[0]


def pytorch(logits, ref_logp, completion_ids, advantages, completion_mask, beta, level):
    import torch
    from torch.nn.functional import cross_entropy

    def loss():
        flat = logits[:, :-1].float().flatten(0, 1)
        logp = -cross_entropy(flat, completion_ids.flatten(), reduction="none").view_as(completion_ids)
        mask = completion_mask.float()
        ratio = logp - logp.detach()
        if level == "sequence":
            ratio = _mean(ratio, mask)
        ratio, advantage = ratio.exp(), advantages.float().unsqueeze(-1)
        clipped = ratio.clamp(1 - EPSILON, 1 + EPSILON)
        difference = ref_logp - logp
        divergence = torch.exp(difference) - difference - 1
        return _mean(beta * divergence - torch.minimum(ratio * advantage, clipped * advantage), mask).mean()

    return loss
