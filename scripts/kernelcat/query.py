"""Questions to a catalog: its runs as flat rows, and the filters that every command takes in the same form."""

import argparse
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

from kernelcat import identity
from kernelcat.errors import KernelcatError
from kernelcat.index import UNSPECIFIED, Run, at, runs_in, text_at
from kernelcat.kernel import MODES

# Providers that count as the conventional implementation of a kernel, the first one present in a group is its baseline.
BASELINES = ("huggingface", "torch", "pytorch", "megatron", "megatron-unfused")

_NS = "median p05 p20 p80 p95 mean minimum maximum mad".split()

COLUMNS = {
    "run": str,
    "kernel": str,
    "mode": str,
    "provider": str,
    "case": str,
    "dtype": str,
    "axes": dict,
    "scalars": dict,
    "device": str,
    "protocol": str,
    "status": str,
    "reason": str,
    "speedup": float,
    **{f"{name}_ns": int for name in _NS},
    "confidence95_low_ns": int,
    "confidence95_high_ns": int,
    "samples": int,
    "device_median_ns": int,
    "compile_ns": int,
    "peak_memory_bytes": int,
    "peak_memory_reserved_bytes": int,
    "peak_memory_increase_bytes": int,
    "bandwidth_bytes_per_second": int,
    "flop_per_second": int,
    "attainable": float,
    "quality": str,
    "error": float,
    "absolute_error": float,
    "matched_ratio": float,
    "liger_version": str,
    "torch_version": str,
    "triton_version": str,
    "driver_version": str,
    "source": str,
    "observed_at": str,
    "workload": str,
    "operation": str,
    "implementation": str,
    "environment": str,
    "protocol_digest": str,
}
"""The columns of a row and their types. Digests, names and texts are as the documents have them, `axes` and `scalars`
are {name: number}. Times end in _ns. `device` is product and form factor, `peak_memory_bytes` what was allocated,
`attainable` the least possible time over the median, `error` the maximum relative error of outputs and gradients,
`source` who measured: kernelcat or the suite that was imported. None stands for what a run does not say."""


def rows(catalog: dict) -> list[dict]:
    """One row per run with all of `COLUMNS`: series together, fastest first.

    `speedup` is the baseline's median over this one, among the runs of one workload, device, protocol and mode that
    passed. The baseline is the first of `BASELINES` there, its newest run if it has several; None without one.
    """
    objects = catalog["objects"]
    found = sorted(runs_in(objects), key=_series)
    baselines = _baselines(found)
    return [_row(objects, run, baselines.get(_group(run))) for run in found]


def fastest(rows: Iterable[dict]) -> list[dict]:
    """The fastest right one of the rows of each workload, device, protocol and mode. One that is faster than the device
    allows did something else, and is passed over."""
    best: dict[tuple, dict] = {}
    for row in rows:
        group = tuple(row[name] for name in ("workload", "device", "protocol_digest", "mode"))
        if row["status"] == "passed" and row["median_ns"] and "above_limit" not in (row["quality"] or ""):
            known = best.setdefault(group, row)
            if row["median_ns"] < known["median_ns"]:
                best[group] = row
    return list(best.values())


def find(rows: Iterable[dict], digest: str) -> dict:
    """The row of the run whose digest begins so, with or without "sha256:". Raises KernelcatError when no run's does,
    or several runs' do."""
    wanted = digest if digest.startswith("sha256:") else f"sha256:{digest}"
    found = [row for row in rows if row["run"].startswith(wanted)]
    if len(found) != 1:
        count = "no run" if not found else f"{len(found)} runs"
        raise KernelcatError(f"expected the digest of one run, or its beginning, found {count} for {digest!r}")
    return found[0]


