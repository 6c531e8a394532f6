"""An outside CSV of Liger's benchmark suite → the documents that everybody else computes, and a report of every row.

The identities are those that the kernel index has published for the rows of Liger's own data: digests are exact.
"""

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from kernelcat import cases, catalog, doubts, files, identity, kernels, manifests, metrics, published
from kernelcat.cases import Unusable
from kernelcat.errors import KernelcatError
from kernelcat.kernel import MODES, Case, Kernel
from kernelcat.libraries import CSV_PROVIDERS
from kernelcat.metrics import Row

SOURCE = "liger-kernel-bench"

UNITS = {"speed": "ms", "memory": "MB"}
"""The metrics that are imported, and their units; the MB of the suite are 2^20 bytes."""

EARLIEST = "2007-06"
"""The month of CUDA 1.0: nothing was timed on a GPU by these means before."""


@dataclass
class Import:
    """What became of a file: the usable rows in their order, what they cite (by digest and name: published identities
    share some digests), and the fate of the others.

    Always: rows = imported + duplicates + skipped.
    """

    usable: list[doubts.Usable] = field(default_factory=list)
    cited: dict[tuple[str, str], dict] = field(default_factory=dict)
    rows: int = 0
    duplicates: int = 0
    skipped: dict[str, Counter] = field(default_factory=dict)
    entries: list[dict] = field(default_factory=list)

    @property
    def manifests(self) -> list[dict]:
        """Everything that a catalog of the file holds."""
        return [*(usable.run for usable in self.usable), *self.cited.values()]

    @property
    def report(self) -> dict:
        """The content of report.json."""
        return {
            "rows": self.rows,
            "imported": dict(sorted(Counter(usable.row.metric_name for usable in self.usable).items())),
            "duplicates": self.duplicates,
            "skipped": {reason: dict(sorted(counts.items())) for reason, counts in sorted(self.skipped.items())},
            "entries": self.entries,
            "warnings": doubts.warnings(self.usable),
            "collisions": doubts.collisions(self.usable),
        }

    def summary(self) -> list[str]:
        """The report in a few lines for people."""
        skipped = sum(counts.total() for counts in self.skipped.values())
        lines = [
            f"{self.rows} row{'' if self.rows == 1 else 's'}: {len(self.usable)} imported, "
            f"{self.duplicates} duplicate{'' if self.duplicates == 1 else 's'}, {skipped} skipped"
        ]
        for reason, counts in sorted(self.skipped.items()):
            shown = ", ".join(f"{key or '(nothing)'} ({count})" for key, count in sorted(counts.items())[:8])
            more = f" and {len(counts) - 8} more" if len(counts) > 8 else ""
            lines.append(f"skipped, {reason}: {shown}{more}")
        warned = Counter(warning["reason"] for warning in doubts.warnings(self.usable))
        return lines + [f"imported, but doubtful, {reason}: {count}" for reason, count in sorted(warned.items())]


def import_csv(source: str | Path) -> Import:
    """Reads a CSV and builds the manifests of every row that can be used.

    Raises KernelcatError, one line, when the file as a whole cannot be trusted (metrics.read says when).
    """
    result = Import()
    builder = _Builder()
    seen: dict[tuple, doubts.Usable] = {}
    for number, row in metrics.read(source):
        result.rows += 1
        try:
            if isinstance(row, metrics.Problem):
                raise Unusable(row.reason, "", row.found)
            usable, cited = builder.usable(number, row)
        except Unusable as problem:
            result.skipped.setdefault(problem.reason, Counter())[problem.key] += 1
            result.entries.append({"record": number, "reason": problem.reason, "found": problem.found})
            continue
        # External ids do not hold scalars: rows of one shape that differ in eps are two workloads, and no duplicates.
        key = row.metric_name, usable.event.external_id, usable.run["spec"]["workloadDigest"]
        first = seen.setdefault(key, usable)
        if first is not usable:
            found = f"{usable.event.external_id} as in record {first.record}, {_compared(first, usable)}"
            result.duplicates += 1
            result.entries.append({"record": number, "reason": "duplicate", "found": found})
            continue
        result.usable.append(usable)
        result.cited.update(cited)
    return result


def write(result: Import, folder: str | Path) -> None:
    """Writes catalog.json and report.json to `folder`. Raises OSError, and KernelcatError for the folder of a catalog
    that no import has written."""
    folder = Path(folder)
    if (folder / "catalog.json").exists() and not (folder / "report.json").exists():
        found = "a catalog.json without an import's report.json"
        raise KernelcatError(f"{folder}: expected a folder for this import alone, found {found}")
    found = catalog.build(result.manifests)
    report = json.dumps(result.report, indent=1, ensure_ascii=False, allow_nan=False)
    # the catalog comes last: where it is, the rest is too
    files.write(folder / "report.json", (report + "\n").encode())
    catalog.write(folder / "catalog.json", found)


def _compared(first: doubts.Usable, second: doubts.Usable) -> str:
    for q in (50, 20, 80):
        there, here = first.values.get(q), second.values.get(q)
        if there != here:
            return f"p{q} {there} there, {here} here"
    return "the same values"


