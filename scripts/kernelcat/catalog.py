"""The catalog: every object under its digest, with an index from operation to workload to runs.

    {"kind": "Catalog", "objects": {digest: manifest}, "aliases": {digest: [metadata]}, "index": …, "summary": …}

It is a pure function of the set of manifests: the same manifests give the same bytes, in any order, however often each
is met. Digests do not cover metadata; of several objects with one digest the one whose canonical JSON sorts first is
kept, the metadata of the others is listed under `aliases`. Index and summary hold nothing that the objects do not say.

Files come from outside: `verify` and `read` take anything. But for sorting, every cost is linear in the number of
objects.
"""

import gc
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from kernelcat import files, identity, schema
from kernelcat.errors import KernelcatError
from kernelcat.fault import one_line, shown
from kernelcat.index import at, index, runs_in, summary, text_at

KIND = "Catalog"
SECTIONS = ("aliases", "index", "kind", "objects", "summary")

# What each kind cites: where the digest stands, and the kind of the object that it must name.
CITATIONS = {
    "BenchmarkRun": {
        ("workloadDigest",): "WorkloadCase",
        ("implementationDigest",): "ImplementationRevision",
        ("protocolDigest",): "BenchmarkProtocol",
        ("environmentDigest",): "ExecutionEnvironment",
    },
    "WorkloadCase": {("operationSpecDigest",): "OperationSpec"},
    "ImplementationRevision": {("operation", "specDigest"): "OperationSpec"},
}

_MANIFEST_KEYS = {"apiVersion", "kind", "metadata", "spec"}


def build(manifests: Iterable[dict]) -> dict:
    """The catalog of these manifests; every digest is computed here.

    Raises KernelcatError for something that is not a manifest or has no canonical JSON.
    """
    return _assemble(_digested((None, manifest) for manifest in manifests))


def merge(catalogs: Iterable[dict]) -> dict:
    """The catalog of everything in these catalogs: idempotent, commutative, associative, aliases included.

    Raises KernelcatError when a catalog is damaged: an object under a digest that is not its own, aliases of nothing.
    """
    return _assemble(_digested(pair for catalog in catalogs for pair in _entries(catalog)))


def manifests(catalog: dict) -> Iterator[dict]:
    """Every manifest that went into the catalog: each object, followed by its variants with other metadata.

    Raises KernelcatError when objects or aliases do not have the form that such a walk needs.
    """
    return (manifest for _, manifest in _entries(catalog))


def read(path: str | Path) -> dict:
    """The catalog in a file, not verified: it is an object of kind Catalog whose objects have the form of manifests.

    Raises KernelcatError, one line, for anything else.
    """
    catalog = files.load(path, limit=None)
    gc.freeze()  # garbage collections need not walk through all this
    if not isinstance(catalog, dict) or catalog.get("kind") != KIND:
        kind = catalog.get("kind") if isinstance(catalog, dict) else catalog
        raise KernelcatError(f'{path}: expected an object with kind "{KIND}", found {shown(kind)}')
    try:
        for manifest in manifests(catalog):
            _check(manifest)  # the variants too
    except KernelcatError as error:
        raise KernelcatError(f"{path}: {error}") from None
    return catalog


def write(path: str | Path, catalog: dict) -> None:
    """Writes the catalog's bytes, whole or not at all. Raises OSError."""
    files.write(path, render(catalog))


def render(catalog: dict) -> bytes:
    """The catalog's bytes: JSON with sorted keys, UTF-8, each object and each entry of another section in a line."""
    sections = []
    for name, section in sorted(catalog.items()):
        if isinstance(section, dict) and section:
            lines = ",\n".join(f"{_json(key)}: {_json(section[key])}" for key in sorted(section))
            sections.append(f"{_json(name)}: {{\n{lines}\n}}")
        else:
            sections.append(f"{_json(name)}: {_json(section)}")
    return ("{\n" + ",\n".join(sections) + "\n}\n").encode()


_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True).encode


def _assemble(digested: Iterable[tuple[str, dict]]) -> dict:
    objects: dict[str, dict] = {}
    variants: dict[str, dict[bytes, dict]] = {}  # digest → canonical JSON of the metadata → metadata
    for digest, manifest in digested:
        first = objects.setdefault(digest, manifest)
        if first is not manifest:
            if digest not in variants:
                variants[digest] = {identity.canonical_json(first["metadata"]): first["metadata"]}
            variants[digest].setdefault(identity.canonical_json(manifest["metadata"]), manifest["metadata"])
    aliases = {}
    for digest, known in variants.items():
        # The rest of the manifest is the same, so manifests sort as their metadata does.
        kept, *others = (known[text] for text in sorted(known))
        objects[digest] = {**objects[digest], "metadata": kept}
        if others:
            aliases[digest] = others
    runs = runs_in(objects)
    return {
        "kind": KIND,
        "objects": objects,
        "aliases": aliases,
        "index": index(objects, runs),
        "summary": summary(objects, runs),
    }


