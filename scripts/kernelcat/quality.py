"""Marks on runs whose numbers are not to be taken at face value, and why."""

from collections.abc import Iterable

from kernelcat import samples
from kernelcat.roofline import TOLERANCE
from kernelcat.timing import FEW

MEANINGS = {
    "degenerate": "fewer than 20 samples: one pass takes longer than the time limit allows",
    "unstable": "the confidence interval of the median did not get as narrow as the configuration asks",
    "drift": "the second half of the samples differs from the first",
    "host_bound": "a call took over 5 % longer than the device was busy: the number is that of the host's launching",
    "unsettled": "after a pause the device took over 5 % longer: the number depends on what ran before",
    "throttled": "the GPU lowered its clocks for power or heat: before, after, or more than 1 % of the time between",
    "shared": "another process used the GPU, before or after",
    "inconsistent": "the full pass took less time than one of its halves",
    "above_limit": "more than 5 % faster than the device's memory and matrix units allow",
    "gradients_in_forward": "the provider computes gradients in its forward pass: compare `full`, not the halves",
}
"""The marks, and why."""

GRADIENTS_IN_FORWARD = "gradients_in_forward"
"""The mark that a provider says of itself, in the modes `forward` and `backward`."""

APART = 1.05
"""How far eager calls and the device's own time, at the same clock, may lie apart, as a ratio."""

DRIFT = 0.02
"""How far the medians of the halves may lie apart, as a part of the whole's."""

PRECISION = 0.01
"""What the interval is measured by where the protocol has no precision of its own (do_bench)."""

THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""Of nvml.h's nvmlClocksEventReason…: SwPowerCap, HwSlowdown, SwThermalSlowdown, HwThermalSlowdown, HwPowerBrake."""


def marks(record: dict, halves: Iterable[float] = (), fraction: float | None = None) -> list[str]:
    """The marks of a record that has passed.

    `halves` are the medians in ms of the forward and the backward pass where the record is of `full`, `fraction` is the
    least attainable time over the median.
    """
    found = record["samplesMs"]
    median = samples.quantile(sorted(found), 0.5)
    sampling = record["configuration"]["sampling"] or {"precision": PRECISION}
    state = record["state"]
    device = samples.quantile(sorted(record.get("deviceMs", [median])), 0.5)
    throttled = _throttled(state["before"], state["after"], record["samplingSeconds"])
    slowed = _slowed(state["before"], state["after"]) if throttled else 1
    tests = {
        "degenerate": len(found) < FEW,
        "unstable": samples.half_width(found) > sampling["precision"],
        "drift": _drifts(found, median),
        "host_bound": median > APART * device * slowed,
        "unsettled": device > APART * median,
        "throttled": throttled,
        "shared": any(reading.get("processes", 0) > 1 for reading in state.values()),
        "inconsistent": any(median < half for half in halves),
        "above_limit": fraction is not None and fraction > TOLERANCE,
    }
    return [mark for mark, holds in tests.items() if holds]


def _throttled(before: dict, after: dict, seconds: float) -> bool:
    """Whether the GPU says so at either reading, or counted time under a limit between them."""
    if any(reading.get("throttleReasons", 0) & THROTTLED for reading in (before, after)):
        return True
    counters = ("powerViolationNs", "thermalViolationNs")
    return any(
        after[name] - before[name] > 0.01 * seconds * 1e9 for name in counters if {name} <= before.keys() & after
    )


def _slowed(before: dict, after: dict) -> float:
    """By which factor the clock of the multiprocessors fell from one reading to the other, at least 1. Samples of the
    device's own time have a pause before each, in which it recovers: they run at the clock of before, and the others
    end with that of after, the reading that follows them at once."""
    clocks = before.get("smClockMHz"), after.get("smClockMHz")
    return max(1, clocks[0] / clocks[1]) if all(clocks) else 1


def _drifts(found: list[float], median: float) -> bool:
    """Whether the medians of both halves lie apart and their confidence intervals do not touch."""
    if len(found) < FEW:
        return False
    first, second = (sorted(half) for half in (found[: len(found) // 2], found[len(found) // 2 :]))
    (low, high), (other_low, other_high) = samples.median_interval(first), samples.median_interval(second)
    apart = abs(samples.quantile(first, 0.5) - samples.quantile(second, 0.5)) > DRIFT * median
    return apart and (high < other_low or other_high < low)
