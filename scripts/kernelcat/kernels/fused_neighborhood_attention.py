"""Neighborhood attention with its projections: each token attends to the nearest ones (arXiv:2204.07143).

Tokens lie on a line. Each attends to `kernel_size` of them, `dilation` apart and itself in the middle; to fewer at the
ends.
"""

from kernelcat.dialect import Dialect
from kernelcat.kernel import Kernel, Provider, tensor, torch_compile
from kernelcat.libraries import LIGER, TORCH

AXES = {
    "batch": "batch_size",
    "seq": "seq_len",
    "hidden": "hidden_size",
    "heads": "num_heads",
    "kernel_size": "kernel_size",
    "dilation": "dilation",
}


def _neighbours(seq, kernel_size, dilation, device):
    """Which keys (columns) each query (row) attends to."""
    import torch

    positions = torch.arange(seq, device=device)
    distances = (positions.unsqueeze(0) - positions.unsqueeze(1)).abs()
    return (distances <= kernel_size // 2 * dilation) & (distances % dilation == 0)


def reference(
    hidden_states,
    q_weight,
    k_weight,
    v_weight,
    out_weight,
    q_bias,
    k_bias,
    v_bias,
    out_bias,
    heads,
    kernel_size,
    dilation,
):
    def project(weight, bias):
        return (hidden_states @ weight.T + bias).unflatten(-1, (heads, -1)).transpose(1, 2)

    q, k, v = project(q_weight, q_bias), project(k_weight, k_bias), project(v_weight, v_bias)
    near = _neighbours(q.shape[2], kernel_size, dilation, q.device)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~near, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ out_weight.T + out_bias


def _bind(layer, inputs):
    """Gives a module with four linear layers, q_proj to out_proj, the weights and biases among `inputs`."""
    import torch

    for name in ("q", "k", "v", "out"):
        linear = getattr(layer, f"{name}_proj")
        linear.weight = inputs[f"{name}_weight"]
        bias = inputs[f"{name}_bias"]
        linear.bias = bias if bias.requires_grad else torch.nn.Parameter(bias, requires_grad=False)
    return lambda: layer(inputs["hidden_states"])


def liger(heads, kernel_size, dilation, **inputs):
    import torch
    from liger_kernel.transformers.fused_neighborhood_attention import LigerFusedNeighborhoodAttention

    with torch.device("meta"):
        hidden = inputs["hidden_states"].shape[-1]
        layer = LigerFusedNeighborhoodAttention(hidden, heads, kernel_size=kernel_size, dilation=dilation)
    return _bind(layer, inputs)


def pytorch(heads, kernel_size, dilation, **inputs):
    import torch

    class NeighborhoodAttention(torch.nn.Module):
        """The neighbours' mask is made in each call, as Liger's is."""

        def __init__(self, hidden):
            super().__init__()
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                setattr(self, name, torch.nn.Linear(hidden, hidden))

        def forward(self, x):
            q, k, v = (
                projection(x).unflatten(-1, (heads, -1)).transpose(1, 2)
                for projection in (self.q_proj, self.k_proj, self.v_proj)
            )
            near = _neighbours(x.shape[1], kernel_size, dilation, x.device)
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=near)
            return self.out_proj(mixed.transpose(1, 2).flatten(2))

    with torch.device("meta"):
        layer = NeighborhoodAttention(inputs["hidden_states"].shape[-1])
    return _bind(layer, inputs)


ATTENTION = "torch.nn.functional:scaled_dot_product_attention"

KERNEL = Kernel(
    title="Fused neighborhood attention",
    slug="liger-fused-neighborhood-attention",
    family="neighborhood-attention",
    axes=("seq", "batch", "hidden", "heads", "kernel_size", "dilation"),
    derived={"head_dim": "hidden // heads"},
    operation_axes=("batch", "seq", "hidden"),
    arguments=("heads", "kernel_size", "dilation"),
    inputs={
        "hidden_states": tensor("batch seq hidden"),
        "q_weight": tensor("hidden hidden", fan_in="hidden"),
        "k_weight": tensor("hidden hidden", fan_in="hidden"),
        "v_weight": tensor("hidden hidden", fan_in="hidden"),
        "out_weight": tensor("hidden hidden", fan_in="hidden"),
        "q_bias": tensor("hidden"),
        # It adds the same to all the scores of a query, so its gradient is zero: what is computed are rounding errors.
        "k_bias": tensor("hidden", gradient=False),
        "v_bias": tensor("hidden"),
        "out_bias": tensor("hidden"),
    },
    outputs={"y": tensor("batch seq hidden")},
    # The projections, and of each query with its keys and values two products; few queries are near the ends.
    flops="8 * batch * seq * hidden * hidden + 4 * batch * seq * kernel_size * hidden",
    reference=reference,
    providers={
        "liger": Provider(
            liger, LIGER, "liger_kernel.transformers.fused_neighborhood_attention:LigerFusedNeighborhoodAttention"
        ),
        "torch": Provider(pytorch, TORCH, ATTENTION, interface="with a mask, between torch.nn.Linear"),
        "torch_compile": torch_compile(pytorch, ATTENTION),
    },
    dialects=(
        Dialect("seq_len", axes=AXES, fixed={"bias": True}),
        # what is run is the configuration that "name" names, whatever x_value says
        Dialect("model_config", axes=AXES, fixed={"bias": True}, ignored=("name",), x_is_label=True),
    ),
)
