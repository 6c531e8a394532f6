"""The schemas of schemas/, compiled: a fast yes for what is valid, and the validator that locates what is not.

jsonschema takes some hundred microseconds to accept a run and 0.1 s to import; the code that fastjsonschema generates
takes a tenth of the one and a quarter of the other. So documents meet fastjsonschema first, and jsonschema, whose
errors can be located, only when that does not accept. `plain` covers what fastjsonschema is lax about.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from kernelcat.identity import MAX_DEPTH, MAX_INTEGER

# What fastjsonschema (draft 7) reads as draft 2020-12 means it. A schema with another keyword is left to jsonschema.
_ANNOTATIONS = frozenset({"$schema", "$id", "$comment", "$defs", "title", "description", "default", "examples"})
_SINGLE = frozenset({"additionalProperties", "items", "propertyNames", "not", "if", "then", "else", "contains"})
_SEVERAL = frozenset({"allOf", "anyOf", "oneOf"})
_PLAIN = frozenset(
    "type enum required pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum "
    "minItems maxItems uniqueItems minProperties maxProperties".split()
)
_SURROGATE = re.compile("[\ud800-\udfff]")


@cache
def folder() -> Path:
    """Where the schemas are: inside the package when it is installed, else at the top of the repository."""
    inside = Path(__file__).parent / "schemas"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "schemas"


@cache
def schema(name: str) -> dict:
    """The schema of schemas/<name>.schema.json, each $ref with the name of the file that it points into. Raises
    OSError when there is none.
    """
    file = f"{name}.schema.json"

    def located(node: dict) -> dict:
        if str(node.get("$ref", "")).startswith("#"):
            node["$ref"] = file + node["$ref"]
        return node

    return json.loads((folder() / file).read_text(encoding="utf-8"), object_hook=located)


def resolved(reference: str) -> dict | bool:
    """The schema that a $ref of `schema` names: "common.schema.json#/$defs/token"."""
    file, _, fragment = reference.partition("#")
    target = schema(file.removesuffix(".schema.json"))
    for part in fragment.split("/")[1:]:
        target = target[part.replace("~1", "/").replace("~0", "~")]
    return target


def plain(value: object) -> bool:
    """True when `value` is surely plain JSON: exact types, finite numbers within ±(2^53-1), text without lone
    surrogates, fewer than MAX_DEPTH levels. False means: look closer (`identity.strays` names what it is).
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[object] = []
        for item in level:
            kind = type(item)
            if kind is str:
                if not item.isascii() and _SURROGATE.search(item):
                    return False
            elif kind is dict:
                for key in item:
                    if type(key) is not str or (not key.isascii() and _SURROGATE.search(key)):
                        return False
                deeper.extend(item.values())
            elif kind is list:
                deeper.extend(item)
            elif kind is int or kind is float:
                if not -MAX_INTEGER <= item <= MAX_INTEGER:  # also NaN; greater floats may be right, but not surely
                    return False
            elif item is not None and kind is not bool:
                return False
        if not deeper:
            return True
        level = deeper
    return False


def accepts(name: str, value: object) -> bool:
    """True when the fast path is sure that `value` fits schemas/<name>.schema.json. False means: ask `validator`."""
    check = _compiled(name)
    if check is None or not plain(value):
        return False
    from fastjsonschema import JsonSchemaValueException

    try:
        check(value)
    except JsonSchemaValueException:
        return False
    return True


@cache
def validator(name: str):
    """The jsonschema validator of schemas/<name>.schema.json, with this project's idea of integers and numbers:
    booleans are neither, NaN and infinities are no numbers, integers stay within ±(2^53-1).
    """
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    def integer(checker, value: object) -> bool:
        return number(checker, value) and value == int(value) and -MAX_INTEGER <= value <= MAX_INTEGER

    def number(checker, value: object) -> bool:
        if isinstance(value, float):
            return value - value == 0
        return isinstance(value, int) and not isinstance(value, bool) and -MAX_INTEGER <= value <= MAX_INTEGER

    def unique(validator, wanted: bool, value: object, schema: dict):
        # jsonschema's own compares each object in a list with each other: minutes for one of 64 KiB
        if wanted and isinstance(value, list) and len({json.dumps(i, sort_keys=True) for i in value}) < len(value):
            yield ValidationError("not unique")

    checker = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": integer, "number": number})
    strict = extend(Draft202012Validator, {"uniqueItems": unique}, type_checker=checker)
    files = {f"{cited}.schema.json": DRAFT202012.create_resource(schema(cited)) for cited in _cited(name)}
    return strict(schema(name), registry=Registry().with_resources(files.items()).crawl())


@cache
def _compiled(name: str) -> Callable[[object], object] | None:
    try:
        inlined = _inlined(schema(name))
    except _Unsupported:
        return None
    import fastjsonschema

    return fastjsonschema.compile(inlined, use_default=False, use_formats=False, detailed_exceptions=False)


def _cited(name: str) -> set[str]:
    """The names of a schema and of all that it refers to, directly or not."""
    found: set[str] = set()
    todo: list[object] = [{"$ref": f"{name}.schema.json"}]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo.extend(node)
        elif isinstance(node, dict):
            todo.extend(node.values())
            file = str(node.get("$ref", "")).partition(".schema.json")[0]
            if file and file not in found:
                found.add(file)
                todo.append(schema(file))
    return found


class _Unsupported(Exception):
    """A schema that fastjsonschema would read differently."""


def _inlined(node: object, open_references: tuple[str, ...] = ()):
    """The schema `node` with every $ref replaced by what it names, so that one function checks the whole document."""
    if isinstance(node, bool):
        return node
    if not isinstance(node, dict):
        raise _Unsupported
    result: dict[str, object] = {}
    for keyword, value in node.items():
        if keyword == "const":
            result["enum"] = [value]  # fastjsonschema 2.22 fails on "const" when exceptions are not detailed
        elif keyword in _PLAIN:
            result[keyword] = value
        elif keyword in _SINGLE:
            result[keyword] = _inlined(value, open_references)
        elif keyword == "properties":
            result[keyword] = {field: _inlined(item, open_references) for field, item in value.items()}
        elif keyword in _SEVERAL:
            result.setdefault(keyword, []).extend(_inlined(item, open_references) for item in value)
        elif keyword != "$ref" and keyword not in _ANNOTATIONS:
            raise _Unsupported
    if "$ref" in node:
        if node["$ref"] in open_references:  # a schema that contains itself
            raise _Unsupported
        target = _inlined(resolved(node["$ref"]), (*open_references, node["$ref"]))
        if not result:
            return target
        result.setdefault("allOf", []).append(target)
    return result
