"""Identity: canonical JSON (RFC 8785), digests, and the few derived names that published digests depend on."""

import ast
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache

import rfc8785

from kernelcat.errors import KernelcatError

API_VERSION = "kernelindex.dev/v1alpha1"
MAX_INTEGER = 2**53 - 1  # beyond it a double, and so another reader of the JSON, may hold another number
MAX_DEPTH = 100  # levels of nesting; far above what any kind needs, far below the interpreter's recursion limit
MAX_EXPRESSION = 200  # characters of an axis expression; also bounds the depth of its parentheses

Place = tuple[str | int, ...]

_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_OTHER_THAN_WORDS = re.compile("[^a-z0-9]+")
_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?Z?", re.ASCII
)
_TOKEN = re.compile(r" +|[a-z][a-z0-9_]*|[0-9]+(?![a-z0-9_])|//|[-+*%()]")
_LANGUAGE = "integers, axis names, + - * % // and parentheses"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Mod: lambda a, b: a % b,
    ast.FloorDiv: lambda a, b: a // b,
}
_NODES = (*_OPERATORS, ast.Constant, ast.Name, ast.Load, ast.UnaryOp, ast.USub, ast.BinOp)


def strays(value: object, place: Place = ()) -> Iterator[tuple[Place, object, str]]:
    """Yields (place, what was found, what was expected) for everything inside `value` that I-JSON cannot hold: other
    types than dict, list, str, int, float, bool, None, keys that are no text, lone surrogates, NaN and infinities,
    integers beyond ±(2^53-1), more than MAX_DEPTH levels.
    """
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        if _SURROGATE.search(value):
            yield place, value, "text without lone surrogates"
    elif isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            yield place, value, "an integer within ±(2^53-1)"
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield place, value, "a finite number"
    elif not isinstance(value, dict | list):
        yield place, value, "a JSON value (object, list, text, number, true, false or null)"
    elif len(place) >= MAX_DEPTH:
        yield place, value, f"at most {MAX_DEPTH} levels of nesting"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from strays(item, (*place, index))
    else:
        for key, item in value.items():
            name = key if isinstance(key, str) else _short(key)
            if name is not key or _SURROGATE.search(key):
                yield (*place, name), key, "a field name that is text without lone surrogates"
            yield from strays(item, (*place, name))


def canonical_json(value: object) -> bytes:
    """The JSON Canonicalization Scheme (RFC 8785) of `value`, as UTF-8 bytes: 1e-6 reads 0.000001, 1.0 reads 1, keys
    are sorted by UTF-16 code units.

    Raises KernelcatError for what JCS cannot write exactly: NaN, infinities, integers beyond ±(2^53-1), lone
    surrogates, other types than JSON's, keys that are no text, endless nesting.
    """
    if (plain := _plain_json(value)) is not None:
        return plain
    try:
        return rfc8785.dumps(value)
    except (ValueError, RecursionError) as error:  # rfc8785's own errors are ValueErrors
        for place, found, expected in strays(value):
            where = ascii(".".join(map(str, place)))[1:-1] or "top level"
            raise KernelcatError(f"canonical JSON: {where}: expected {expected}, found {_short(found)}") from error
        raise KernelcatError("canonical JSON: expected a JSON value of bounded depth") from error


_sorted_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def _plain_json(value: object) -> bytes | None:
    """The canonical JSON of a value of which the json module writes the same, ten times faster; None for others."""
    try:
        text = _sorted_json(value) if is_plain(value) else ""
    except RecursionError:
        return None
    return text.encode() if text and text.isascii() else None  # beyond ASCII keys sort differently


def is_plain(value: object) -> bool:
    """Whether all numbers in a JSON value are integers that a double holds, or floats that are not whole and that
    Python writes without an exponent; and keys are text. Canonical JSON has such numbers as Python has them."""
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or (type(item) is not str and not is_plain(item)):
                return False
        return True
    if kind is list:
        for item in value:
            if type(item) is not str and not is_plain(item):
                return False
        return True
    if kind is int:
        return -MAX_INTEGER <= value <= MAX_INTEGER
    if kind is float:
        return 1e-4 <= abs(value) < 1e16 and not value.is_integer()
    return value is None or kind is bool or kind is str


def digest(manifest: Mapping[str, object]) -> str:
    """The identity of a manifest: "sha256:" and the hex SHA-256 of the canonical JSON of its apiVersion, kind and
    spec. Metadata is editorial and never counts.

    Raises KernelcatError when one of the three is missing or the spec cannot be written as canonical JSON.
    """
    if not isinstance(manifest, Mapping):
        raise KernelcatError(f"digest: expected a manifest with apiVersion, kind and spec, found {_short(manifest)}")
    try:
        meaning = {field: manifest[field] for field in ("apiVersion", "kind", "spec")}
    except KeyError as error:
        raise KernelcatError(f"digest: expected a manifest with apiVersion, kind and spec, found no {error}") from error
    return "sha256:" + hashlib.sha256(canonical_json(meaning)).hexdigest()


