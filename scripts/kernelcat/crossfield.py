"""The rules that JSON Schema cannot say: order, sortedness, references between fields, dates that exist.

Each rule takes a spec that may have any form: what the schema refuses is skipped here, so that all faults of a document
can be named at once.
"""

from collections.abc import Iterator
from itertools import pairwise

from kernelcat import identity
from kernelcat.errors import KernelcatError
from kernelcat.fault import Fault, one_line, pointer, shown
from kernelcat.identity import Place


def crossfield(kind: str, spec: object, place: Place = ()) -> Iterator[Fault]:
    """The faults of the `spec` of a manifest of this kind, which stands at `place` in the document."""
    rule = _RULES.get(kind)
    if rule is None or not isinstance(spec, dict):
        return
    for inner, found, expected in rule(spec):
        yield Fault(pointer(*place, *inner), shown(found), expected)


Finding = tuple[Place, object, str]


def _run(spec: dict) -> Iterator[Finding]:
    instant = spec.get("observedAt")
    if isinstance(instant, str):
        try:
            identity.instant(instant)
        except KernelcatError:
            yield ("observedAt",), instant, "a time that exists"
    latency = _dict(_dict(spec.get("timing")).get("latencyNs"))
    at = ("timing", "latencyNs")
    ordered = [name for name in ("minimum", "p05", "median", "p95", "maximum") if _is_number(latency.get(name))]
    for low, high in pairwise(ordered):
        if latency[low] > latency[high]:
            yield (*at, low), latency[low], f"at most the {high}, {shown(latency[high])}"
    mean = latency.get("mean")
    if _is_number(mean):
        if _is_number(latency.get("minimum")) and mean < latency["minimum"]:
            yield (*at, "mean"), mean, f"at least the minimum, {shown(latency['minimum'])}"
        if _is_number(latency.get("maximum")) and mean > latency["maximum"]:
            yield (*at, "mean"), mean, f"at most the maximum, {shown(latency['maximum'])}"
    pair = latency.get("confidence95")
    if isinstance(pair, list) and len(pair) == 2 and all(map(_is_number, pair)) and pair[0] > pair[1]:
        yield (*at, "confidence95"), pair, "a pair [lo, hi] with lo ≤ hi"


def _operation(spec: dict) -> Iterator[Finding]:
    axes = _dict(spec.get("axes"))
    derived: dict[str, frozenset[str]] = {}
    for name, axis in axes.items():
        axis = _dict(axis)
        bounds = [field for field in ("minimum", "value", "maximum") if _is_number(axis.get(field))]
        for low, high in pairwise(bounds):
            if axis[low] > axis[high]:
                yield ("axes", name, low), axis[low], f"at most the {high}, {shown(axis[high])}"
        expression = axis.get("expression")
        if not isinstance(expression, str):
            continue
        try:
            derived[name] = identity.names_in(expression)
        except KernelcatError:
            yield ("axes", name, "expression"), expression, "an expression that can be computed, such as hidden // 2"
    for name in derived:
        if _reaches(name, derived):
            found = axes[name]["expression"]
            yield ("axes", name, "expression"), found, "an expression that does not need its own axis"
    known = one_line(", ".join(axes))
    for side in ("inputs", "outputs"):
        seen: set[str] = set()
        for index, argument in enumerate(_list(spec.get(side))):
            name = _dict(argument).get("name")
            if isinstance(name, str):
                if name in seen:
                    yield (side, index, "name"), name, f"a name that no other of the {side} has"
                seen.add(name)
            for position, size in enumerate(_list(_dict(_dict(argument).get("tensor")).get("shape"))):
                if isinstance(size, str) and size not in axes:
                    yield (side, index, "tensor", "shape", position), size, f"an axis of this operation ({known})"


def _reaches(axis: str, derived: dict[str, frozenset[str]]) -> bool:
    """True when computing `axis` needs `axis`."""
    seen: set[str] = set()
    todo = list(derived[axis])
    while todo:
        name = todo.pop()
        if name == axis:
            return True
        if name not in seen:
            seen.add(name)
            todo.extend(derived.get(name, ()))
    return False


def _workload(spec: dict) -> Iterator[Finding]:
    for name, tensor in _dict(spec.get("tensors")).items():
        shape, strides = _dict(tensor).get("shape"), _dict(tensor).get("strides")
        if isinstance(shape, list) and isinstance(strides, list) and len(shape) != len(strides):
            yield ("tensors", name, "strides"), strides, f"one stride for each of {len(shape)} dimensions"


def _implementation(spec: dict) -> Iterator[Finding]:
    for name, members in _dict(spec.get("support")).items():
        if isinstance(members, list) and all(isinstance(member, str) for member in members):
            ordered = sorted(members, key=identity.code_units)
            if members != ordered:
                yield ("support", name), members, f"a sorted list: {shown(ordered)}"


_RULES = {
    "BenchmarkRun": _run,
    "OperationSpec": _operation,
    "WorkloadCase": _workload,
    "ImplementationRevision": _implementation,
}


def _dict(value: object) -> dict:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list:
    return value if isinstance(value, list) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
