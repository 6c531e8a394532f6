"""Linear layer and Kahneman-Tversky preference loss in one (arXiv:2402.01306): the mean over completions of
1 - σ(±beta · (log P - log P of the reference model - kl)), plus for the preferred ones, minus for the others.
"""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels._preference import PADDING, log_probabilities, padded, reference_log_probabilities
from kernelcat.libraries import LIGER, TORCH


def reference(x, ref_x, weight, bias, ref_weight, ref_bias, target, preference_labels, kl, beta):
    ratios = reference_log_probabilities(x, weight, target, bias, PADDING).sum(-1)
    ratios = ratios - reference_log_probabilities(ref_x, ref_weight, target, ref_bias, PADDING).sum(-1)
    gains = (ratios - kl) * (2 * preference_labels.to(ratios.dtype) - 1)
    return (1 - (beta * gains).sigmoid()).mean()


def liger(x, ref_x, weight, bias, ref_weight, ref_bias, target, preference_labels, kl, beta):
    from liger_kernel.chunked_loss import LigerFusedLinearKTOLoss

    # compiled: as for torch_compile, on GPUs only
    loss = LigerFusedLinearKTOLoss(ignore_index=PADDING, beta=beta, use_ref_model=True, compiled=x.is_cuda)
    return lambda: loss(x, weight, target, bias, preference_labels, ref_x, ref_weight, ref_bias, kl)[0]


def pytorch(x, ref_x, weight, bias, ref_weight, ref_bias, target, preference_labels, kl, beta):
    import torch

    def loss():
        ratios = log_probabilities(x, weight, target, bias, PADDING).sum(-1)
        ratios = ratios - log_probabilities(ref_x, ref_weight, target, ref_bias, PADDING).sum(-1)
        gains = torch.where(preference_labels, ratios - kl, kl - ratios)
        return (1 - torch.sigmoid(beta * gains)).mean()

    return loss


LIGER_SYMBOL = "liger_kernel.chunked_loss:LigerFusedLinearKTOLoss"

KERNEL = Kernel(
    title="Fused linear KTO loss",
    slug="liger-fused-linear-kto-loss",
    family="kto",
    axes=("batch", "seq", "hidden", "vocab"),
    scalars={"beta": 0.1},
    inputs={
        "x": tensor("batch seq hidden"),
        "ref_x": tensor("batch seq hidden", gradient=False),
        "weight": tensor("vocab hidden", fan_in="hidden"),
        "bias": tensor("vocab"),
        "ref_weight": tensor("vocab hidden", fan_in="hidden", gradient=False),
        "ref_bias": tensor("vocab", gradient=False),
        "target": tensor("batch seq", "int64", below="vocab", make=padded),
        "preference_labels": tensor("batch", "bool"),
        "kl": tensor("1", make=lambda values: values.abs(), gradient=False),
    },
    outputs={"loss": tensor("1")},
    # Both models' layers run forward, only the trained one's backward.
    flops="4 * batch * seq * hidden * vocab",
    backward_flops="4 * batch * seq * hidden * vocab",
    moves={"backward": "(2 * (batch * seq * hidden + vocab * hidden + vocab) + 1) * size"},
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, LIGER_SYMBOL, gradients_in_forward=True),
        "torch": Provider(pytorch, TORCH, "torch:sigmoid", interface="of torch.nn.functional.cross_entropy"),
        "torch_compile": torch_compile(pytorch, "torch:sigmoid"),
    },
    dialects=(
        Dialect(
            "B",
            axes={"batch": "B", "seq": "T", "hidden": "H", "vocab": "V"},
            scalars={"beta": "beta"},
            fixed={"bias": True, "ignore_index": 42},
            ignored=("mode",),
        ),
        *token_sweeps(
            "B",
            axes={"batch": "B", "seq": "T", "hidden": "hidden_size", "vocab": "vocab_size"},
            scalars={"beta": "beta"},
            fixed={"bias": True, "ignore_index": 42},
        ),
    ),
)
