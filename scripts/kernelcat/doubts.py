"""Rows that look wrong but import: what a reader of their numbers should know."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernelcat.dialect import Dialect
from kernelcat.fault import one_line
from kernelcat.manifests import Event
from kernelcat.metrics import Row

ONE_SAMPLE_MS = 5.0
"""The suite's do_bench (rep=10 ms) takes int(10 / estimate) samples: a single one of what takes longer than this."""

WIDE_SPREAD = 1.5
"""p80/p20 above this is worth a warning."""


@dataclass(frozen=True)
class Usable:
    """A row of a CSV with what was made of it. `values` holds its numbers in its unit, by 50 and perhaps 20 and 80."""

    record: int
    row: Row
    event: Event
    run: dict
    values: dict[int, float]
    dialect: Dialect


def warnings(rows: Iterable[Usable]) -> list[dict]:
    """One entry {record, reason, found} for each doubt, in the order of the records."""
    speed = [usable for usable in rows if usable.row.metric_name == "speed"]
    found = [entry for usable in speed for entry in _of_one(usable)]
    found += _faster_wholes(speed)
    return sorted(found, key=lambda entry: (entry["record"], entry["reason"]))


def collisions(rows: Iterable[Usable]) -> dict[str, int]:
    """How many `cells` of one implementation, workload, protocol and environment the speed rows fill, and how many of
    them are `mixed`: the published identities cannot tell their providers, or even their kernels, apart."""
    providers: dict[tuple, set[tuple[str, str]]] = defaultdict(set)
    for usable in rows:
        if usable.row.metric_name == "speed":
            spec = usable.run["spec"]
            cell = tuple(spec[f"{kind}Digest"] for kind in ("implementation", "workload", "protocol", "environment"))
            providers[cell].add((usable.row.kernel_name, usable.row.kernel_provider))
    return {"cells": len(providers), "mixed": sum(len(names) > 1 for names in providers.values())}


def _of_one(usable: Usable) -> Iterator[dict]:
    median, low, high = (usable.values.get(q) for q in (50, 20, 80))
    if low is None:
        found = f"y_value_20 {usable.row.y_value_20!r}, y_value_80 {usable.row.y_value_80!r}"
        yield _entry(usable, "no_spread", one_line(found, 160))
    elif not low <= median <= high:
        yield _entry(usable, "unordered", f"p20 {low} ms, p50 {median} ms, p80 {high} ms")
    if low is not None and low == median == high and median > ONE_SAMPLE_MS:
        yield _entry(usable, "single_sample", f"p20 = p50 = p80 = {median} ms")
    if low is not None and high > WIDE_SPREAD * low:
        yield _entry(usable, "wide_spread", f"p20 {low} ms, p80 {high} ms")
    if usable.dialect.backward_has_forward and usable.row.kernel_operation_mode == "backward":
        yield _entry(usable, "backward_has_forward", "the script times the forward pass as well")


def _faster_wholes(speed: list[Usable]) -> Iterator[dict]:
    """Full passes that took less time than a part of them."""
    series: dict[tuple, dict[str, list[Usable]]] = defaultdict(lambda: defaultdict(list))
    for usable in speed:
        row, event = usable.row, usable.event
        key = (event.kernel, event.provider, event.device, usable.run["spec"]["workloadDigest"], row.liger_version)
        series[key][event.mode].append(usable)
    for modes in series.values():
        parts = modes["forward"] + modes["backward"]
        slowest = max(parts, key=lambda usable: usable.values[50], default=None)
        for full in modes["full"] if slowest else ():
            if full.values[50] < slowest.values[50]:
                there = f"{slowest.event.mode} {slowest.values[50]} ms in record {slowest.record}"
                yield _entry(full, "full_faster", f"full {full.values[50]} ms, {there}")


def _entry(usable: Usable, reason: str, found: str) -> dict:
    return {"record": usable.record, "reason": reason, "found": found}
