"""Group relative policy loss with importance sampling by token (arXiv:2402.03300).

The published operation begins at the logits. What Liger's suite times under this name begins at hidden states and a
weight, which no input here holds: so the kernel is only imported.
"""

from kernelcat.dialect import Dialect, token_sweeps
from kernelcat.kernel import Kernel, tensor

KERNEL = Kernel(
    title="GRPO loss, token level",
    slug="liger-grpo-loss-token",
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
            fixed={"importance_sampling_level": "token"},
            ignored=("H",),
        ),
        *token_sweeps(
            "B",
            axes={"batch": "B", "seq": "T", "vocab": "vocab_size"},
            fixed={"importance_sampling_level": "token"},
            ignored=("hidden_size",),
        ),
    ),
)
