"""Linear layer and simple preference loss in one (arXiv:2405.14734): the mean over pairs of completions of
-log σ(beta · (chosen - rejected) - gamma), each the mean log-probability of the tokens, plus the cross entropy of the
chosen ones.
"""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels._preference import log_probabilities, reference_log_probabilities
from kernelcat.libraries import LIGER, TORCH

BETA = 0.1
GAMMA = 0.5


def reference(x, weight, target):
    tokens = reference_log_probabilities(x, weight, target)
    chosen, rejected = tokens.mean(-1).chunk(2)
    preference = (GAMMA - BETA * (chosen - rejected)).exp().log1p()
    return preference.mean() - tokens.chunk(2)[0].mean()


def liger(x, weight, target):
    from liger_kernel.chunked_loss import LigerFusedLinearSimPOLoss

    # compiled: as for torch_compile, on GPUs only
    loss = LigerFusedLinearSimPOLoss(beta=BETA, gamma=GAMMA, compiled=x.is_cuda)
    return lambda: loss(weight, x, target)[0]


def pytorch(x, weight, target):
    from torch.nn.functional import logsigmoid

    def loss():
        tokens = log_probabilities(x, weight, target)
        chosen, rejected = tokens.mean(-1).chunk(2)
        return -logsigmoid(BETA * (chosen - rejected) - GAMMA).mean() - tokens.chunk(2)[0].mean()

    return loss


LIGER_SYMBOL = "liger_kernel.chunked_loss:LigerFusedLinearSimPOLoss"

KERNEL = Kernel(
    title="Fused linear SimPO loss",
    slug="liger-fused-linear-simpo-loss",
    family="simpo",
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
    also=("simpo_loss",),
)
