"""A catalog's runs for people: as a table, and the closing summary."""

import sys
from collections import Counter

from kernelcat.fault import printable
from kernelcat.index import runs_in, summary


def table(rows: list[dict]) -> str:
    """Rows of kernelcat.query as aligned text, one line each under a header; "no runs" when there are none."""
    from tabulate import tabulate  # 80 ms, and only people who look at tables pay it

    if not rows:
        return "no runs"
    texts = ("kernel", "mode", "provider", "case", "device", "protocol", "status")
    lines = [
        [short(row["run"]), *(printable(row[name]) for name in texts)]
        + [duration(row["median_ns"]), "" if row["speedup"] is None else ratio(row["speedup"])]
        + [percent(row["attainable"]), error(row["error"], ".1e")]
        + ["" if row["quality"] in ("good", None) else printable(row["quality"])]
        for row in rows
    ]
    align = ["left"] * (1 + len(texts)) + ["right", "right", "right", "right", "left"]
    header = ["run", *texts, "median", "speed-up", "of limit", "error", "marks"]
    return tabulate(lines, header, tablefmt="simple", colalign=align, disable_numparse=True)


def runs_line(counts: dict[str, int]) -> str:
    """How many runs there are, and how many of each status."""
    ordered = sorted(counts.items(), key=lambda item: (item[0] != "passed", item[0]))
    total = sum(counts.values())
    said = ", ".join(f"{count} {printable(status)}" for status, count in ordered)
    return f"{total} run{'' if total == 1 else 's'}" + (f": {said}" if said else "")


def summary_lines(catalog: dict) -> list[str]:
    """How many runs ended how and how many are marked, then one line for each that failed, with why."""
    objects = catalog["objects"]
    runs = runs_in(objects)
    counted = summary(objects, runs)
    lines = [runs_line(counted["runs"])]
    marks = Counter(mark for run in runs for mark in run.quality.split() if mark != "good")
    if marks:
        lines.append("marked: " + ", ".join(f"{count} {printable(mark)}" for mark, count in sorted(marks.items())))
    for failure in counted["failures"]:
        reason = failure["reason"].strip().split("\n", 1)[0]
        place = " ".join(failure[key] for key in ("kernel", "mode", "provider", "case"))
        lines.append(printable(f"{place}: {failure['status']}" + (f": {reason}" if reason else "")))
    return lines


def short(digest: str) -> str:
    """The beginning of a digest, enough to name a run by."""
    return digest.removeprefix("sha256:")[:10]


def error(value: float | None, form: str) -> str:
    """An error in that format; documents hold the largest double for what is not finite."""
    if value is None:
        return ""
    return "not finite" if value == sys.float_info.max else format(value, form)


def duration(ns: int | None) -> str:
    """Nanoseconds as ns, µs or ms with three digits at least."""
    if ns is None:
        return ""
    if ns < 1000:
        return f"{ns} ns"
    value, unit = (ns / 1e3, "µs") if ns < 1_000_000 else (ns / 1e6, "ms")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def about(seconds: float) -> str:
    """How long something takes, as precisely as such a forecast can be: 40 s, 12 min or 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def percent(fraction: float | None) -> str:
    """As in 93 %."""
    return "" if fraction is None else f"{fraction:.0%}".replace("%", " %")


def ratio(value: float) -> str:
    """As in 3.46x; what is far slower than its baseline keeps a digit: 0.0007x."""
    return f"{value:.2f}x" if value >= 0.1 else f"{value:.1g}x"
