"""Imported documents → rows of a CSV in the format that they came from.

Documents keep a row's numbers exactly, but not how the CSV spelled its shape: that is written in the first dialect of
the kernel that says the same. Imported again, the rows give the same documents.
"""

import re
from collections.abc import Iterable, Iterator

from kernelcat import identity, kernels, manifests
from kernelcat.dialect import Dialect
from kernelcat.errors import KernelcatError
from kernelcat.fault import one_line
from kernelcat.importing import SOURCE, UNITS
from kernelcat.kernel import TORCH_NAMES, Kernel
from kernelcat.metrics import Row


def rows(documents: Iterable[dict]) -> Iterator[Row]:
    """The row of each imported run among these manifests, in their order. Other runs have none.

    Raises KernelcatError when a run is none that `kernelcat import` makes: it cites what is not there, its kernel is
    not known, its source's numbers are missing.
    """
    documents = list(documents)
    by_digest = {identity.digest(found): found for found in documents if found["kind"] in _CITED}
    known = {
        (name, identity.digest(manifests.operation(kernel))): kernel
        for name, found in kernels.by_csv_name().items()
        for kernel in found
    }
    for run in documents:
        native = run["spec"].get("sourceNative") if run["kind"] == "BenchmarkRun" else None
        if isinstance(native, dict) and native.get("source") == SOURCE:
            try:
                yield _row(run, native, by_digest, known)
            except (AttributeError, KeyError, StopIteration, TypeError, ValueError) as error:
                place = one_line(str(native.get("externalId")))
                expected = "a run as `kernelcat import` makes them"
                raise KernelcatError(f"{place}: expected {expected}, found {one_line(repr(error))}") from error


_CITED = ("WorkloadCase", "ExecutionEnvironment")
_HOST = "Liger benchmark host · "


def _row(run: dict, native: dict, by_digest: dict[str, dict], known: dict[tuple[str, str], Kernel]) -> Row:
    spec = run["spec"]
    name, mode, provider, _, case, time = native["externalId"].split("/")
    workload, host = by_digest[spec["workloadDigest"]], by_digest[spec["environmentDigest"]]
    kernel = known[name, workload["spec"]["operationSpecDigest"]]
    metric, unit = next(pair for pair in UNITS.items() if f"{pair[1].lower()}_50" in native["metrics"])
    values = [native["metrics"].get(f"{unit.lower()}_{q}") for q in (50, 20, 80)]
    dialect, keys = _spelled(kernel, workload["spec"], case.rpartition("-")[2], native["externalId"])
    return Row.make(
        kernel_name=name,
        kernel_provider=provider,
        kernel_operation_mode=mode,
        metric_name=metric,
        metric_unit=unit,
        x_name=dialect.x,
        x_label=dialect.x,
        x_value=keys.pop(dialect.x),
        y_value_50=values[0],
        y_value_20=values[1],
        y_value_80=values[2],
        config={key: keys[key] for key in sorted(keys)},
        gpu_name="NVIDIA " + host["metadata"]["title"].removeprefix(_HOST),
        timestamp=_timestamp(time),
        liger_version=run["metadata"].get("labels", {}).get("liger_version", ""),
    )


def _timestamp(time: str) -> str:
    """The time of an external id as it stood in the CSV: "2024-09-03-15-39-46" → "2024-09-03 15:39:46"."""
    date, between, hours, minutes, seconds, decimals, zone = _TIME.fullmatch(time).groups()
    fraction = (decimals or "").replace("-", ".")
    return f"{date}{between.replace('-', ' ').upper()}{hours}:{minutes}:{seconds}{fraction}{zone.upper()}"


_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})([-t])([0-9]{2})-([0-9]{2})-([0-9]{2})(-[0-9]+)?(z?)")


def _spelled(kernel: Kernel, workload: dict, dtype: str, place: str) -> tuple[Dialect, dict]:
    """The first dialect in which the case can be written, and its keys, x among them."""
    scalars = {name: scalar["value"] for name, scalar in workload.get("scalars", {}).items()}
    for dialect in kernel.dialects:
        if dialect.models or dialect.x_is_label or (dialect.dtype is None and dialect.assumes != dtype):
            continue
        keys = _shape_keys(dialect, workload["axes"])
        known = {key.lower(): value for key, value in keys.items()}
        try:
            axes = {axis: identity.evaluate(text.lower(), known) for axis, text in dialect.axes.items()}
        except KernelcatError:
            continue
        if axes != workload["axes"] or any(
            scalars[name] != key for name, key in dialect.scalars.items() if not isinstance(key, str)
        ):
            continue
        keys |= {key: scalars[name] for name, key in dialect.scalars.items() if isinstance(key, str)}
        keys |= dialect.fixed | dict.fromkeys(dialect.ignored)
        return dialect, keys | ({dialect.dtype: TORCH_NAMES[dtype]} if dialect.dtype else {})
    raise KernelcatError(f"{place}: expected a case that the CSVs of {kernel.title} can write, found none")


def _shape_keys(dialect: Dialect, axes: dict[str, int]) -> dict[str, int]:
    """A value for each key that the axes' expressions name: the axis where the key stands alone; in a product the axis
    for the key that stands last, and 1 for the others."""
    keys: dict[str, int] = {}
    products = []
    for axis, expression in dialect.axes.items():
        names = re.findall(r"[A-Za-z_]\w*", expression)
        if expression == names[0]:
            keys[expression] = axes[axis]
        else:
            products.append((axis, names))
    for axis, names in products:
        for name in names[:-1]:
            keys.setdefault(name, 1)
        keys.setdefault(names[-1], axes[axis])
    return keys
