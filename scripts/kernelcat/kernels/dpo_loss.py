"""Linear layer and direct preference optimisation loss in one, with a reference model (arXiv:2305.18290): the mean over
pairs of completions of -log σ(beta · (chosen - rejected)), each log P - log P of the reference model.
"""

from kernelcat.dialect import token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels._preference import PADDING, log_probabilities, padded, reference_log_probabilities
from kernelcat.libraries import LIGER, TORCH


def reference(x, ref_x, weight, bias, ref_weight, target, beta):
    ratios = reference_log_probabilities(x, weight, target, bias, PADDING).sum(-1)
    ratios = ratios - reference_log_probabilities(ref_x, ref_weight, target, ignored=PADDING).sum(-1)
    chosen, rejected = ratios.chunk(2)
    return (-beta * (chosen - rejected)).exp().log1p().mean()


def liger(x, ref_x, weight, bias, ref_weight, target, beta):
    from liger_kernel.chunked_loss import LigerFusedLinearDPOLoss

    # compiled: as for torch_compile, on GPUs only
    loss = LigerFusedLinearDPOLoss(ignore_index=PADDING, beta=beta, compiled=x.is_cuda)
    return lambda: loss(weight, x, target, bias, ref_x, ref_weight)[0]


def pytorch(x, ref_x, weight, bias, ref_weight, target, beta):
    from torch.nn.functional import logsigmoid

    def loss():
        ratios = log_probabilities(x, weight, target, bias, PADDING).sum(-1)
        ratios = ratios - log_probabilities(ref_x, ref_weight, target, ignored=PADDING).sum(-1)
        chosen, rejected = ratios.chunk(2)
        return -logsigmoid(beta * (chosen - rejected)).mean()

    return loss


LIGER_SYMBOL = "liger_kernel.chunked_loss:LigerFusedLinearDPOLoss"

KERNEL = Kernel(
    title="Fused linear DPO loss",
    slug="liger-dpo-loss",
    family="dpo",
    axes=("batch", "seq", "hidden", "vocab"),
    scalars={"beta": 0.1},
    inputs={
        "x": tensor("batch seq hidden"),
        "ref_x": tensor("batch seq hidden", gradient=False),
        "weight": tensor("vocab hidden", fan_in="hidden"),
        "bias": tensor("vocab"),
        "ref_weight": tensor("vocab hidden", fan_in="hidden", gradient=False),
        "target": tensor("batch seq", "int64", below="vocab", make=padded),
    },
    outputs={"loss": tensor("1")},
    # Both models' layers run forward, only the trained one's backward.
    flops="4 * batch * seq * hidden * vocab",
    backward_flops="4 * batch * seq * hidden * vocab",
    moves={"backward": "(2 * (batch * seq * hidden + vocab * hidden + vocab) + 1) * size"},
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, LIGER_SYMBOL, gradients_in_forward=True),
        "torch": Provider(
            pytorch, TORCH, "torch.nn.functional:logsigmoid", interface="of torch.nn.functional.cross_entropy"
        ),
        "torch_compile": torch_compile(pytorch, "torch.nn.functional:logsigmoid"),
    },
    dialects=token_sweeps(
        "B",
        axes={"batch": "B", "seq": "T", "hidden": "hidden_size", "vocab": "vocab_size"},
        scalars={"beta": "beta"},
        fixed={"bias": True, "ignore_index": 42},
    ),
)