class _Builder:
    """Builds runs and, each once, what they cite."""

    def __init__(self):
        self.kernels = kernels.by_csv_name()
        self._built: dict[tuple, tuple[str, dict]] = {}

    def usable(self, record: int, row: Row) -> tuple[doubts.Usable, dict[tuple[str, str], dict]]:
        """A row with its run, and what that cites. Raises Unusable."""
        if row.kernel_name not in self.kernels:
            raise Unusable("unknown_kernel", row.kernel_name, row.kernel_name)
        if row.metric_name not in UNITS:
            raise Unusable("unknown_metric", row.metric_name, row.metric_name)
        if row.metric_unit != UNITS[row.metric_name]:
            raise Unusable("unknown_unit", row.metric_unit, row.metric_unit)
        if row.kernel_operation_mode not in MODES:
            raise Unusable("unknown_mode", row.kernel_operation_mode, row.kernel_operation_mode)
        if row.kernel_provider not in CSV_PROVIDERS:
            raise Unusable("unknown_provider", row.kernel_provider, row.kernel_provider)
        kernel, case, dialect = cases.case(row, self.kernels[row.kernel_name])
        values = _values(row)
        try:
            observed_at = identity.instant(row.timestamp)
        except KernelcatError:
            observed_at = ""
        if observed_at < EARLIEST:
            raise Unusable("bad_timestamp", row.timestamp, row.timestamp)
        event = manifests.Event(
            row.kernel_name, row.kernel_operation_mode, row.kernel_provider, row.gpu_name, case.key, row.timestamp
        )
        cited = self._cited(row, kernel, case)
        prefix = row.metric_unit.lower()
        try:
            run = manifests.run(
                event,
                kernel,
                prefix="liger",
                source=SOURCE,
                cited={kind: cited[kind][0] for kind in ("implementation", "workload", "protocol", "environment")},
                observed_at=observed_at,
                spec=_MEASURED[row.metric_name](values),
                metrics={f"{prefix}_{q}": value for q, value in values.items()},
                labels={"liger_version": row.liger_version} if row.liger_version else None,
            )
        except KernelcatError as error:
            raise Unusable("invalid_document", row.kernel_name, str(error)) from None
        by_name = {(digest, manifest["metadata"]["name"]): manifest for digest, manifest in cited.values()}
        return doubts.Usable(record, row, event, run, values, dialect), by_name

    def _cited(self, row: Row, kernel: Kernel, case: Case) -> dict[str, tuple[str, dict]]:
        """Digest and manifest of what the run of a row cites, by kind."""
        name, mode, provider = row.kernel_name, row.kernel_operation_mode, row.kernel_provider
        protocol = published.protocol if row.metric_name == "speed" else published.memory_protocol
        scalars = tuple(case.scalars.items())
        try:
            host = self._once(("environment", row.gpu_name), published.host, row.gpu_name)
        except KernelcatError:
            raise Unusable("unknown_gpu", row.gpu_name, row.gpu_name) from None
        return {
            "implementation": self._once(
                ("implementation", kernel.slug, name, provider), published.implementation, name, kernel, provider
            ),
            "workload": self._once(("workload", kernel.slug, case.key, scalars), manifests.workload, kernel, case),
            "protocol": self._once(("protocol", row.metric_name, mode), protocol, mode),
            "environment": host,
            "operation": self._once(("operation", kernel.slug), manifests.operation, kernel),
            "project": self._once(("project", provider), manifests.project, CSV_PROVIDERS[provider]),
        }

    def _once(self, key: tuple, build, *arguments) -> tuple[str, dict]:
        if key not in self._built:
            manifest = build(*arguments)
            self._built[key] = identity.digest(manifest), manifest
        return self._built[key]


def _values(row: Row) -> dict[int, float]:
    """The median by 50 and, where both are finite, the 20th and 80th percentile, in the row's unit.

    Raises Unusable for a median that is no number above 0, and for numbers that no document can hold.
    """
    median = cases.number(row.y_value_50)
    # Written so that a NaN is refused. What is less than half a nanosecond, or half a byte, would be 0.
    if not 0.5 <= median * 1e6 <= median * 2**20 <= identity.MAX_INTEGER:
        raise Unusable("bad_median", row.kernel_name, f"y_value_50 {row.y_value_50}")
    spread = {20: cases.number(row.y_value_20), 80: cases.number(row.y_value_80)}
    if not all(map(math.isfinite, spread.values())):
        return {50: median}
    for q, value in spread.items():
        if not 0 <= value * 2**20 <= identity.MAX_INTEGER:
            raise Unusable("bad_percentile", row.kernel_name, f"y_value_{q} {value}")
    return {50: median, **spread}


def _speed(values: dict[int, float]) -> dict:
    """What a run's spec says about milliseconds."""
    ns = {q: identity.nanoseconds(ms) for q, ms in values.items()}
    spec = {"timing": {"primaryStatistic": "median", "latencyNs": {"median": ns.pop(50)}}}
    return spec | ({"measurements": [manifests.latency(f"p{q}", value) for q, value in ns.items()]} if ns else {})


def _memory(values: dict[int, float]) -> dict:
    """What a run's spec says about MiB."""
    return {
        "measurements": [
            {
                "metric": "peak_memory",
                "unit": "bytes",
                "statistic": "median" if q == 50 else f"p{q}",
                "value": math.floor(values[q] * 2**20 + 0.5),
            }
            for q in sorted(values)
        ]
    }


_MEASURED = {"speed": _speed, "memory": _memory}
