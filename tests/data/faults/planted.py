"""y = 2x by providers that each do one thing wrong on a GPU, and one that does not."""

import os

import torch
import triton
import triton.language as tl

from kernelcat.kernel import Kernel, Provider, tensor


@triton.jit
def uncompilable_kernel(x, y):
    tl.store(y, tl.load(x) + undefined_name)  # noqa: F821


@triton.jit
def stray_kernel(y):
    tl.store(y + (1 << 50), 0.0)


def wrong(x):
    return x * 2.05


def transposed(x):
    return (x + x).T


def single_precision(x):
    return x.float() * 2


def uncompilable(x):
    y = torch.empty_like(x)
    uncompilable_kernel[(1,)](x, y)
    return y


def stray(x):
    y = x + x
    stray_kernel[(1,)](y)
    return y


def quadratic(x):
    """Needs rows² elements, as plain attention does."""
    return x + x + 0 * (x @ x.T)[:, :1]


def endless(x):
    torch.cuda._sleep(10**12)  # some minutes
    return x + x


def killed(x):
    os.kill(os.getpid(), 9)


def provider(compute):
    return Provider(lambda x: lambda: compute(x))


KERNEL = Kernel(
    title="Double, with planted faults",
    slug="planted",
    family="planted",
    axes=("rows", "hidden"),
    inputs={"x": tensor("rows hidden")},
    outputs={"y": tensor("rows hidden")},
    reference=lambda x: 2 * x,
    providers={
        "torch": provider(lambda x: x + x),
        **{
            compute.__name__: provider(compute)
            for compute in (wrong, transposed, single_precision, uncompilable, stray, quadratic, endless, killed)
        },
    },
)
