"""Linear layer and odds-ratio preference loss in one (arXiv:2403.07691): beta times the mean over pairs of completions
of -log σ(log odds(chosen) - log odds(rejected)), plus the cross entropy of the chosen ones. odds = P / (1 - P), where P
is the geometric mean of the probabilities of a completion's tokens.
"""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels._preference import log_probabilities, reference_log_probabilities
from kernelcat.libraries import LIGER, TORCH

BETA = 0.1


def reference(x, weight, target):
    tokens = reference_log_probabilities(x, weight, target)
    chosen, rejected = tokens.mean(-1).chunk(2)
    odds = chosen - rejected - (1 - chosen.exp()).log() + (1 - rejected.exp()).log()
    return BETA * (-odds).exp().log1p().mean() - tokens.chunk(2)[0].mean()


def liger(x, weight, target):
    from liger_kernel.chunked_loss import LigerFusedLinearORPOLoss

    # compiled: as for torch_compile, on GPUs only
    loss = LigerFusedLinearORPOLoss(beta=BETA, compiled=x.is_cuda)
    return lambda: loss(weight, x, target)[0]


def pytorch(x, weight, target):
    import torch
    from torch.nn.functional import logsigmoid

    def loss():
        tokens = log_probabilities(x, weight, target)
        chosen, rejected = tokens.mean(-1).chunk(2)
        odds = chosen - rejected - (torch.log1p(-chosen.exp()) - torch.log1p(-rejected.exp()))
        return -BETA * logsigmoid(odds).mean() - tokens.chunk(2)[0].mean()

    return loss


LIGER_SYMBOL = "liger_kernel.chunked_loss:LigerFusedLinearORPOLoss"

KERNEL = Kernel(
    title="Fused linear ORPO loss",
    slug="liger-fused-linear-orpo-loss",
    family="orpo",
    axes=("batch", "seq", "hidden", "vocab"),
    inputs={
        "x": tensor("batch seq hidden"),
        "weight": tensor("vocab hidden", fan_in="hidden"),
        "target": tensor("batch seq", "int64", below="vocab"),
    },
    outputs={"loss": tensor("1")},
    flops="2 * batch * seq * hidden * vocab",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, LIGER_SYMBOL, gradients_in_forward=True),
        "torch": Provider(
            pytorch, TORCH, "torch.nn.functional:logsigmoid", interface="of torch.nn.functional.cross_entropy"
        ),
        "torch_compile": torch_compile(pytorch, "torch.nn.functional:logsigmoid"),
    },
    dialects=(
        Dialect("B", axes={"batch": "B", "seq": "T", "hidden": "H", "vocab": "V"}, ignored=("mode",)),
        *token_sweeps(
            "B",
            axes={"batch": "B", "seq": "T", "hidden": "hidden_size", "vocab": "vocab_size"},
        ),
    ),
    also=("orpo_loss",),
)
