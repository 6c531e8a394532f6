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

import re

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

    Every reader finds the same values: text that YAML 1.1 or 1.2 could take for something else is quoted.

    `value` is plain JSON: finite numbers, text without lone surrogates.
    """
    import yaml  # ruamel.yaml, which reads YAML 1.2 here, takes 7 ms to write a run

    class Dumper(yaml.CSafeDumper):
        def ignore_aliases(self, data) -> bool:
            return True

    def text(dumper: Dumper, data: str):
        style = None if _PLAIN.fullmatch(data) else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**20, encoding="utf-8")


_PLAIN = re.compile(r"(?!(?i:y|n|yes|no|on|off|true|false|null)$)[A-Za-z](?:[A-Za-z0-9_./:-]*[A-Za-z0-9_])?", re.ASCII)
