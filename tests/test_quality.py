"""Marks on doubtful runs: each stands where it must, and only there."""

import pytest

from kernelcat import quality

STEADY = [1.0 + 0.001 * (number % 3) for number in range(100)]
UNSETTLED = ["unsettled", "throttled"]
SLOW = {"throttleReasons": 0x4}
SAMPLING = {"precision": 0.01, "seconds": 1, "samples": 1000}


def record(found: list[float] = STEADY, before: dict | None = None, after: dict | None = None, **values) -> dict:
    return {
        "samplesMs": found,
        "samplingSeconds": 1.0,
        "state": {"before": before or {}, "after": after or {}},
        "configuration": {"sampling": SAMPLING},
        **values,
    }


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (record(), []),
        (record(STEADY[:20]), []),
        (record(STEADY[:19]), ["degenerate"]),
        (record([1.0]), ["degenerate"]),
        (record([1.0, 1.1] * 50), ["unstable"]),
        (record([1.0, 1.1] * 50, configuration={"sampling": {**SAMPLING, "precision": 0.1}}), []),
        (record([1.0, 1.1] * 50, configuration={"sampling": None}), ["unstable"]),
        (record([1.0] * 50 + [1.03] * 50), ["unstable", "drift"]),
        (record([1.0] * 50 + [1.019] * 50), []),
        (record([1.0] * 5 + [1.1] * 5), ["degenerate", "unstable"]),
        (record(deviceMs=[1.0] * 20), []),
        (record(deviceMs=[0.96] * 20), []),
        (record(deviceMs=[0.95] * 20), ["host_bound"]),
        (record(deviceMs=[1.05] * 20), []),
        (record(deviceMs=[1.06] * 20), ["unsettled"]),
        (record(deviceMs=[1.06] * 20, before={"smClockMHz": 1980}, after={**SLOW, "smClockMHz": 1500}), UNSETTLED),
        (record(before={"throttleReasons": 0x1 | 0x2 | 0x10 | 0x100}), []),
        (record(before={"throttleReasons": 0x4}), ["throttled"]),
        (record(after={"throttleReasons": 0x40}), ["throttled"]),
        (record(before={"powerViolationNs": 5}, after={"powerViolationNs": 10_000_005}), []),
        (record(before={"powerViolationNs": 5}, after={"powerViolationNs": 10_000_006}), ["throttled"]),
        (record(before={"thermalViolationNs": 0}, after={"thermalViolationNs": 10**9}), ["throttled"]),
        (record(after={"thermalViolationNs": 10**9}), []),
        # the device's own time is taken at the clock of before, the samples at that of after
        (record(deviceMs=[0.73] * 20, before={"smClockMHz": 1980}, after={**SLOW, "smClockMHz": 1500}), ["throttled"]),
        (
            record(deviceMs=[0.72] * 20, before={"smClockMHz": 1980}, after={**SLOW, "smClockMHz": 1500}),
            ["host_bound", "throttled"],
        ),
        (
            record(deviceMs=[0.9] * 20, before={"smClockMHz": 1500}, after={**SLOW, "smClockMHz": 1980}),
            ["host_bound", "throttled"],
        ),
        (record(deviceMs=[0.9] * 20, after={**SLOW, "smClockMHz": 1500}), ["host_bound", "throttled"]),
        (record(deviceMs=[0.9] * 20, before={"smClockMHz": 1980}, after={"smClockMHz": 345}), ["host_bound"]),
        (record(before={"processes": 1}, after={"processes": 1}), []),
        (record(before={"processes": 1}, after={"processes": 2}), ["shared"]),
    ],
)
def test_marks(measured, expected):
    assert quality.marks(measured) == expected


@pytest.mark.parametrize(
    ("halves", "fraction", "expected"),
    [
        ([0.9, 1.0], None, []),
        ([0.5, 1.1], None, ["inconsistent"]),
        ([], 1.05, []),
        ([], 1.06, ["above_limit"]),
        ([2.0], 1.06, ["inconsistent", "above_limit"]),
    ],
)
def test_marks_that_follow_from_other_runs(halves, fraction, expected):
    assert quality.marks(record(), halves, fraction) == expected
