"""Strict validation: every fault of a document, with its JSON pointer, what was found and what was expected.

The rules are the files of schemas/ and, for what JSON Schema cannot say, crossfield.py.
"""

import json
from collections.abc import Callable, Iterable
from functools import lru_cache

from kernelcat import identity
from kernelcat.crossfield import crossfield
from kernelcat.errors import KernelcatError
from kernelcat.fault import Fault, pointer, shown
from kernelcat.validators import accepts, plain

__all__ = ["KINDS", "Fault", "check", "faults"]

KINDS = {
    "SoftwareProject": "software-project",
    "OperationSpec": "operation-spec",
    "WorkloadCase": "workload-case",
    "ImplementationRevision": "implementation-revision",
    "BenchmarkProtocol": "benchmark-protocol",
    "ExecutionEnvironment": "execution-environment",
    "BenchmarkRun": "benchmark-run",
}
"""The kinds of manifests, and the schema of each."""

BUNDLE = {"run": "BenchmarkRun", "protocol": "BenchmarkProtocol", "environment": "ExecutionEnvironment"}
"""The parts of the document of one run."""

_CITED = {"protocol": "protocolDigest", "environment": "environmentDigest"}


def faults(document: object) -> list[Fault]:
    """All faults of a document, sorted by pointer; empty when it is valid.

    The document is a manifest of one of KINDS, a {run, protocol, environment} bundle (whose run must cite the digests
    of the protocol and environment beside it) or a Catalog (whose own digests and citations are not computed here).
    Raises nothing, whatever the document holds.
    """
    if not isinstance(document, dict):
        return [Fault("", shown(document), "a manifest, a {run, protocol, environment} document or a Catalog")]
    if "kind" not in document and not document.keys().isdisjoint(BUNDLE):
        return _bundle(document)
    kind = document.get("kind")
    if kind == "Catalog":
        return _catalog(document)
    if isinstance(kind, str) and kind in KINDS:
        if accepts(KINDS[kind], document):
            return sorted(_crossfield(document))
        return _explained(document, KINDS[kind], _crossfield)
    found = [Fault("/kind", _shown_field(document, "kind"), f"one of {', '.join(KINDS)}, Catalog")]
    if document.get("apiVersion") != identity.API_VERSION:
        found.append(Fault("/apiVersion", _shown_field(document, "apiVersion"), shown(identity.API_VERSION)))
    return sorted(found)


def check(value: object, schema_name: str, source: str) -> None:
    """Raises KernelcatError when `value` does not fit schemas/<schema_name>.schema.json, with one line:

        config/suites/smoke.yaml: rms_norm.axes.hidden: expected integers > 0, found "4k" (and 2 more)

    `source` is the file that the value comes from. What was expected is the `title` of the schema that failed, or else
    made from its keywords.
    """
    if accepts(schema_name, value):
        return
    found = _explained(value, schema_name)
    if found:
        place = ".".join(part.replace("~1", "/").replace("~0", "~") for part in found[0].pointer.split("/")[1:])
        first = Fault(place, found[0].found, found[0].expected)
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise KernelcatError(f"{source}: {first}{more}")


def _bundle(document: dict) -> list[Fault]:
    def more(bundle: dict) -> Iterable[Fault]:
        for part, kind in BUNDLE.items():
            yield from crossfield(kind, _spec(bundle.get(part)), (part, "spec"))
        yield from _citations(bundle)

    if document.keys() == BUNDLE.keys() and all(accepts(KINDS[kind], document[part]) for part, kind in BUNDLE.items()):
        return sorted(more(document))
    return _explained(document, "document", more)


def _citations(bundle: dict) -> Iterable[Fault]:
    """Faults of the digests by which the run of a bundle cites the protocol and the environment beside it."""
    for part, field in _CITED.items():
        cited, manifest = _spec(bundle.get("run")).get(field), bundle.get(part)
        if not isinstance(cited, str) or not isinstance(manifest, dict):
            continue
        try:
            # Most documents of one catalog share a protocol and an environment; their plain text is a cheap key.
            actual = _digest_of(json.dumps([manifest.get(name) for name in ("apiVersion", "kind", "spec")]))
        except (KernelcatError, TypeError, ValueError):
            continue  # nothing that has a digest: the schema's faults say so
        if cited != actual:
            yield Fault(pointer("run", "spec", field), shown(cited), f"the digest of /{part}, {actual}")


@lru_cache(maxsize=1024)
def _digest_of(text: str) -> str:
    version, kind, spec = json.loads(text)
    return identity.digest({"apiVersion": version, "kind": kind, "spec": spec})


def _catalog(document: dict) -> list[Fault]:
    """Objects are accepted one by one; jsonschema, which is slow, sees the rest of the catalog."""
    result: list[Fault] = []
    rest = document
    if isinstance(document.get("objects"), dict):
        rest = {**document, "objects": {}}
        for digest, manifest in document["objects"].items():
            kind = manifest.get("kind") if isinstance(manifest, dict) else None
            known = isinstance(kind, str) and kind in KINDS and identity.is_digest(digest)
            if known and accepts(KINDS[kind], manifest):
                result.extend(_crossfield(manifest, ("objects", digest)))
            else:
                rest["objects"][digest] = manifest

    def more(catalog: dict) -> Iterable[Fault]:
        objects = catalog.get("objects")
        for digest, manifest in objects.items() if isinstance(objects, dict) else ():
            yield from _crossfield(manifest, ("objects", digest))

    return sorted([*result, *_explained(rest, "catalog", more)])


def _explained(
    value: object, schema_name: str, more: Callable[[dict], Iterable[Fault]] = lambda value: ()
) -> list[Fault]:
    """The faults of what is no JSON at all, of the schema, and of `more`, sorted. Where one of these has a fault, the
    later ones are silent: a text in place of a number has no order to be checked.
    """
    from kernelcat.explain import explained  # jsonschema takes 0.1 s to import

    result: set[Fault] = set()
    if not plain(value):
        result = {Fault(pointer(*place), shown(found), expected) for place, found, expected in identity.strays(value)}
        value = _tame(value) if result else value
    for source in (explained(schema_name, value), more(value)):
        known = {fault.pointer for fault in result}
        result.update(fault for fault in source if fault.pointer not in known)
    return sorted(result)


def _tame(value: object, depth: int = 0) -> object:
    """`value` without what breaks a validator: keys that are no text, endless nesting, integers too long to print."""
    if isinstance(value, dict | list) and depth >= identity.MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {key if isinstance(key, str) else shown(key): _tame(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_tame(item, depth + 1) for item in value]
    if isinstance(value, int) and not -identity.MAX_INTEGER <= value <= identity.MAX_INTEGER:
        return identity.MAX_INTEGER + 1
    return value


def _crossfield(manifest: object, place: tuple[str, ...] = ()) -> Iterable[Fault]:
    kind = manifest.get("kind") if isinstance(manifest, dict) else None
    return crossfield(kind, _spec(manifest), (*place, "spec")) if isinstance(kind, str) else ()


def _spec(manifest: object) -> dict:
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    return spec if isinstance(spec, dict) else {}


def _shown_field(document: dict, field: str) -> str:
    return shown(document[field]) if field in document else "nothing"
