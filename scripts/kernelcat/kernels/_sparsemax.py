"""Sparsemax in plain torch, for the kernels that contain it."""


def projection(x):
    """Each row's projection onto the probability simplex, max(x - tau, 0) with the tau that makes its sum 1.

    What lies above tau is found by leaving out, again and again, what does not (Michelot, J. Optim. Theory Appl. 50,
    1986): exact after as many steps as change anything, in any dtype, and without the sort that providers use.
    """
    import torch

    with torch.no_grad():
        support = torch.ones_like(x, dtype=torch.bool)
        while True:
            tau = (x.where(support, 0).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
            smaller = support & (x > tau)
            if torch.equal(smaller, support):
                break
            support = smaller
    tau = (x.where(support, 0).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    return (x - tau).where(support, 0)


def by_sorting(x):
    """Sparsemax as its paper computes it (arXiv:1602.02068, algorithm 1), in fp32 as softmax layers compute: the sums
    of thousands of bf16 numbers would move tau."""
    import torch

    values = x.float()
    descending = values.sort(-1, descending=True).values
    excess = descending.cumsum(-1) - 1
    count = torch.arange(1, x.shape[-1] + 1, device=x.device)
    size = (count * descending > excess).sum(-1, keepdim=True)
    tau = excess.gather(-1, size - 1) / size
    return (values - tau).relu().to(x.dtype)  # relu, unlike clamp, has no gradient at 0
