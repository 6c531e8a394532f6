"""A catalog's runs → rows of the CSV format of Liger's suite.

Measured runs give the rows of the CSV that was written when they were measured. Imported ones keep a row's numbers
exactly, but not how the CSV spelled its shape: that is written in the dialect of the kernel that says the same, as
Liger's published data has it (kernelcat.spelling). Imported again, the rows give the same documents.
"""

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from operator import attrgetter

from kernelcat import documents, identity, importing, kernels, manifests, metrics
from kernelcat.dialect import Dialect
from kernelcat.errors import KernelcatError
from kernelcat.fault import one_line
from kernelcat.index import at, text_at
from kernelcat.kernel import TORCH_NAMES, Kernel
from kernelcat.metrics import Row
from kernelcat.spelling import SPELLINGS, Spelling


def rows(catalog: dict, runs: Iterable[str]) -> tuple[list[Row], Counter]:
    """The rows of these runs, by time, and how many runs have none, by reason: others than measured and imported ones,
    those that did not pass, those of a kernel that is not the project's.

    Raises KernelcatError when a run is none that kernelcat makes: it cites what is not there, its numbers are missing.
    """
    writer = _Writer(catalog)
    found: list[Row] = []
    without: Counter[str] = Counter()
    for digest in runs:
        run = catalog["objects"][digest]
        source = text_at(run, "spec", "sourceNative", "source")
        if source not in _SOURCES:
            without["from another source"] += 1
        elif at(run, "spec", "status") != "passed":
            without["not passed"] += 1
        elif (kernel := writer.kernel(run)) is None:
            without["of a kernel that is not known here"] += 1
        else:
            # Variants of a run may have other labels, and so other rows.
            metadata = (run["metadata"], *catalog.get("aliases", {}).get(digest, ()))
            try:
                found += dict.fromkeys(
                    row for said in metadata for row in writer.rows({**run, "metadata": said}, kernel)
                )
            except _DAMAGED as error:
                place = one_line(str(at(run, "spec", "sourceNative", "externalId")))
                expected = "a run as kernelcat measures or imports them"
                raise KernelcatError(f"{place}: expected {expected}, found {one_line(repr(error))}") from error
    return sorted(found, key=_order), without


def _order(row: Row) -> tuple:
    """Sorts by time; what has the same time as a sweep goes through it, speed first."""
    sweep = row.kernel_name, row.metric_name != "speed", row.kernel_operation_mode, row.extra_benchmark_config_str
    return row.timestamp, *sweep, row.kernel_provider, len(row.x_value), _cells(row)


_cells = attrgetter(*metrics.COLUMNS)
_SOURCES = (documents.SOURCE, importing.SOURCE)
# What reading a run raises that lacks something, or holds something else than it should.
_DAMAGED = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)
_HOST = "Liger benchmark host · "


class _Writer:
    """What the rows of one catalog's runs have in common."""

    def __init__(self, catalog: dict):
        self.objects, self.aliases = catalog["objects"], catalog.get("aliases", {})
        own = kernels.load_all().items()
        self.measured = {(name, identity.digest(manifests.operation(kernel, True))): kernel for name, kernel in own}
        self.imported = {
            (name, identity.digest(manifests.operation(kernel))): kernel
            for name, found in kernels.by_csv_name().items()
            for kernel in found
        }

    def kernel(self, run: dict) -> Kernel | None:
        """The kernel of a run, None when it is not the project's."""
        native = run["spec"]["sourceNative"]
        known = self.measured if native["source"] == documents.SOURCE else self.imported
        operation = text_at(self.objects.get(text_at(run, "spec", "workloadDigest")), "spec", "operationSpecDigest")
        return known.get((text_at(native, "externalId").partition("/")[0], operation))

    def rows(self, run: dict, kernel: Kernel) -> list[Row]:
        """A run's rows: its speed in ms, a measured one's also its peak memory in MB where that is known."""
        spec, native = run["spec"], run["spec"]["sourceNative"]
        name, mode, provider, device, case, time = native["externalId"].split("/")
        workload, dtype = self.objects[spec["workloadDigest"]]["spec"], case.rpartition("-")[2]
        if measured := native["source"] == documents.SOURCE:
            keys = {axis: workload["axes"][axis] for axis in kernel.axes} | {"dtype": TORCH_NAMES[dtype]}
            keys |= {scalar: workload["scalars"][scalar]["value"] for scalar in kernel.scalars}
            x = label = kernel.axes[0]
            x_value = keys.pop(x)
        else:
            x, label, x_value, keys = self._spelled(run, kernel)
        common = {
            "kernel_name": name,
            "kernel_provider": provider,
            "kernel_operation_mode": mode,
            "x_name": x,
            "x_label": label,
            "x_value": x_value,
            "config": keys,
            "gpu_name": self._device(spec["environmentDigest"], device, measured),
            "timestamp": _timestamp(time),
            "liger_version": text_at(run, "metadata", "labels", "liger_version", default=""),
        }
        found = []
        for metric, unit in importing.UNITS.items():
            prefix = unit.lower()
            values = [native["metrics"].get(f"{prefix}_{q}") for q in (50, 20, 80)]
            if values[0] is None:
                continue
            if measured and metric == "memory":
                values = values[:1] * 3
            y_50, y_20, y_80 = values
            found.append(
                Row.make(
                    metric_name=metric, metric_unit=unit, y_value_50=y_50, y_value_20=y_20, y_value_80=y_80, **common
                )
            )
        if not found:
            raise ValueError("no metrics ms_50 or mb_50")
        return found

    def _spelled(self, run: dict, kernel: Kernel) -> tuple[str, str, int, dict]:
        """Name, label and value of x, and the config, of an imported run."""
        for number in self.dialects[_series(run, self.objects)]:
            dialect = kernel.dialects[number]
            if spelled := _spelled(dialect, *_case(run, self.objects)):
                return dialect.x, *spelled
        raise ValueError(f"no case that the CSVs of {kernel.title} can write")

    @cached_property
    def dialects(self) -> dict[tuple, list[int]]:
        """The dialects that the runs of a series can be written in, by number, the likeliest first: only x changes in a
        sweep, so that is the one with the fewest configs."""
        configs: dict[tuple, list[list[str]]] = {}
        for run in self.objects.values():
            if text_at(run, "spec", "sourceNative", "source") == importing.SOURCE and (kernel := self.kernel(run)):
                with contextlib.suppress(*_DAMAGED):  # its own row says what is wrong with it
                    found = configs.setdefault(_series(run, self.objects), [[] for _ in kernel.dialects])
                    for dialect, written in zip(kernel.dialects, found, strict=True):
                        if spelled := _spelled(dialect, *_case(run, self.objects)):
                            written.append(json.dumps(spelled[-1]))
        return {
            series: sorted(range(len(found)), key=lambda number: (-len(found[number]), len(set(found[number]))))
            for series, found in configs.items()
        }

    def _device(self, digest: str, part: str, measured: bool) -> str:
        """The device's name, which its environment has as title: the one that the external id has in `part`."""
        for metadata in (self.objects[digest]["metadata"], *self.aliases.get(digest, ())):
            title = metadata["title"]
            name = title if measured else f"NVIDIA {title.removeprefix(_HOST)}"
            if identity.kebab(name) == part:
                return name
        raise ValueError(f"no environment with the name of {part}")


