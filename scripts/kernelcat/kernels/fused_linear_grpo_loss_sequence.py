"""Group relative policy loss with importance sampling by sequence (arXiv:2402.03300, arXiv:2507.18071).

The published operation begins at the logits. What Liger's suite times under this name begins at hidden states and a
weight, which no input here holds: so the kernel is only imported.
"""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="GRPO loss, sequence level",
    slug="liger-grpo-loss-sequence",
    family="grpo",
    axes=("batch", "seq", "vocab"),
    derived={"seq_next": "seq + 1"},
    inputs={
        "logits": tensor("batch seq_next vocab"),
        "completion_ids": tensor("batch seq", "int64", below="vocab"),
        "advantages": tensor("batch"),
    },
    outputs={"loss": tensor("1")},
    dialects=(
        Dialect(
            "B",
            axes={"batch": "B", "seq": "T", "vocab": "V"},
            fixed={"importance_sampling_level": "sequence"},
            ignored=("H",),
        ),
        *token_sweeps(
            "B",
            axes={"batch": "B", "seq": "T", "vocab": "vocab_size"},
            fixed={"importance_sampling_level": "sequence"},
            ignored=("hidden_size",),
        ),
    ),
)
