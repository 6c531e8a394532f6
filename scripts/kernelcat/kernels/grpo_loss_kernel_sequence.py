"""Group relative policy loss of given logits, with importance sampling by sequence (arXiv:2507.18071)."""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="GRPO loss kernel, sequence level",
    slug="liger-grpo-loss-kernel-sequence",
    family="grpo",
    axes=("batch", "seq", "vocab"),
    derived={"seq_next": "seq + 1"},
    inputs={
        "logits": tensor("batch seq_next vocab"),
        "ref_logp": tensor("batch seq", "fp32"),
        "completion_ids": tensor("batch seq", "int64", below="vocab"),
        "advantages": tensor("batch"),
        "completion_mask": tensor("batch seq", "bool"),
    },
    outputs={"loss": tensor("1")},
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
