"""How benchmark CSVs write a kernel's cases: kernel files say it, importing reads it. Nothing here is measured."""

import re
from dataclasses import dataclass, field

from kernelcat.models import MODELS

MODEL_KEYS = frozenset(key for values in MODELS.values() for key in values)


@dataclass(frozen=True)
class Dialect:
    """One way in which a benchmark CSV writes this kernel's cases.

    `x` is the row's x_name. `axes` gives each axis as an expression over x and the config's keys; `dtype` is the key
    of the dtype, or None where the script does not say that it generates `assumes`; `scalars` maps scalars to keys, or
    to the value that the script takes without saying so; `fixed` lists keys with the only value that is understood;
    `ignored` are keys that do not change the case. `models` says that x is a model's name (kernelcat.models), whose
    values stand for keys that the config lacks; with `model_keys` the values are those that the config itself gives for
    that model in an object "model_configs", under exactly these keys. `x_is_label` says that x is a name that changes
    nothing, because the config holds the whole case. `backward_has_forward` marks scripts whose "backward" times the
    forward pass as well.
    """

    x: str
    axes: dict[str, str]
    dtype: str | None = "dtype"
    assumes: str = "fp32"
    scalars: dict[str, str | float] = field(default_factory=dict)
    fixed: dict[str, object] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    models: bool = False
    model_keys: tuple[str, ...] = ()
    x_is_label: bool = False
    backward_has_forward: bool = False

    @property
    def keys(self) -> frozenset[str]:
        """The exact keys that the config of a row of this dialect has."""
        named = {name for expression in self.axes.values() for name in re.findall(r"[A-Za-z_]\w*", expression)}
        dtype = {self.dtype} if self.dtype else set()
        scalars = {key for key in self.scalars.values() if isinstance(key, str)}
        keys = frozenset(named - {self.x} | dtype | scalars | {*self.fixed} | {*self.ignored})
        if self.model_keys:
            return keys - {*self.model_keys} | {"model_configs"}
        return keys - MODEL_KEYS if self.models else keys


def token_sweeps(
    x: str,
    axes: dict[str, str],
    dtype: str | None = "dtype",
    scalars: dict[str, str | float] | None = None,
    fixed: dict[str, object] | None = None,
    ignored: tuple[str, ...] = (),
) -> tuple[Dialect, Dialect]:
    """The two dialects that liger-kernel 0.8's scripts have in common: a sweep over token counts, whose x is "T" (the
    length of one sequence), "B" (the number of sequences) or "BT" (the tokens of a batch), and one over models.

    `axes` as for the former; there `bsz` and `seq_len` are what a memory probe found, and no shape unless an axis says
    so. In a sweep over models they are the shape. (benchmark_model_configs.py: build_token_length_sweep,
    build_model_config_sweep.)
    """
    tokens = {"T": "seq_len", "B": "bsz", "BT": "(bsz * seq_len)"}[x]
    of_model = {axis: re.sub(rf"\b{x}\b", tokens, expression) for axis, expression in axes.items()}

    def sweep(name: str, axes: dict[str, str], models: bool) -> Dialect:
        named = " ".join(axes.values())
        probed = tuple(key for key in ("bsz", "seq_len") if not re.search(rf"\b{key}\b", named))
        return Dialect(name, axes, dtype, "fp32", scalars or {}, fixed or {}, (*ignored, *probed), models)

    return sweep(x, axes, models=False), sweep("model_config", of_model, models=True)
