"""An outside CSV of Liger's benchmark suite → the documents that everybody else computes, and a report of every row.

The identities are those that the kernel index has published for the rows of Liger's own data: digests are exact.
"""

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from kernelcat import catalog, environment, files, identity, kernels, manifests, metrics
from kernelcat.errors import KernelcatError
from kernelcat.fault import one_line
from kernelcat.kernel import MODES, TORCH_NAMES, Case, Dialect, Kernel
from kernelcat.libraries import CSV_PROVIDERS

SOURCE = "liger-kernel-bench"

TIMED = {
    "forward": "the module forward pass",
    "backward": "the backward pass of the module output given a random upstream gradient",
    "full": "the forward pass plus the backward pass",
}
NOTES = (
    "Timed: {timed}, via triton.testing.do_bench with quantiles 0.5/0.2/0.8 (median with p20/p80 spread). The upstream "
    "CSV records no CUDA, driver, or torch version; the Liger release rides each run's labels. Comparable only within "
    "one kernel, workload, timed pass, and GPU."
)

DTYPES = {name: token for token, name in TORCH_NAMES.items()}


class _Unusable(Exception):
    """Why a row cannot be imported: `reason` is a token, `key` what the report counts it under, `found` the detail."""

    def __init__(self, reason: str, key: str, found: str):
        super().__init__(reason)
        self.reason, self.key, self.found = reason, one_line(key), one_line(found, 160)


@dataclass
class Import:
    """What became of a file: runs, what they cite (by digest), and the fate of each row.

    Always: rows = imported + duplicates + skipped.
    """

    runs: list[dict] = field(default_factory=list)
    cited: dict[str, dict] = field(default_factory=dict)
    rows: int = 0
    imported: Counter = field(default_factory=Counter)
    duplicates: int = 0
    skipped: dict[str, Counter] = field(default_factory=dict)
    entries: list[dict] = field(default_factory=list)

    @property
    def manifests(self) -> list[dict]:
        """Everything that a catalog of the file holds."""
        return [*self.runs, *self.cited.values()]

    @property
    def report(self) -> dict:
        """The content of report.json."""
        return {
            "rows": self.rows,
            "imported": dict(sorted(self.imported.items())),
            "duplicates": self.duplicates,
            "skipped": {reason: dict(sorted(counts.items())) for reason, counts in sorted(self.skipped.items())},
            "entries": self.entries,
        }

    def summary(self) -> list[str]:
        """The report in a few lines for people."""
        skipped = sum(counts.total() for counts in self.skipped.values())
        lines = [
            f"{self.rows} row{'' if self.rows == 1 else 's'}: {self.imported.total()} imported, "
            f"{self.duplicates} duplicates, {skipped} skipped"
        ]
        for reason, counts in sorted(self.skipped.items()):
            shown = ", ".join(f"{key or 'nothing'} ({count})" for key, count in sorted(counts.items())[:8])
            more = f" and {len(counts) - 8} more" if len(counts) > 8 else ""
            lines.append(f"skipped, {reason}: {shown}{more}")
        return lines


def import_csv(source: str | Path) -> Import:
    """Reads a CSV and builds the manifests of every row that can be used.

    Raises KernelcatError, one line, when the file as a whole cannot be trusted (metrics.read says when).
    """
    result = Import()
    builder = _Builder()
    seen: dict[str, tuple[int, str]] = {}
    for number, row in metrics.read(source):
        result.rows += 1
        try:
            if isinstance(row, metrics.Problem):
                raise _Unusable(row.reason, "", row.found)
            event, run, cited = builder.run(row)
        except _Unusable as problem:
            result.skipped.setdefault(problem.reason, Counter())[problem.key] += 1
            result.entries.append({"record": number, "reason": problem.reason, "found": problem.found})
            continue
        if event.external_id in seen:
            first, value = seen[event.external_id]
            same = "the same value" if value == row.y_value_50 else f"{value} there, {one_line(row.y_value_50)} here"
            found = f"{event.external_id} as in record {first}, {same}"
            result.duplicates += 1
            result.entries.append({"record": number, "reason": "duplicate", "found": found})
            continue
        seen[event.external_id] = number, row.y_value_50
        result.imported[row.metric_name] += 1
        result.runs.append(run)
        result.cited.update(cited)
    return result


def write(result: Import, folder: str | Path) -> None:
    """Writes catalog.json and report.json to `folder`. Raises OSError."""
    folder = Path(folder)
    catalog.write(folder / "catalog.json", catalog.build(result.manifests))
    report = json.dumps(result.report, indent=1, ensure_ascii=False, allow_nan=False)
    files.write(folder / "report.json", (report + "\n").encode())


