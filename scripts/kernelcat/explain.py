"""jsonschema's errors as faults: one leaf for each mistake, with what was expected in words."""

from collections.abc import Iterator, Mapping

from kernelcat.fault import Fault, pointer, shown
from kernelcat.validators import resolved, validator

_TYPES = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_BOUNDS = (
    ("minimum", "≥ {}"),
    ("exclusiveMinimum", "> {}"),
    ("maximum", "≤ {}"),
    ("exclusiveMaximum", "< {}"),
    ("pattern", "matching {}"),
    ("minLength", "of at least {} characters"),
    ("maxLength", "of at most {} characters"),
    ("minItems", "of at least {} items"),
    ("maxItems", "of at most {} items"),
    ("minProperties", "of at least {} fields"),
    ("maxProperties", "of at most {} fields"),
)


# What `described` speaks of; None is the schema `false`.
_DESCRIBED = {None, "type", "const", "enum", "not", "anyOf", "oneOf", *(keyword for keyword, _ in _BOUNDS)}


def explained(schema_name: str, value: object) -> set[Fault]:
    """Every fault of `value` against schemas/<schema_name>.schema.json; empty when it fits."""
    return {fault for error in validator(schema_name).iter_errors(value) for fault in _leaves(error)}


def described(schema: Mapping | bool) -> str:
    """What a schema asks for, in words: its title, or else its values, types and bounds."""
    if isinstance(schema, bool):
        return "anything" if schema else "no such field"
    if "title" in schema:
        return schema["title"]
    if "const" in schema:
        return shown(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(v if isinstance(v, str) else shown(v) for v in schema["enum"])
    if "$ref" in schema:
        return described(resolved(schema["$ref"]))
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            return ", or ".join(dict.fromkeys(map(described, schema[keyword])))
    types = schema.get("type", [])
    words = " or ".join(_TYPES[name] for name in ([types] if isinstance(types, str) else types)) or "a value"
    return " ".join([words, *(form.format(schema[keyword]) for keyword, form in _BOUNDS if keyword in schema)])


def _leaves(error) -> Iterator[Fault]:
    place, schema, value = tuple(error.absolute_path), error.schema, error.instance
    at = pointer(*place)
    if "propertyNames" in error.absolute_schema_path and error.validator != "propertyNames":
        yield Fault(pointer(*place, value), shown(value), f"a field name that is {described(schema)}")
    elif error.validator == "required":
        # One error comes for each missing field; each of them names all, and the set of faults keeps one of each.
        for field in error.validator_value:
            if field not in value:
                yield Fault(pointer(*place, field), "nothing", described(_field(schema, field)))
    elif error.validator == "additionalProperties" and schema["additionalProperties"] is False:
        known = schema.get("properties", {})
        for field in value:
            if field not in known:
                names = ", ".join(known) or "none"
                yield Fault(pointer(*place, field), shown(value[field]), f"no such field (known: {names})")
    elif error.validator in ("anyOf", "oneOf") and error.context and "title" not in schema:
        nearest = _nearest(error)
        if nearest:
            for deeper in nearest:
                yield from _leaves(deeper)
        else:
            yield Fault(at, shown(value), described({error.validator: error.validator_value}))
    elif error.validator == "uniqueItems":
        yield Fault(at, shown(value), "a list without repetition")
    elif error.validator in ("minProperties", "maxProperties"):
        form = dict(_BOUNDS)[error.validator].format(error.validator_value)
        yield Fault(at, shown(value), f"an object {form}")
    elif error.validator in _DESCRIBED:
        yield Fault(at, shown(value), described(schema))
    else:  # a keyword that only others' schemas use: jsonschema's own words
        yield Fault(at, shown(value), error.message if len(error.message) <= 200 else error.message[:199] + "…")


def _nearest(error) -> list:
    """The errors of the one alternative that the value was meant to be: the only one whose type fits."""
    branches: dict[int, list] = {}
    for deeper in error.context:
        branches.setdefault(deeper.relative_schema_path[0], []).append(deeper)
    fitting = [
        errors
        for errors in branches.values()
        if not any(deeper.validator in ("type", "const", "enum") and not deeper.relative_path for deeper in errors)
    ]
    return fitting[0] if len(fitting) == 1 else []


def _field(schema: Mapping, field: str) -> Mapping | bool:
    return schema.get("properties", {}).get(field, {"title": "a value"})