def _row(objects: dict[str, dict], run: Run, baseline: Run | None) -> dict:
    manifest = objects[run.run]
    spec = manifest.get("spec")
    case, environment = at(objects.get(run.workload), "spec"), at(objects.get(run.environment), "spec")
    latency = at(spec, "timing", "latencyNs")
    interval = at(latency, "confidence95")
    measured = _measurements(spec)
    software = at(environment, "software")
    scalars = at(case, "scalars")
    scalars = scalars if isinstance(scalars, dict) else {}
    values = {
        **{name: getattr(run, name) for name in ("run", "kernel", "mode", "provider", "case", "device", "status")},
        "dtype": run.case.rpartition("-")[2],
        "axes": _numbers(at(case, "axes")),
        "scalars": _numbers({name: at(scalars, name, "value") for name in scalars}),
        "protocol": text_at(objects.get(run.protocol), "metadata", "name", default=run.protocol or UNSPECIFIED),
        "reason": run.reason,
        **{f"{name}_ns": at(latency, name) or measured.get(("latency", name)) for name in _NS},
        "median_ns": run.median_ns,
        "samples": at(spec, "timing", "samples"),
        "device_median_ns": measured.get(("device_latency", "median")),
        "compile_ns": measured.get(("compile_time", "single")),
        "peak_memory_bytes": measured.get(
            ("peak_memory_allocated", "maximum"), measured.get(("peak_memory", "median"))
        ),
        "peak_memory_reserved_bytes": measured.get(("peak_memory_reserved", "maximum")),
        "peak_memory_increase_bytes": measured.get(("peak_memory_increase", "maximum")),
        "bandwidth_bytes_per_second": measured.get(("bandwidth", "median")),
        "flop_per_second": measured.get(("flop_rate", "median")),
        "attainable": run.attainable,
        "quality": run.quality,
        "error": run.error,
        "absolute_error": at(spec, "correctness", "maximumAbsoluteError"),
        "matched_ratio": at(spec, "correctness", "matchedRatio"),
        "liger_version": at(manifest, "metadata", "labels", "liger_version"),
        "torch_version": at(software, "framework", "version"),
        "triton_version": at(software, "libraries", "triton"),
        "driver_version": at(software, "driver"),
        "source": at(spec, "sourceNative", "source"),
        "observed_at": run.observed_at,
        "workload": run.workload,
        "operation": run.operation,
        "implementation": at(spec, "implementationDigest"),
        "environment": run.environment,
        "protocol_digest": run.protocol,
    }
    if isinstance(interval, list) and len(interval) == 2:
        values |= {"confidence95_low_ns": interval[0], "confidence95_high_ns": interval[1]}
    if baseline is not None and run.status == "passed" and run.median_ns:
        values["speedup"] = baseline.median_ns / run.median_ns
    return {name: _typed(values.get(name), kind) for name, kind in COLUMNS.items()}


def _group(run: Run) -> tuple:
    return run.workload, run.device, run.protocol, run.mode


def _baselines(runs: list[Run]) -> dict[tuple, Run]:
    """The baseline of each group that has one."""
    best: dict[tuple, tuple] = {}
    for run in runs:
        if run.provider in BASELINES and run.status == "passed" and run.median_ns:
            # Without its Z an instant with fractions sorts after the same second without.
            rank = -BASELINES.index(run.provider), run.observed_at.rstrip("Z"), run.run
            known = best.get(_group(run))
            if known is None or rank > known[0]:
                best[_group(run)] = rank, run
    return {group: run for group, (_, run) in best.items()}


def _series(run: Run) -> tuple:
    return run.kernel, run.mode, run.device, run.protocol or "", natural(run.case), run.workload or "", run.speed


def natural(text: str) -> tuple:
    """Sorts numbers inside of text by value: rows512 before rows1024."""
    parts = re.split("([0-9]+)", text)  # text and digits in turn
    # Compared by length, then digit by digit: int() refuses what is too long.
    parts[1::2] = ((len(digits.lstrip("0")), digits.lstrip("0")) for digits in parts[1::2])
    return parts, text