class _Builder:
    """Builds runs and, each once, what they cite."""

    def __init__(self):
        self.kernels = kernels.load_all()
        self._built: dict[tuple, tuple[str, dict]] = {}

    def run(self, row: metrics.Row) -> tuple[manifests.Event, dict, dict[str, dict]]:
        """The event of a row, its run, and what that cites by digest. Raises _Unusable."""
        kernel = self.kernels.get(row.kernel_name)
        if kernel is None:
            raise _Unusable("unknown_kernel", row.kernel_name, row.kernel_name)
        if row.metric_name != "speed":
            raise _Unusable("unsupported_metric", row.metric_name, row.metric_name)
        if row.metric_unit != "ms":
            raise _Unusable("unknown_unit", row.metric_unit, row.metric_unit)
        if row.kernel_operation_mode not in MODES:
            raise _Unusable("unknown_mode", row.kernel_operation_mode, row.kernel_operation_mode)
        if row.kernel_provider not in CSV_PROVIDERS:
            raise _Unusable("unknown_provider", row.kernel_provider, row.kernel_provider)
        case = _case(row, kernel)
        median, median_ns = _latency(row)
        spread = _spread(row)
        try:
            observed_at = identity.instant(row.timestamp)
        except KernelcatError:
            raise _Unusable("bad_timestamp", row.timestamp, row.timestamp) from None
        event = manifests.Event(
            row.kernel_name, row.kernel_operation_mode, row.kernel_provider, row.gpu_name, case.key, row.timestamp
        )
        spec = {"timing": {"primaryStatistic": "median", "latencyNs": {"median": median_ns}}}
        if spread:
            spec["measurements"] = [manifests.latency(f"p{q}", ns) for q, (_, ns) in spread.items()]
        cited = self._cited(row, kernel, case)
        try:
            run = manifests.run(
                event,
                kernel,
                prefix="liger",
                source=SOURCE,
                cited={kind: cited[kind][0] for kind in ("implementation", "workload", "protocol", "environment")},
                observed_at=observed_at,
                spec=spec,
                metrics={"ms_50": median} | {f"ms_{q}": ms for q, (ms, _) in spread.items()},
                labels={"liger_version": row.liger_version} if row.liger_version else None,
            )
        except KernelcatError as error:
            raise _Unusable("invalid_document", row.kernel_name, str(error)) from None
        return event, run, dict(cited.values())

    def _cited(self, row: metrics.Row, kernel: Kernel, case: Case) -> dict[str, tuple[str, dict]]:
        """Digest and manifest of what the run of a row cites, by kind."""
        name, mode, provider = row.kernel_name, row.kernel_operation_mode, row.kernel_provider
        scalars = tuple(case.scalars.items())
        return {
            "implementation": self._once(("implementation", name, provider), implementation, name, kernel, provider),
            "workload": self._once(("workload", name, case.key, scalars), manifests.workload, kernel, case),
            "protocol": self._once(("protocol", mode), protocol, mode),
            "environment": self._once(("environment", row.gpu_name), host, row.gpu_name),
            "operation": self._once(("operation", name), manifests.operation, kernel),
            "project": self._once(("project", provider), manifests.project, CSV_PROVIDERS[provider]),
        }

    def _once(self, key: tuple, build, *arguments) -> tuple[str, dict]:
        if key not in self._built:
            manifest = build(*arguments)
            self._built[key] = identity.digest(manifest), manifest
        return self._built[key]


def implementation(name: str, kernel: Kernel, provider: str) -> dict:
    """The published ImplementationRevision of a kernel by a CSV's provider. Some providers share one digest."""
    library = CSV_PROVIDERS[provider]
    spec = {
        "projectRevision": {},
        "operation": {"specDigest": identity.digest(manifests.operation(kernel))},
        "support": {"hardwareArchitectures": [], "dtypes": []},
        **library.published,
    }
    title = f"{kernel.title} · {provider}"
    return manifests.manifest(
        "ImplementationRevision", identity.kebab(f"liger-bench-{name}-{provider}"), spec, title=title
    )


def protocol(mode: str) -> dict:
    """The published BenchmarkProtocol of Liger's suite for `mode`."""
    spec = {
        "harness": {
            "name": "Liger-Kernel benchmark scripts",
            "repository": "https://github.com/linkedin/Liger-Kernel",
        },
        "measurement": {"timer": "cuda_events", "primaryStatistic": "median"},
        "comparability": {"family": "liger_kernel_bench", "notes": NOTES.format(timed=TIMED[mode])},
    }
    name, title = identity.kebab(f"liger-bench-do-bench-{mode}"), f"Liger benchmark harness · {MODES[mode]}"
    return manifests.manifest("BenchmarkProtocol", name, spec, title=title)


