"""The case that a row of a benchmark CSV describes, by the kernel's dialects."""

import json
import math

from kernelcat import identity
from kernelcat.dialect import Dialect
from kernelcat.errors import KernelcatError
from kernelcat.fault import one_line
from kernelcat.kernel import TORCH_NAMES, Case, Kernel
from kernelcat.metrics import Row
from kernelcat.models import MODELS

DTYPES = {name: token for token, name in TORCH_NAMES.items()}


MAX_ELEMENTS = 2**44
"""No tensor of a benchmark on one GPU has more: at one byte each they are 16 TiB."""


class Unusable(Exception):
    """Why a row cannot be imported: `reason` is a token, `key` what the report counts it under, `found` the detail."""

    def __init__(self, reason: str, key: str, found: str):
        super().__init__(reason)
        self.reason, self.key, self.found = reason, one_line(key), one_line(found, 160)


def case(row: Row, kernels: list[Kernel]) -> tuple[Kernel, Case, Dialect]:
    """The case that a row's x and config describe, and the one of `kernels` and of its dialects that it is written in:
    x, keys and fixed values are exactly the dialect's.

    Raises Unusable when there is no such dialect, or a value is not what it says.
    """
    config = _config(row)
    same_keys = [
        (kernel, dialect)
        for kernel in kernels
        for dialect in kernel.dialects
        if dialect.x == row.x_name and dialect.keys == config.keys() - {dialect.x}
    ]
    if not same_keys:
        keys = ", ".join(sorted(config)) or "nothing"
        raise Unusable("unknown_dialect", row.kernel_name, f"x_name {row.x_name} with the config keys {keys}")
    if config.get(row.x_name) is not None:
        raise Unusable("bad_config", row.kernel_name, f"{row.x_name} {config[row.x_name]!r} beside the x of that name")
    kernel, dialect = next((pair for pair in same_keys if not _unknown(pair[1], config)), same_keys[0])
    if dialect.models:
        config |= _model(row, dialect, config)
    if unknown := _unknown(dialect, config):
        key, expected = unknown
        raise Unusable("unknown_config", row.kernel_name, f"{key} {config[key]!r} where {expected!r} is known")
    found = Case(_axes(row, dialect, config), _dtype(row, dialect, config), _scalars(row, dialect, config))
    try:
        shapes = kernel.shapes(kernel.inputs | kernel.outputs, found.axes)
    except KernelcatError as error:
        raise Unusable("bad_shape", row.kernel_name, str(error)) from None
    for name, shape in shapes.items():
        if math.prod(shape) > MAX_ELEMENTS:
            raise Unusable("absurd_size", row.kernel_name, f"{name} of shape {list(shape)}")
    return kernel, found, dialect


def _unknown(dialect: Dialect, config: dict) -> tuple[str, object] | None:
    """The first fixed key whose value is another one, with the value that is known."""
    return next((pair for pair in dialect.fixed.items() if config.get(pair[0]) != pair[1]), None)


def _config(row: Row) -> dict:
    def refuse(text):
        raise ValueError(text)

    def unique(pairs):
        return dict(pairs) if len(dict(pairs)) == len(pairs) else refuse("a key twice")

    text = row.extra_benchmark_config_str
    try:
        config = json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise Unusable("bad_config", row.kernel_name, f"extra_benchmark_config_str {text}")
    return config


def _model(row: Row, dialect: Dialect, config: dict) -> dict:
    models = config["model_configs"] if dialect.model_keys else MODELS
    if not isinstance(models, dict):
        raise Unusable("bad_config", row.kernel_name, "model_configs that is no object")
    if row.x_value not in models:
        raise Unusable("unknown_model", row.x_value, f"x_value {row.x_value}")
    model = models[row.x_value]
    if dialect.model_keys and (not isinstance(model, dict) or model.keys() != {*dialect.model_keys}):
        keys = ", ".join(sorted(model)) if isinstance(model, dict) else "nothing"
        raise Unusable("unknown_config", row.kernel_name, f"model_configs of {row.x_value} with the keys {keys}")
    return model


def _axes(row: Row, dialect: Dialect, config: dict) -> dict[str, int]:
    # axis expressions have lower-case names only, the CSV's keys are of any case
    known = {key.lower(): value for key, value in config.items()}
    if not (dialect.models or dialect.x_is_label):
        x = number(row.x_value)
        if not x.is_integer():
            raise Unusable("bad_x_value", row.kernel_name, f"x_value {row.x_value}")
        known[dialect.x.lower()] = int(x)
    axes = {}
    for axis, expression in dialect.axes.items():
        try:
            axes[axis] = identity.evaluate(expression.lower(), known)
        except KernelcatError as error:
            raise Unusable("bad_axis", row.kernel_name, f"{axis}: {error}") from None
        if axes[axis] < 1:
            raise Unusable("bad_axis", row.kernel_name, f"{axis} {axes[axis]}, expected at least 1")
    return axes


def _dtype(row: Row, dialect: Dialect, config: dict) -> str:
    if dialect.dtype is None:
        return dialect.assumes
    name = config[dialect.dtype]
    if not isinstance(name, str) or name not in DTYPES:
        raise Unusable("unknown_dtype", str(name), f"{dialect.dtype} {name!r}")
    return DTYPES[name]


def _scalars(row: Row, dialect: Dialect, config: dict) -> dict[str, float]:
    scalars = {}
    for scalar, key in dialect.scalars.items():
        value = config[key] if isinstance(key, str) else key
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not abs(value) <= identity.MAX_INTEGER:  # written so that a NaN is refused
            raise Unusable("bad_scalar", row.kernel_name, f"{key} {value!r}")
        scalars[scalar] = value
    return scalars


def number(text: str) -> float:
    """The number a cell holds; NaN for what is none. float() alone would take "1_000" and other scripts' digits."""
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan
