"""Documents written by hand: durations with a unit become the integer nanoseconds that documents hold."""

import re
from fractions import Fraction

from kernelcat.errors import KernelcatError
from kernelcat.fault import shown

_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}

_DURATION = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) ?(ns|us|µs|ms|s)")


def normalised(document: object) -> object:
    """The document with each duration as integer nanoseconds: "0.008 ms" → 8000. Digests are those of the result.

    Durations are a protocol's warmupDuration, a run's latencies and raw samples, and measurements whose unit is ns, in
    a manifest, a {run, protocol, environment} document or the objects of a catalog. Everything else stays as it is.

    Raises KernelcatError for a duration that is no whole number of nanoseconds.
    """
    if not isinstance(document, dict):
        return document
    if "kind" not in document:
        return {key: _manifest(value) for key, value in document.items()}
    if isinstance(document.get("objects"), dict):
        return {**document, "objects": {key: _manifest(value) for key, value in document["objects"].items()}}
    return _manifest(document)


def _manifest(value):
    kind = value.get("kind") if isinstance(value, dict) else None
    return _RULES[kind](value) if isinstance(kind, str) and kind in _RULES else value


def _at(value, path: tuple[str, ...], change):
    """`value` with what stands at the path changed; as it is where the path leads nowhere."""
    if not path:
        return change(value)
    if not isinstance(value, dict) or path[0] not in value:
        return value
    return {**value, path[0]: _at(value[path[0]], path[1:], change)}


def _protocol(manifest: dict) -> dict:
    return _at(manifest, ("spec", "measurement", "warmupDuration"), _nanoseconds)


def _run(manifest: dict) -> dict:
    manifest = _at(manifest, ("spec", "timing", "latencyNs"), _statistics)
    manifest = _at(manifest, ("spec", "timing", "rawSamples"), _durations)
    return _at(manifest, ("spec", "measurements"), lambda entries: _listed(entries, _measurement))


def _statistics(value):
    return {key: _durations(item) for key, item in value.items()} if isinstance(value, dict) else value


def _durations(value):
    return [_nanoseconds(item) for item in value] if isinstance(value, list) else _nanoseconds(value)


def _listed(value, change):
    return [change(item) for item in value] if isinstance(value, list) else value


def _measurement(entry):
    return _at(entry, ("value",), _nanoseconds) if isinstance(entry, dict) and entry.get("unit") == "ns" else entry


def _nanoseconds(value):
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value  # the schema says what is wrong with it, if anything
    ns = Fraction(match[1]) * _NS[match[2]]
    if ns.denominator != 1:
        raise KernelcatError(f"expected a duration of whole nanoseconds, found {shown(value)}")
    return int(ns)


_RULES = {"BenchmarkProtocol": _protocol, "BenchmarkRun": _run}
