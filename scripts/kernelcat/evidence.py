"""The files that a catalog's runs name as evidence, beside it: are they there, and do they say what the runs say?"""

import hashlib
import json
import os
from pathlib import Path, PurePosixPath

from kernelcat import identity, samples
from kernelcat.errors import KernelcatError
from kernelcat.fault import one_line, shown
from kernelcat.index import at, text_at


def verify(catalog: dict, folder: str | Path) -> tuple[list[str], int, int]:
    """One line per fault of the files that the catalog's runs cite by a relative uri, looked for below `folder`; how
    many files hold; how many runs cite files from a folder that is not there, so that nothing could be looked at.

    The catalog's own form is kernelcat.catalog's to verify; what has another one is passed over.
    """
    faults, sound, away = [], 0, 0
    # a catalog is moved alone or with all; if one of the folders is there, so must be the other
    beside = any(os.path.isdir(Path(folder) / name) for name in _folders(catalog))  # false for what is no path
    for digest, manifest in catalog["objects"].items():
        if at(manifest, "kind") != "BenchmarkRun":
            continue
        timing = at(manifest, "spec", "timing")
        local = _local(manifest)
        for what, artifact in local.items():
            path = PurePosixPath(artifact["uri"])
            if path.is_absolute() or ".." in path.parts:
                faults.append(f"{digest}: {what}: expected a path below the catalog, found {one_line(artifact['uri'])}")
            elif not beside:
                continue
            elif fault := _fault(Path(folder) / path, artifact, timing if what == "raw samples" else None):
                faults.append(f"{digest}: {what}: {one_line(artifact['uri'], 1000)}: {fault}")
            else:
                sound += 1
        away += bool(local) and not beside
    return faults, sound, away


def raw_samples(manifest: dict, folder: str | Path) -> list[float] | None:
    """The samples of a run in ms, from the file below `folder` that it names. None where it names none, or the file is
    not there or not the one that the run is about."""
    artifact = _local(manifest).get("raw samples")
    if artifact is None:
        return None
    path = PurePosixPath(artifact["uri"])
    timing = at(manifest, "spec", "timing")
    if path.is_absolute() or ".." in path.parts or _fault(Path(folder) / path, artifact, timing):
        return None
    return [float(value) for value in json.loads((Path(folder) / path).read_bytes())["samples"]]


def _folders(catalog: dict) -> set[str]:
    """The folders that the files of evidence lie in."""
    found = set()
    for manifest in catalog["objects"].values():
        for artifact in _local(manifest).values():
            if ".." not in (parts := PurePosixPath(artifact["uri"]).parts):
                found.update(parts[:1])  # none for "."
    return found - {"/"}


def _local(manifest) -> dict[str, dict]:
    """What a manifest names as evidence in files of its own, by what it is."""
    named = {
        "raw samples": at(manifest, "spec", "timing", "rawSamples"),
        "log": at(manifest, "spec", "evidence", "logs"),
    }
    uris = {what: text_at(artifact, "uri", default="") for what, artifact in named.items()}
    return {what: named[what] for what, uri in uris.items() if uri and "://" not in uri}


def _fault(path: Path, artifact: dict, timing: dict | None) -> str | None:
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
        return f"expected a file, found none ({getattr(error, 'strerror', error)})"
    found = "sha256:" + hashlib.sha256(data).hexdigest()
    if found != artifact.get("digest"):
        return f"expected the digest {one_line(text_at(artifact, 'digest'))}, found {found}"
    return _timing_fault(data, timing) if timing else None


def _timing_fault(data: bytes, timing: dict) -> str | None:
    """What the run says that its samples do not."""
    try:
        values = json.loads(data)["samples"]
        summary = samples.summary([float(value) for value in values])
        computed = {"samples": len(values)} | {name: identity.nanoseconds(value) for name, value in summary.items()}
    except (ArithmeticError, KernelcatError, LookupError, RecursionError, TypeError, ValueError):
        return "expected {samples: [milliseconds], unit: ms}, found something else"
    latency = {name: at(timing, "latencyNs", name) for name in summary}
    said = {"samples": timing.get("samples")} | {name: value for name, value in latency.items() if value is not None}
    wrong = [name for name, value in said.items() if value != computed[name]]
    return f"expected {wrong[0]} {shown(said[wrong[0]])}, found {computed[wrong[0]]}" if wrong else None