def _timestamp(time: str) -> str:
    """The time of an external id as it stood in the CSV: "2024-09-03-15-39-46" → "2024-09-03 15:39:46"."""
    date, between, hours, minutes, seconds, decimals, zone = _TIME.fullmatch(time).groups()
    fraction = (decimals or "").replace("-", ".")
    return f"{date}{between.replace('-', ' ').upper()}{hours}:{minutes}:{seconds}{fraction}{zone.upper()}"


_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})([-t])([0-9]{2})-([0-9]{2})-([0-9]{2})(-[0-9]+)?(z?)")


def _series(run: dict, objects: dict[str, dict]) -> tuple:
    """What the runs of one sweep have in common: all that the external id says but the case, the metrics, and the
    operation, which tells kernels of one name apart."""
    *parts, _, time = run["spec"]["sourceNative"]["externalId"].split("/")
    operation = objects[run["spec"]["workloadDigest"]]["spec"]["operationSpecDigest"]
    return *parts, time, operation, *sorted(run["spec"]["sourceNative"]["metrics"])


def _case(run: dict, objects: dict[str, dict]) -> tuple[str, dict, str]:
    """The kernel's name in the CSV, the workload's spec and the dtype of a run."""
    name, _, _, _, case, _ = run["spec"]["sourceNative"]["externalId"].split("/")
    return name, objects[run["spec"]["workloadDigest"]]["spec"], case.rpartition("-")[2]


def _spelled(dialect: Dialect, name: str, workload: dict, dtype: str) -> tuple[str, int, dict] | None:
    """Label and value of x, and the config, of a case in a dialect; None when it cannot be written in that."""
    if dialect.models or dialect.x_is_label or (dialect.dtype is None and dialect.assumes != dtype):
        return None
    scalars = {name: scalar["value"] for name, scalar in workload.get("scalars", {}).items()}
    if any(scalars[name] != key for name, key in dialect.scalars.items() if not isinstance(key, str)):
        return None
    spelling = SPELLINGS.get((name, dialect.x), Spelling(dialect.x, ()))
    for values in (spelling.values, {}):
        keys = _shape_keys(dialect, workload["axes"], values)
        known = {key.lower(): value for key, value in keys.items()}
        with contextlib.suppress(KernelcatError):
            if workload["axes"] == {
                axis: identity.evaluate(text.lower(), known) for axis, text in dialect.axes.items()
            }:
                break
    else:
        return None
    x_value = keys.pop(dialect.x)
    keys |= {key: scalars[name] for name, key in dialect.scalars.items() if isinstance(key, str)}
    keys |= dialect.fixed | {key: spelling.values.get(key) for key in dialect.ignored}
    keys |= {dialect.dtype: TORCH_NAMES[dtype]} if dialect.dtype else {}
    # A config may hold x as well: its value is null then.
    listed = keys.keys() == {*spelling.keys} - {dialect.x}
    return spelling.label, x_value, {key: keys.get(key) for key in (spelling.keys if listed else sorted(keys))}


def _shape_keys(dialect: Dialect, axes: dict[str, int], values: dict[str, object]) -> dict[str, int]:
    """A value for each key that the axes' expressions name: the axis where the key stands alone; in a product those
    that are given, 1 for others, and what is left for the key that stands last."""
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
            keys.setdefault(name, values.get(name, 1))
        keys.setdefault(names[-1], axes[axis] // math.prod(keys[name] for name in names[:-1]))
    return keys