def _entries(catalog: dict) -> Iterator[tuple[str, dict]]:
    """Each of a catalog's manifests, with the key it stands under."""
    objects, aliases = _section(catalog, "objects"), _section(catalog, "aliases")
    for digest in aliases.keys() - objects.keys():
        raise KernelcatError(f"aliases: expected the digest of an object, found {one_line(digest)}")
    for digest, manifest in objects.items():
        _check(manifest)
        if not identity.is_digest(digest):
            raise KernelcatError(f"objects: expected digests as names, found {one_line(digest)}")
        yield digest, manifest
        variants = aliases.get(digest, [])
        if not isinstance(variants, list):
            raise KernelcatError(f"aliases/{one_line(digest)}: expected a list of metadata, found {shown(variants)}")
        for metadata in variants:
            yield digest, {**manifest, "metadata": metadata}


def _digested(entries: Iterable[tuple[str | None, dict]]) -> Iterator[tuple[str, dict]]:
    """Each different manifest with its digest, which must be the key it came under where there is one."""
    seen = set()
    for key, manifest in entries:
        _check(manifest)
        if key is None:
            # Most manifests in a set of documents are repetitions: every run brings its protocol. Two texts of one
            # content only mean that the digest is computed twice.
            try:
                text = json.dumps(manifest, sort_keys=True, allow_nan=False, ensure_ascii=False).encode()
            except (TypeError, ValueError, RecursionError) as error:
                raise KernelcatError(
                    f"{_named(manifest)}: expected a JSON document, found: {one_line(str(error))}"
                ) from None
            mark = hashlib.sha256(text).digest()
            if mark in seen:
                continue
            seen.add(mark)
        digest = identity.digest(manifest)
        if key not in (None, digest):
            raise KernelcatError(f"{one_line(key)}: expected an object with this digest, found one with {digest}")
        try:
            yield digest, manifest if identity.is_plain(manifest) else _normal(manifest)
        except RecursionError:
            raise KernelcatError(f"{_named(manifest)}: expected a document of bounded depth") from None


def _normal(value):
    """The value with whole doubles as integers: 2.0 and 2 are one number in canonical JSON and must be so here, or the
    catalog's bytes would depend on who came first. What is already so is returned as it is, not copied.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, dict):
        changed = {key: new for key, old in value.items() if (new := _normal(old)) is not old}
        return {**value, **changed} if changed else value
    if isinstance(value, list):
        new = [_normal(old) for old in value]
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    return value


def _check(manifest) -> None:
    if not isinstance(manifest, dict) or manifest.keys() != _MANIFEST_KEYS:
        found = one_line(", ".join(map(str, manifest))) if isinstance(manifest, dict) else shown(manifest)
        raise KernelcatError(f"expected a manifest with apiVersion, kind, metadata and spec, found {found}")
    for key, type_ in (("kind", str), ("metadata", dict), ("spec", dict)):
        if not isinstance(manifest[key], type_):
            expected = "text" if type_ is str else "an object"
            raise KernelcatError(f"{_named(manifest)}: {key}: expected {expected}, found {shown(manifest[key])}")


def verify(catalog) -> list[str]:
    """One line per fault, none when everything holds: each object's digest and schema, each citation, the aliases, and
    that index and summary are those of the objects. Takes any value.
    """
    if not isinstance(catalog, dict):
        return [f'expected an object with kind "{KIND}", found {shown(catalog)}']
    lines = [f"{one_line(key)}: no such field in a catalog" for key in sorted(catalog.keys() - set(SECTIONS), key=str)]
    if catalog.get("kind") != KIND:
        lines.append(f'kind: expected "{KIND}", found {shown(catalog.get("kind"))}')
    sections = {}
    for name in ("objects", "aliases", "index", "summary"):
        sections[name] = catalog.get(name)
        if not isinstance(sections[name], dict):
            lines.append(f"{name}: expected an object, found {shown(sections[name])}")
            sections[name] = {}
    objects, aliases = sections["objects"], sections["aliases"]
    for digest, manifest in objects.items():
        lines += _object_faults(digest, manifest)
        lines += _citation_faults(objects, digest, manifest)
    for digest, variants in aliases.items():
        lines += _alias_faults(objects, digest, variants)
    runs = runs_in(objects)
    lines += _differences("index", sections["index"], index(objects, runs))
    lines += _differences("summary", sections["summary"], summary(objects, runs))
    return lines


def _object_faults(digest: str, manifest) -> list[str]:
    lines = []
    found = _attempt(identity.digest, manifest)
    if found != digest:
        lines.append(
            f"{one_line(digest)}: expected an object with this digest, found {found or 'one without a digest'}"
        )
    return lines + _schema_faults(digest, manifest)


def _schema_faults(digest: str, manifest, below: str = "") -> list[str]:
    faults = _attempt(schema.faults, manifest)
    if faults is None:
        return [f"{one_line(digest)}: expected a manifest, found {shown(manifest)}"]
    return [f"{one_line(digest)}: {fault}" for fault in faults if fault.pointer.startswith(below)]


def _citation_faults(objects: dict, digest: str, manifest) -> list[str]:
    lines = []
    kind, spec = text_at(manifest, "kind"), at(manifest, "spec")
    for path, expected in CITATIONS.get(kind, {}).items():
        place = f"{one_line(digest)}: /spec/{'/'.join(path)}"
        cited = text_at(spec, *path, default=None)
        found = at(objects.get(cited), "kind")
        if cited is not None and found != expected:
            what = f"of kind {shown(found)}" if cited in objects else "of nothing here"
            lines.append(f"{place}: expected a digest of kind {expected}, found {one_line(cited)}, {what}")
    if kind == "BenchmarkRun":
        workload, implementation = (
            objects.get(text_at(spec, name)) for name in ("workloadDigest", "implementationDigest")
        )
        of_workload = text_at(workload, "spec", "operationSpecDigest", default=None)
        of_implementation = text_at(implementation, "spec", "operation", "specDigest", default=None)
        if None not in (of_workload, of_implementation) and of_workload != of_implementation:
            found = f"{one_line(of_workload)} and {one_line(of_implementation)}"
            lines.append(f"{one_line(digest)}: expected workload and implementation of one operation, found {found}")
    return lines


def _alias_faults(objects: dict, digest: str, variants) -> list[str]:
    place = f"aliases/{one_line(digest)}"
    manifest = objects.get(digest)
    if not isinstance(manifest, dict):
        return [f"{place}: expected the digest of an object, found none here"]
    if not isinstance(variants, list) or not variants:
        return [f"{place}: expected a list of metadata, found {shown(variants)}"]
    lines = []
    for metadata in variants:
        lines += _schema_faults(f"aliases/{digest}", {**manifest, "metadata": metadata}, below="/metadata")
    texts = [_attempt(identity.canonical_json, metadata) for metadata in (manifest.get("metadata"), *variants)]
    if None in texts or any(a >= b for a, b in pairwise(texts)):
        lines.append(
            f"{place}: expected other metadata than the object's, sorted by canonical JSON after it, each once"
        )
    return lines


def _differences(name: str, found: dict, expected: dict) -> list[str]:
    lines = []
    for key in sorted(found.keys() | expected.keys(), key=str):
        place = f"{name}/{one_line(key)}"
        if key not in expected:
            lines.append(f"{place}: expected nothing, the objects do not give it")
        elif key not in found:
            lines.append(f"{place}: expected what the objects give, found nothing")
        elif _attempt(_stable, found[key]) != _stable(expected[key]):
            lines.append(f"{place}: expected what the objects give, found something else")
    return lines


def _attempt(function: Callable, value):
    """The function's result, None when it refuses the value. The values are a stranger's, so whatever it raises (too
    deep, no such key, not a number that canonical JSON knows) means the same: not a proper one.
    """
    try:
        return function(value)
    except Exception:
        return None


def _section(catalog: dict, name: str) -> dict:
    section = catalog.get(name, {} if name == "aliases" else None)
    if not isinstance(section, dict):
        raise KernelcatError(f"{name}: expected an object, found {shown(section)}")
    return section


def _named(manifest: dict) -> str:
    name = at(manifest["metadata"], "name")
    return one_line(f"{manifest['kind']} {name if isinstance(name, str) else 'without a name'}")


def _stable(value) -> str:
    return json.dumps(value, sort_keys=True)
