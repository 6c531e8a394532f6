"""A catalog's runs → rows of the CSV format of Liger's suite.

Measured runs give the rows of the CSV that was written when they were measured. Imported ones keep a row's numbers
exactly, but not how the CSV spelled its shape: that is written in the first dialect of the kernel that says the same.
Imported again, the rows give the same documents.
"""

import re
from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from kernelcat import documents, identity, importing, kernels, manifests, metrics
from kernelcat.dialect import Dialect
from kernelcat.errors import KernelcatError
from kernelcat.fault import one_line
from kernelcat.index import at, text_at
from kernelcat.kernel import TORCH_NAMES, Kernel
from kernelcat.metrics import Row


def rows(catalog: dict, runs: Iterable[str]) -> tuple[list[Row], Counter]:
    """The rows of these runs, sorted as text, and how many runs have none, by reason: others than measured and imported
    ones, those that did not pass, those of a kernel that is not the project's.

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
            except (AttributeError, KeyError, StopIteration, TypeError, ValueError) as error:
                place = one_line(str(at(run, "spec", "sourceNative", "externalId")))
                expected = "a run as kernelcat measures or imports them"
                raise KernelcatError(f"{place}: expected {expected}, found {one_line(repr(error))}") from error
    return sorted(found, key=attrgetter(*metrics.COLUMNS)), without


_SOURCES = (documents.SOURCE, importing.SOURCE)
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
            x = kernel.axes[0]
        else:
            dialect, spelled = _spelled(kernel, workload, dtype, native["externalId"])
            keys, x = {key: spelled[key] for key in sorted(spelled)}, dialect.x
        common = {
            "kernel_name": name,
            "kernel_provider": provider,
            "kernel_operation_mode": mode,
            "x_name": x,
            "x_label": x,
            "x_value": keys.pop(x),
            "config": keys,
            "gpu_name": self._device(spec["environmentDigest"], device, measured),
            "timestamp": _timestamp(time),
            "liger_version": run["metadata"].get("labels", {}).get("liger_version", ""),
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
