"""Linear layer and contrastive preference loss in one (arXiv:2401.08417): the mean over pairs of completions of
-log σ(beta · (log P(chosen) - log P(rejected))), plus the cross entropy of the chosen ones.
"""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels._preference import log_probabilities, reference_log_probabilities
from kernelcat.libraries import LIGER, TORCH

BETA = 0.1


def reference(x, weight, target):
    tokens = reference_log_probabilities(x, weight, target)
    chosen, rejected = tokens.sum(-1).chunk(2)
    preference = (-BETA * (chosen - rejected)).exp().log1p()
    return preference.mean() - tokens.chunk(2)[0].mean()


def liger(x, weight, target):
    from liger_kernel.chunked_loss import LigerFusedLinearCPOLoss

    # compiled: as for torch_compile, on GPUs only
    loss = LigerFusedLinearCPOLoss(beta=BETA, compiled=x.is_cuda)
    return lambda: loss(weight, x, target)[0]


def pytorch(x, weight, target):
    from torch.nn.functional import logsigmoid

    def loss():
        tokens = log_probabilities(x, weight, target)
        chosen, rejected = tokens.sum(-1).chunk(2)
        return -logsigmoid(BETA * (chosen - rejected)).mean() - tokens.chunk(2)[0].mean()

    return loss


LIGER_SYMBOL = "liger_kernel.chunked_loss:LigerFusedLinearCPOLoss"

KERNEL = Kernel(
    title="Fused linear CPO loss",
    slug="liger-fused-linear-cpo-loss",
    family="cpo",
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
    also=("cpo_loss",),
)
