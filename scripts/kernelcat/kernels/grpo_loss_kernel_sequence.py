"""Group relative policy loss of given logits, with importance sampling by sequence (arXiv:2507.18071): the mean over
completions of the mean over tokens of -min(w · a, clip(w) · a) + beta · (exp(r) - r - 1), with the importance weight w,
the advantage a, and r the token's log-probability in the reference model minus that in the policy.
"""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.kernels import _grpo
from kernelcat.libraries import LIGER, TORCH


def reference(**arguments):
    return _grpo.reference(**arguments, level="sequence")


def liger(**arguments):
    return _grpo.liger(**arguments, level="sequence")


def pytorch(**arguments):
    return _grpo.pytorch(**arguments, level="sequence")


LIGER_SYMBOL = "liger_kernel.transformers.grpo_loss:triton_grpo_loss"

KERNEL = Kernel(
    title="GRPO loss kernel, sequence level",
    slug="liger-grpo-loss-kernel-sequence",
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
    "w_b = exp(sum_t(m*(logp_bt - stop_gradient(logp_bt)))/sum_t(m)), r = ref_logp - logp",
    flops="4 * batch * seq * vocab",
    reference=reference,
    providers={
        "liger": Provider(liger, LIGER, LIGER_SYMBOL, interface="importance_sampling_level=sequence"),
        "torch": Provider(pytorch, TORCH, "torch.nn.functional:cross_entropy", interface="ratios by sequence, in fp32"),
        "torch_compile": torch_compile(pytorch, "torch.nn.functional:cross_entropy"),
    },
    dialects=(
        Dialect(
            "B",
            axes={"batch": "B", "seq": "T", "vocab": "V"},
            scalars={"beta": "beta"},
            # without beta there is no ref_logp
            fixed={"importance_sampling_level": "sequence", "beta": 0.1},
        ),
    ),
)