def is_digest(value: object) -> bool:
    """Whether it has the form of a digest."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def code_units(text: str) -> bytes:
    """The sort key of RFC 8785: UTF-16 code units. It differs from Python's own order for characters beyond U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def kebab(text: str) -> str:
    """Lower case; each run of other characters than a-z and 0-9 becomes "-"; no "-" at the ends; then cut at 100
    characters (after which it may end in "-": published names do).
    """
    return _OTHER_THAN_WORDS.sub("-", text.lower()).strip("-")[:100]


def instant(text: str) -> str:
    """A time as the index writes it, UTC with milliseconds: "2024-09-03 15:39:46" → "2024-09-03T15:39:46.000Z".

    Takes "YYYY-MM-DD HH:MM:SS" and ISO 8601 with "T", each with up to 9 decimals (cut to 3, not rounded) and with or
    without "Z"; without a zone it is UTC. Raises KernelcatError for anything else: offsets, dates that do not exist.
    """
    match = _INSTANT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise KernelcatError(f'expected a UTC time such as "2024-09-03T15:39:46.000Z", found {_short(text)}')
    *fields, decimals = match.groups()
    try:
        moment = datetime(*map(int, fields), tzinfo=UTC)
    except ValueError as error:
        raise KernelcatError(f"expected a time that exists, found {_short(text)} ({error})") from error
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{(decimals or '').ljust(3, '0')[:3]}Z".rjust(24, "0")


def nanoseconds(ms: float) -> int:
    """Milliseconds → whole nanoseconds, half up on doubles: floor(ms · 1e6 + 0.5), as the published runs were made.
    Python's round() is half-even and gives another digest for one real row (46.8328125 ms).

    Raises KernelcatError when the result is not finite or beyond ±(2^53-1).
    """
    scaled = ms * 1e6 + 0.5
    if not abs(scaled) <= MAX_INTEGER:  # also NaN
        raise KernelcatError(f"expected milliseconds within ±(2^53-1) nanoseconds, found {_short(ms)}")
    return math.floor(scaled)


def case_key(axes: Mapping[str, int], dtype: str) -> str:
    """The readable key of one case: {"rows": 2048, "hidden": 16384}, "bf16" → "hidden16384-rows2048-bf16"; axes in the
    order of their UTF-16 code units.
    """
    return "-".join([*(f"{axis}{axes[axis]}" for axis in sorted(axes, key=code_units)), dtype])


def names_in(expression: str) -> frozenset[str]:
    """The axes that an axis expression mentions. Raises KernelcatError when it is not one."""
    _parsed(expression)
    return frozenset(_NAME.findall(expression))


def evaluate(expression: str, axes: Mapping[str, int]) -> int:
    """The value of an axis expression such as "hidden // q_heads": integers, axis names, + - * % // and parentheses,
    with Python's floor for // and %.

    Raises KernelcatError when it is no such expression, an axis is unknown or not an integer, a divisor is zero, or
    a step of it leaves ±(2^53-1).
    """
    return _evaluated(_parsed(expression), axes, expression)


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> ast.expr:
    if not isinstance(expression, str) or len(expression) > MAX_EXPRESSION:
        raise KernelcatError(f"expected an axis expression of at most {MAX_EXPRESSION} characters")
    end = 0
    while match := _TOKEN.match(expression, end):
        end = match.end()
    problem = KernelcatError(f"expected an expression of {_LANGUAGE}, found {_short(expression)}")
    if end < len(expression):
        raise problem
    try:
        # The prefix keeps axes apart from Python's keywords: an axis may be called "in".
        tree = ast.parse(_NAME.sub(r"axis_\g<0>", expression.strip(" ")), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise problem from error
    if not all(isinstance(node, _NODES) for node in ast.walk(tree)):  # a power, a call, an empty pair of parentheses
        raise problem
    return tree


def _evaluated(node: ast.expr, axes: Mapping[str, int], expression: str) -> int:
    match node:
        case ast.Constant(value=int(value)):
            pass
        case ast.Name(id=name):
            name = name.removeprefix("axis_")
            value = axes.get(name)
            if not isinstance(value, int) or isinstance(value, bool):
                known = ", ".join(sorted(axes)) or "none"
                raise KernelcatError(f'{expression}: expected a known axis (known: {known}), found "{name}"')
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = -_evaluated(operand, axes, expression)
        case ast.BinOp(left=left, op=operator, right=right):
            first, second = _evaluated(left, axes, expression), _evaluated(right, axes, expression)
            try:
                value = _OPERATORS[type(operator)](first, second)
            except ZeroDivisionError as error:
                raise KernelcatError(f"{expression}: expected a divisor other than 0, found 0") from error
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise KernelcatError(f"{expression}: expected a value within ±(2^53-1)")
    return value


def _short(value: object) -> str:
    """A picture of a scalar in at most 80 characters, the type of anything else: repr() of deep values never ends."""
    if isinstance(value, int) and not -(10**40) < value < 10**40:
        return "a huge integer"
    if not (value is None or isinstance(value, str | int | float)):
        return f"a Python {type(value).__name__}"
    text = ascii(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 80 else text[:79] + "…"
