"""Group relative policy loss of given logits, with importance sampling by token (arXiv:2402.03300): the mean over
completions of the mean over tokens of -min(w · a, clip(w) · a) + beta · (exp(r) - r - 1), with the importance weight w,
the advantage a, and r the token's log-probability in the reference model minus that in the policy.
"""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels import _grpo
from kernelcat.libraries import LIGER, TORCH


def reference(**arguments):
    return _grpo.reference(**arguments, level="token")


def liger(**arguments):
    return _grpo.liger(**arguments, level="token")


def pytorch(**arguments):
    return _grpo.pytorch(**arguments, level="token")


LIGER_SYMBOL = "liger_kernel.transformers.grpo_loss:triton_grpo_loss"

KERNEL = Kernel(
    title="GRPO loss kernel, token level",
    slug="liger-grpo-loss-kernel-token",
    family="grpo",
    axes=("batch", "seq", "vocab"),
    derived={"seq_next": "seq + 1"},
    scalars={"beta": 0.1},
    inputs={
        "logits": tensor("batch seq_next vocab"),
        # near the log-probability of some token of a real vocabulary
        "ref_logp": tensor("batch seq", "fp32", make=lambda values: values - 10, gradient=False),
        "completion_ids": tensor("batch seq", "int64", below="vocab"),
        "advantages": tensor("batch", gradient=False),
        "completion_mask": tensor("batch seq", "bool", make=lambda values: values | True),
    },
    outputs={"loss": tensor("1")},
    expression="mean_b(sum_t(m*(-min(w*a, clip(w, 0.8, 1.2)*a) + beta*(exp(r)-r-1)))/sum_t(m)), "
    "w_bt = exp(logp_bt - stop_gradient(logp_bt)), r = ref_logp - logp",
    flops="4 * batch * seq * vocab",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, LIGER_SYMBOL, interface="importance_sampling_level=token"),
        "torch": Provider(pytorch, TORCH, "torch.nn.functional:cross_entropy", interface="ratios by token, in fp32"),
        "torch_compile": torch_compile(pytorch, "torch.nn.functional:cross_entropy"),
    },
    dialects=(
        Dialect(
            "B",
            axes={"batch": "B", "seq": "T", "vocab": "V"},
            scalars={"beta": "beta"},
            # without beta there is no ref_logp
            fixed={"importance_sampling_level": "token", "beta": 0.1},
        ),
    ),
)