def host(gpu_name: str) -> dict:
    """The published ExecutionEnvironment for a CSV's gpu_name: all that it says about where a row was measured."""
    product, form_factor = environment.split_gpu_name(gpu_name)
    if product not in environment.ARCHITECTURES:
        raise _Unusable("unknown_gpu", gpu_name, gpu_name)
    hardware = {"vendor": "nvidia", "product": product, "architecture": environment.ARCHITECTURES[product]}
    if form_factor:
        hardware["formFactor"] = form_factor
    name, title = (
        identity.kebab(f"liger-bench-{gpu_name}"),
        f"Liger benchmark host · {gpu_name.removeprefix('NVIDIA ')}",
    )
    return manifests.manifest("ExecutionEnvironment", name, {"hardware": hardware, "software": {}}, title=title)


def _case(row: metrics.Row, kernel: Kernel) -> Case:
    """The case that a row's x and config describe, by the dialect whose x and keys they have exactly."""
    config = _config(row)
    dialect = next((d for d in kernel.dialects if d.x == row.x_name and d.keys == config.keys() - {d.x}), None)
    if dialect is None:
        keys = ", ".join(sorted(config)) or "nothing"
        raise _Unusable("unknown_dialect", row.kernel_name, f"x_name {row.x_name} with the config keys {keys}")
    for key, expected in dialect.fixed.items():
        if config[key] != expected:
            raise _Unusable("unknown_config", row.kernel_name, f"{key} {config[key]!r} where {expected!r} is known")
    return Case(_axes(row, dialect, config), _dtype(row, dialect, config), _scalars(row, dialect, config))


def _config(row: metrics.Row) -> dict:
    def refuse(text):
        raise ValueError(text)

    text = row.extra_benchmark_config_str
    try:
        config = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise _Unusable("bad_config", row.kernel_name, f"extra_benchmark_config_str {text}")
    return config


def _axes(row: metrics.Row, dialect: Dialect, config: dict) -> dict[str, int]:
    x = _number(row.x_value)
    if not x.is_integer():
        raise _Unusable("bad_x_value", row.kernel_name, f"x_value {row.x_value}")
    # axis expressions have lower-case names only, the CSV's keys are of any case
    known = {key.lower(): value for key, value in config.items()} | {dialect.x.lower(): int(x)}
    axes = {}
    for axis, expression in dialect.axes.items():
        try:
            axes[axis] = identity.evaluate(expression.lower(), known)
        except KernelcatError as error:
            raise _Unusable("bad_axis", row.kernel_name, f"{axis}: {error}") from None
        if axes[axis] < 1:
            raise _Unusable("bad_axis", row.kernel_name, f"{axis} {axes[axis]}, expected at least 1")
    return axes


def _dtype(row: metrics.Row, dialect: Dialect, config: dict) -> str:
    if dialect.dtype is None:
        return "fp32"
    name = config[dialect.dtype]
    if not isinstance(name, str) or name not in DTYPES:
        raise _Unusable("unknown_dtype", str(name), f"{dialect.dtype} {name!r}")
    return DTYPES[name]


def _scalars(row: metrics.Row, dialect: Dialect, config: dict) -> dict[str, float]:
    scalars = {}
    for scalar, key in dialect.scalars.items():
        value = config[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not abs(value) <= identity.MAX_INTEGER:  # written so that a NaN is refused
            raise _Unusable("bad_scalar", row.kernel_name, f"{key} {value!r}")
        scalars[scalar] = value
    return scalars


def _latency(row: metrics.Row) -> tuple[float, int]:
    """The median in ms and in ns."""
    median = _number(row.y_value_50)
    try:
        if median > 0:  # which a NaN is not
            return median, identity.nanoseconds(median)
    except KernelcatError:
        pass
    raise _Unusable("bad_median", row.kernel_name, f"y_value_50 {row.y_value_50}")


def _spread(row: metrics.Row) -> dict[int, tuple[float, int]]:
    """The 20th and 80th percentile in ms and ns, where both are finite."""
    spread = {20: _number(row.y_value_20), 80: _number(row.y_value_80)}
    if not all(map(math.isfinite, spread.values())):
        return {}
    for q, ms in spread.items():
        if not 0 <= ms * 1e6 < identity.MAX_INTEGER:
            raise _Unusable("bad_percentile", row.kernel_name, f"y_value_{q} {ms}")
    return {q: (ms, identity.nanoseconds(ms)) for q, ms in spread.items()}


def _number(text: str) -> float:
    """The number a cell holds; NaN for what is none. float() alone would take "1_000" and other scripts' digits."""
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan
