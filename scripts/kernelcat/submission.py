"""The submission bundle of the index: a catalog's objects in one YAML document, runs with their protocol and
environment.

    apiVersion: kernelindex.dev/v1alpha1
    kind: SubmissionBundle
    projects: [manifest]
    operations: [manifest]
    workloads: [manifest]
    implementations: [manifest with projectSlug]
    runs: [{run, protocol, environment}]

Each list is sorted by digest. Manifests stand there unchanged, so that their digests can be computed from the file;
of several with one digest it is the one that the catalog keeps. An implementation of code that belongs to no published
project has no projectSlug.
"""

import json
import re
from functools import lru_cache

from kernelcat import identity, schema
from kernelcat.errors import KernelcatError
from kernelcat.fault import one_line
from kernelcat.index import at, text_at
from kernelcat.libraries import CSV_PROVIDERS
from kernelcat.schema import BUNDLE

KIND = "SubmissionBundle"

LISTS = {
    "projects": "SoftwareProject",
    "operations": "OperationSpec",
    "workloads": "WorkloadCase",
    "implementations": "ImplementationRevision",
}
"""The lists of manifests, and the kind of each. Protocols and environments stand beside the runs."""


def bundle(objects: dict[str, dict]) -> dict:
    """The bundle of objects by digest.

    Raises KernelcatError for a manifest that the index would refuse, and for a run whose protocol or environment is not
    among them.
    """
    by_kind: dict[str, list[dict]] = {}
    for digest, manifest in sorted(objects.items()):
        if faults := schema.faults(manifest):
            raise KernelcatError(f"{one_line(digest)}: {faults[0]}")
        by_kind.setdefault(manifest["kind"], []).append(manifest)
    found = {name: by_kind.get(kind, []) for name, kind in LISTS.items()}
    names = {repository(project): text_at(project, "metadata", "name") for project in found["projects"]}
    found["implementations"] = [
        {**manifest, "projectSlug": names[repository(manifest)]} if repository(manifest) in names else manifest
        for manifest in found["implementations"]
    ]
    runs = [_with_cited(objects, run) for run in by_kind.get("BenchmarkRun", [])]
    return {"apiVersion": identity.API_VERSION, "kind": KIND, **found, "runs": runs}


def repository(manifest: dict) -> str | None:
    """The repository of a project, or of the project that an implementation belongs to: None when it belongs to none.

    Published implementations cite no project; their title ends with the provider, and so tells which.
    """
    spec = at(manifest, "spec")
    if manifest["kind"] == "SoftwareProject":
        return text_at(spec, "repository", default=None)
    cited = text_at(spec, "projectRevision", "repository", default=None)
    provider = text_at(manifest, "metadata", "title", default="").rpartition(" · ")[2]
    if cited is None and at(spec, "source") is None and provider in CSV_PROVIDERS:
        return CSV_PROVIDERS[provider].project["repository"]
    return cited


def _with_cited(objects: dict[str, dict], run: dict) -> dict:
    cited = {part: text_at(run, "spec", f"{part}Digest") for part in BUNDLE if part != "run"}
    for part, digest in cited.items():
        if text_at(objects.get(digest), "kind") != BUNDLE[part]:
            place = one_line(text_at(run, "metadata", "name", default="a run"))
            raise KernelcatError(f"{place}: expected the {part} that it cites in the catalog, found none")
    return {"run": run} | {part: objects[digest] for part, digest in cited.items()}


def render(value: dict) -> bytes:
    """The value as YAML in block style, keys in the order in which they come.

    Every reader finds the same values, one of YAML 1.1 too: text that could be taken for something else is quoted,
    floats have a point. (ruamel.yaml writes neither so, and takes 7 ms for a run.)

    `value` is plain JSON: finite numbers, text without lone surrogates.
    """
    lines: list[str] = []
    _block(value, "", lines)
    return ("\n".join(lines) + "\n").encode()


def _block(value: dict | list, indent: str, lines: list[str]) -> None:
    """Appends the lines of a mapping or sequence that is not empty."""
    inner = indent + "  "
    if isinstance(value, dict):
        for key, item in value.items():
            if item and isinstance(item, dict | list):
                lines.append(f"{indent}{_text(key)}:")
                _block(item, inner, lines)
            else:
                lines.append(f"{indent}{_text(key)}: {_scalar(item)}")
    else:
        for item in value:
            if item and isinstance(item, dict | list):
                first = len(lines)
                _block(item, inner, lines)
                lines[first] = f"{indent}- {lines[first][len(inner) :]}"
            else:
                lines.append(f"{indent}- {_scalar(item)}")


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    text = json.dumps(value)  # {} and [] are here too
    if isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")  # 1e-06 is text in YAML 1.1
    return text


@lru_cache(maxsize=100_000)
def _text(text: str) -> str:
    """Text as it is where no reader can take it for something else, else between double quotes."""
    if _PLAIN.fullmatch(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in quoted)


_PLAIN = re.compile(r"(?!(?i:y|n|yes|no|on|off|true|false|null)$)[A-Za-z](?:[A-Za-z0-9_./:-]*[A-Za-z0-9_])?", re.ASCII)


def _escaped(character: str) -> str:
    """An escape that YAML knows; JSON's for what is beyond U+FFFF is two surrogates, which YAML refuses."""
    return f"\\U{ord(character):08x}"