def _measurements(spec) -> dict[tuple, object]:
    listed = at(spec, "measurements")
    return {
        (at(entry, "metric"), at(entry, "statistic")): at(entry, "value")
        for entry in (listed if isinstance(listed, list) else ())
        if isinstance(at(entry, "metric"), str) and isinstance(at(entry, "statistic"), str)
    }


def _numbers(values) -> dict[str, float]:
    found = values.items() if isinstance(values, dict) else ()
    return {name: value for name, value in found if type(value) in (int, float)}


def _typed(value, kind: type):
    """The value as one of the column's type, None where it is none: documents may come from outside."""
    if kind is float and (type(value) is int or isinstance(value, str)):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return None
    if type(value) is int and abs(value) > identity.MAX_INTEGER:
        return None
    return value if type(value) is kind else None


@dataclass(frozen=True)
class Filters:
    """Which runs are meant. None takes all; a comma separates alternatives."""

    kernel: str | None = None
    provider: str | None = None
    mode: str | None = None
    dtype: str | None = None
    workload: str | None = None
    device: str | None = None
    protocol: str | None = None
    version: str | None = None
    status: str | None = None

    def __call__(self, row: dict) -> bool:
        return all(
            wanted is None or any(_MATCHES[name](part.strip(), row) for part in wanted.split(","))
            for name, wanted in vars(self).items()
        )

    def select(self, rows: Iterable[dict]) -> list[dict]:
        return [row for row in rows if self(row)]


def _equal(column: str) -> Callable[[str, dict], bool]:
    return lambda wanted, row: wanted == row[column]


def _contains(column: str) -> Callable[[str, dict], bool]:
    return lambda wanted, row: wanted.casefold() in (row[column] or "").casefold()


def _is_workload(wanted: str, row: dict) -> bool:
    """Whether that is a part of the case's name, or the beginning of the digest: 8 digits at least."""
    whole = ("(?<![0-9])" if wanted[:1].isdigit() else "", "(?![0-9])" if wanted[-1:].isdigit() else "")
    if re.search(re.escape(wanted).join(whole), row["case"]):  # rows512 is no part of rows5120
        return True
    prefix = wanted if wanted.startswith("sha256:") else f"sha256:{wanted}" if len(wanted) >= 8 else None
    return prefix is not None and row["workload"] is not None and row["workload"].startswith(prefix)


_MATCHES = {
    "kernel": _equal("kernel"),
    "provider": _equal("provider"),
    "mode": _equal("mode"),
    "dtype": _equal("dtype"),
    "workload": _is_workload,
    "device": _contains("device"),
    "protocol": _contains("protocol"),
    "version": _equal("liger_version"),
    "status": _equal("status"),
}

_HELP = {
    "kernel": "this kernel",
    "provider": "this provider",
    "mode": f"this mode: {', '.join(MODES)}",
    "dtype": "this dtype, as in bf16",
    "workload": "a part of the case's name, or the beginning of the workload's digest",
    "device": "a part of the device's name",
    "protocol": "a part of the protocol's name",
    "version": "this version of liger-kernel",
    "status": "this status, as in passed, incorrect_numerical or compile_error",
}


def add_filters(parser: argparse.ArgumentParser, names: Iterable[str] = tuple(_HELP)) -> None:
    """Adds the options that say which runs are meant, all or those of `names`; `filters` reads them."""
    group = parser.add_argument_group("which runs (a comma separates alternatives: --mode forward,full)")
    for name in names:
        group.add_argument(f"--{name}", help=_HELP[name], type=_modes if name == "mode" else str)


def _modes(text: str) -> str:
    if unknown := [mode for mode in text.split(",") if mode.strip() not in MODES]:
        raise argparse.ArgumentTypeError(f"expected {', '.join(MODES)}, found {unknown[0]!r}")
    return text


def filters(arguments: argparse.Namespace) -> Filters:
    return Filters(**{field.name: getattr(arguments, field.name, None) for field in fields(Filters)})
