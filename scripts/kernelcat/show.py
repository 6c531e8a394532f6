"""A catalog's runs for people: rows with speed-ups, as a table, and the closing summary."""

import re
from collections import Counter

from kernelcat.fault import printable
from kernelcat.index import UNSPECIFIED, Run, runs_in, summary, text_at

# Providers that count as the conventional implementation of a kernel, the first one present in a group is its baseline.
BASELINES = ("huggingface", "torch", "pytorch", "megatron", "megatron-unfused")

ROW = (
    "run",
    "kernel",
    "mode",
    "provider",
    "case",
    "workload",
    "device",
    "status",
    "median_ns",
    "observed_at",
    "quality",
    "attainable",
    "error",
)


def runs(
    catalog: dict,
    kernel: str | None = None,
    workload: str | None = None,
    device: str | None = None,
    provider: str | None = None,
    mode: str | None = None,
) -> list[dict]:
    """One row per run, with `run` (digest), `kernel`, `mode`, `provider`, `case`, `workload` (digest), `device`,
    `protocol` (name), `status`, `median_ns`, `speedup`, `observed_at`, `quality` (marks), `attainable` (the least
    possible time over the median, as text) and `error` (the maximum relative error); series together, fastest first.

    Filters: kernel, provider and mode exactly, device as a part of its name in any case, workload as a part of the
    case's name or the beginning of the digest (with "sha256:", or at least 8 hexadecimal digits).

    `speedup` is the baseline's median over this one, among the runs of one workload, device, protocol and mode that
    passed. The baseline is the first of `BASELINES` there, its newest run if it has several; None without one.
    """
    objects = catalog["objects"]
    everything = runs_in(objects)
    baselines = _baselines(everything)
    rows = []
    for run in sorted(everything, key=_series):
        if (
            (kernel is not None and kernel != run.kernel)
            or (provider is not None and provider != run.provider)
            or (mode is not None and mode != run.mode)
            or (device is not None and device.casefold() not in run.device.casefold())
            or (workload is not None and not _is_workload(workload, run))
        ):
            continue
        baseline = baselines.get(_group(run))
        timed = baseline is not None and run.status == "passed" and run.median_ns
        protocol = text_at(objects.get(run.protocol), "metadata", "name", default=run.protocol or UNSPECIFIED)
        speedup = baseline.median_ns / run.median_ns if timed else None
        values = {name: getattr(run, name) for name in ROW}
        rows.append({**values, "protocol": protocol, "speedup": speedup})
    return rows


def table(rows: list[dict]) -> str:
    """The rows of `runs` as aligned text, one line each under a header; "no runs" when there are none."""
    from tabulate import tabulate  # 80 ms, and only people who look at tables pay it

    if not rows:
        return "no runs"
    texts = ("kernel", "mode", "provider", "case", "device", "protocol", "status")
    lines = [
        [printable(row[name]) for name in texts]
        + [_duration(row["median_ns"]), "" if row["speedup"] is None else _ratio(row["speedup"])]
        + [_percent(row["attainable"]), "" if row["error"] is None else f"{row['error']:.1e}"]
        + ["" if row["quality"] == "good" else printable(row["quality"])]
        for row in rows
    ]
    align = ["left"] * len(texts) + ["right", "right", "right", "right", "left"]
    header = [*texts, "median", "speed-up", "of limit", "error", "marks"]
    return tabulate(lines, header, tablefmt="simple", colalign=align, disable_numparse=True)


def summary_lines(catalog: dict) -> list[str]:
    """How many runs ended how and how many are marked, then one line for each that failed, with why."""
    objects = catalog["objects"]
    runs = runs_in(objects)
    counted = summary(objects, runs)
    counts = sorted(counted["runs"].items(), key=lambda item: (item[0] != "passed", item[0]))
    total = sum(counted["runs"].values())
    said = ", ".join(f"{count} {printable(status)}" for status, count in counts)
    lines = [f"{total} run{'' if total == 1 else 's'}" + (f": {said}" if said else "")]
    marks = Counter(mark for run in runs for mark in run.quality.split() if mark != "good")
    if marks:
        lines.append("marked: " + ", ".join(f"{count} {printable(mark)}" for mark, count in sorted(marks.items())))
    for failure in counted["failures"]:
        reason = failure["reason"].strip().split("\n", 1)[0]
        place = " ".join(failure[key] for key in ("kernel", "mode", "provider", "case"))
        lines.append(printable(f"{place}: {failure['status']}" + (f": {reason}" if reason else "")))
    return lines


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
    return run.kernel, run.mode, run.device, run.protocol or "", _natural(run.case), run.workload or "", run.speed


def _natural(text: str) -> tuple:
    """Sorts numbers inside of text by value: rows512 before rows1024."""
    parts = re.split("([0-9]+)", text)  # text and digits in turn
    # Compared by length, then digit by digit: int() refuses what is too long.
    parts[1::2] = ((len(digits.lstrip("0")), digits.lstrip("0")) for digits in parts[1::2])
    return parts, text


def _is_workload(wanted: str, run: Run) -> bool:
    if wanted in run.case:
        return True
    prefix = wanted if wanted.startswith("sha256:") else f"sha256:{wanted}" if len(wanted) >= 8 else None
    return prefix is not None and run.workload is not None and run.workload.startswith(prefix)


def _duration(ns: int | None) -> str:
    """Nanoseconds as ns, µs or ms with three digits at least."""
    if ns is None:
        return ""
    if ns < 1000:
        return f"{ns} ns"
    value, unit = (ns / 1e3, "µs") if ns < 1_000_000 else (ns / 1e6, "ms")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def _percent(fraction: str) -> str:
    """As in 93 %."""
    try:
        return f"{float(fraction):.0%}".replace("%", " %")
    except ValueError:
        return printable(fraction)


def _ratio(ratio: float) -> str:
    """As in 3.46x; what is far slower than its baseline keeps a digit: 0.0007x."""
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.1g}x"
