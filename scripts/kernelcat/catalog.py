"""The catalog: every object under its digest, with an index from operation to workload to runs.

    {"kind": "Catalog", "objects": {digest: manifest}, "aliases": {digest: [metadata]}, "index": …, "summary": …}

It is a pure function of the set of manifests: the same manifests give the same bytes, in any order, however often each
is met. Digests do not cover metadata; of several objects with one digest the one whose canonical JSON sorts first is
kept, the metadata of the others is listed under `aliases`. Index and summary hold nothing that the objects do not say.

Files come from outside: `verify` and `read` take anything, and `runs` and `summary_lines` take whatever `read` lets
through; what is missing there reads as "unspecified". But for sorting, every cost is linear in the number of objects.
"""

import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

from kernelcat import files, identity, schema
from kernelcat.errors import KernelcatError

KIND = "Catalog"
SECTIONS = ("aliases", "index", "kind", "objects", "summary")
UNSPECIFIED = "unspecified"

# Providers that count as the conventional implementation of a kernel, the first one present in a group is its baseline.
BASELINES = ("huggingface", "torch", "pytorch", "megatron", "megatron-unfused")

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

FAILURE = ("run", "kernel", "mode", "provider", "case", "status", "reason")
ROW = ("run", "kernel", "mode", "provider", "case", "workload", "device", "status", "median_ns", "observed_at")

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
    try:
        catalog = json.loads(Path(path).read_bytes(), object_pairs_hook=_unique, parse_constant=_refuse)
    except OSError as error:
        raise KernelcatError(f"{path}: expected a catalog, found: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise KernelcatError(f"{path}: expected JSON, found: {_short(str(error), 160)}") from None
    if not isinstance(catalog, dict) or catalog.get("kind") != KIND:
        kind = catalog.get("kind") if isinstance(catalog, dict) else catalog
        raise KernelcatError(f'{path}: expected an object with kind "{KIND}", found {_short(kind)}')
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
    """The catalog's bytes: JSON with sorted keys, indented by one, UTF-8, a line break at the end."""
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, indent=1)
    data = io.BytesIO()  # piece by piece: the pieces of a large catalog, held together, need several times its size
    with io.TextIOWrapper(data, encoding="utf-8", newline="") as text:
        text.writelines(encoder.iterencode(catalog))
        text.write("\n")
        text.flush()
        return data.getvalue()


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
    runs = _runs(objects)
    index, summary = _index(objects, runs), _summary(objects, runs)
    return {"kind": KIND, "objects": objects, "aliases": aliases, "index": index, "summary": summary}


def _entries(catalog: dict) -> Iterator[tuple[str, dict]]:
    """Each of a catalog's manifests, with the key it stands under."""
    objects, aliases = _section(catalog, "objects"), _section(catalog, "aliases")
    for digest in aliases.keys() - objects.keys():
        raise KernelcatError(f"aliases: expected the digest of an object, found {_short(digest)}")
    for digest, manifest in objects.items():
        _check(manifest)
        yield digest, manifest
        variants = aliases.get(digest, [])
        if not isinstance(variants, list):
            raise KernelcatError(f"aliases/{_short(digest)}: expected a list of metadata, found {_short(variants)}")
        for metadata in variants:
            yield digest, {**manifest, "metadata": metadata}


def _digested(entries: Iterable[tuple[str | None, dict]]) -> Iterator[tuple[str, dict]]:
    """Each different manifest with its digest, which must be the key it came under where there is one."""
    seen = set()
    for key, manifest in entries:
        _check(manifest)
        # Most manifests in a set of documents are repetitions (every run brings its protocol), and this is far cheaper
        # than canonical JSON. Two texts of one content only mean that the digest is computed twice.
        try:
            text = json.dumps(manifest, sort_keys=True, allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise KernelcatError(f"{_named(manifest)}: expected a JSON document, found: {_short(str(error))}") from None
        mark = key, hashlib.sha256(text).digest()
        if mark in seen:
            continue
        seen.add(mark)
        digest = identity.digest(manifest)
        if key not in (None, digest):
            raise KernelcatError(f"{_short(key)}: expected an object with this digest, found one with {digest}")
        yield digest, _normal(manifest)


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
        found = ", ".join(map(str, manifest)) if isinstance(manifest, dict) else manifest
        raise KernelcatError(f"expected a manifest with apiVersion, kind, metadata and spec, found {_short(found)}")
    for key, type_ in (("kind", str), ("metadata", dict), ("spec", dict)):
        if not isinstance(manifest[key], type_):
            expected = "text" if type_ is str else "an object"
            raise KernelcatError(f"{_named(manifest)}: {key}: expected {expected}, found {_short(manifest[key])}")


@dataclass(frozen=True, slots=True)
class _Run:
    """What index, summary and queries need of one run; times in ns."""

    run: str  # its digest
    kernel: str
    mode: str
    provider: str
    case: str
    device: str
    protocol: str | None
    environment: str | None
    operation: str | None
    workload: str | None
    status: str
    median_ns: int | None
    observed_at: str
    reason: str

    @property
    def speed(self) -> tuple:
        """Sorts the fastest first, what failed last."""
        return self.status != "passed", self.median_ns is None, self.median_ns or 0, self.provider, self.run


def _runs(objects: dict[str, dict]) -> list[_Run]:
    return [_run(objects, key, value) for key, value in objects.items() if _at(value, "kind") == "BenchmarkRun"]


def _run(objects: dict[str, dict], digest: str, manifest: dict) -> _Run:
    spec = manifest.get("spec")
    workload = _text(spec, "workloadDigest", default=None)
    environment = _text(spec, "environmentDigest", default=None)
    case, implementation = objects.get(workload), objects.get(_text(spec, "implementationDigest"))
    operation = _text(case, "spec", "operationSpecDigest", default=None)
    # kernel/mode/provider/gpu/case/timestamp. Published implementations do not tell all providers apart, this does.
    parts = _text(spec, "sourceNative", "externalId").split("/")
    if len(parts) == 6 and all(parts):
        kernel, mode, provider, _, case_name, _ = parts
    else:
        kernel, mode = _text(objects.get(operation), "metadata", "name"), UNSPECIFIED
        provider, case_name = _text(implementation, "metadata", "name"), _text(case, "metadata", "name")
    hardware = _at(objects.get(environment), "spec", "hardware")
    device = " ".join(filter(None, (_text(hardware, "product"), _text(hardware, "formFactor", default=""))))
    latency = _at(spec, "timing", "latencyNs")
    median = next((ns for key in ("median", "mean") if type(ns := _at(latency, key)) is int), None)
    return _Run(
        run=digest,
        kernel=kernel,
        mode=mode,
        provider=provider,
        case=case_name,
        device=device,
        protocol=_text(spec, "protocolDigest", default=None),
        environment=environment,
        operation=operation,
        workload=workload,
        status=_text(spec, "status"),
        median_ns=median,
        observed_at=_text(spec, "observedAt", default=""),
        reason=_text(manifest, "metadata", "description", default=""),
    )


def _index(objects: dict[str, dict], runs: list[_Run]) -> dict:
    """Operation → workload → groups of comparable runs. What cites an object that is not here has no place in it."""
    index = {
        digest: {"name": _text(manifest, "metadata", "name", default=""), "workloads": {}}
        for digest, manifest in objects.items()
        if _at(manifest, "kind") == "OperationSpec"
    }
    entries = {}
    for digest, manifest in objects.items():
        operation = _text(manifest, "spec", "operationSpecDigest", default=None)
        if _at(manifest, "kind") == "WorkloadCase" and operation in index:
            entry = {"name": _text(manifest, "metadata", "name", default=""), "measured": []}
            entries[digest] = index[operation]["workloads"][digest] = entry
    groups: dict[tuple, list[_Run]] = {}
    for run in runs:
        if run.workload in entries:
            groups.setdefault((run.workload, run.device, run.mode, run.protocol or ""), []).append(run)
    for (workload, device, mode, protocol), members in sorted(groups.items(), key=lambda item: item[0]):
        listed = [_entry(run) for run in sorted(members, key=lambda run: run.speed)]
        group = {"device": device, "protocol": protocol, "mode": mode, "runs": listed}
        entries[workload]["measured"].append(group)
    return index


def _entry(run: _Run) -> dict:
    entry = {
        "run": run.run,
        "provider": run.provider,
        "status": run.status,
        "environment": run.environment or "",
        "observedAt": run.observed_at,
    }
    return entry if run.median_ns is None else {**entry, "medianNs": run.median_ns}


def _summary(objects: dict[str, dict], runs: list[_Run]) -> dict:
    order = attrgetter("kernel", "mode", "provider", "case", "run")
    failures = [_picked(run, FAILURE) for run in sorted(runs, key=order) if run.status != "passed"]
    return {
        "objects": _counted(_text(manifest, "kind") for manifest in objects.values()),
        "runs": _counted(run.status for run in runs),
        "kernels": _counted(run.kernel for run in runs),
        "devices": _counted(run.device for run in runs),
        "failures": failures,
    }


def verify(catalog) -> list[str]:
    """One line per fault, none when everything holds: each object's digest and schema, each citation, the aliases, and
    that index and summary are those of the objects. Takes any value.
    """
    if not isinstance(catalog, dict):
        return [f'expected an object with kind "{KIND}", found {_short(catalog)}']
    lines = [f"{_short(key)}: no such field in a catalog" for key in sorted(catalog.keys() - set(SECTIONS), key=str)]
    if catalog.get("kind") != KIND:
        lines.append(f'kind: expected "{KIND}", found {_short(catalog.get("kind"))}')
    sections = {}
    for name in ("objects", "aliases", "index", "summary"):
        sections[name] = catalog.get(name)
        if not isinstance(sections[name], dict):
            lines.append(f"{name}: expected an object, found {_short(sections[name])}")
            sections[name] = {}
    objects, aliases = sections["objects"], sections["aliases"]
    for digest, manifest in objects.items():
        lines += _object_faults(digest, manifest)
        lines += _citation_faults(objects, digest, manifest)
    for digest, variants in aliases.items():
        lines += _alias_faults(objects, digest, variants)
    runs = _runs(objects)
    lines += _differences("index", sections["index"], _index(objects, runs))
    lines += _differences("summary", sections["summary"], _summary(objects, runs))
    return lines


def _object_faults(digest: str, manifest) -> list[str]:
    lines = []
    found = _attempt(identity.digest, manifest)
    if found != digest:
        lines.append(f"{_short(digest)}: expected an object with this digest, found {found or 'one without a digest'}")
    return lines + _schema_faults(digest, manifest)


def _schema_faults(digest: str, manifest, below: str = "") -> list[str]:
    faults = _attempt(schema.faults, manifest)
    if faults is None:
        return [f"{_short(digest)}: expected a manifest, found {_short(manifest)}"]
    return [
        f"{_short(digest)}: {fault.pointer or '/'}: expected {_plain(str(fault.expected))}, found {_short(fault.found)}"
        for fault in faults
        if fault.pointer.startswith(below)
    ]


def _citation_faults(objects: dict, digest: str, manifest) -> list[str]:
    lines = []
    kind, spec = _text(manifest, "kind"), _at(manifest, "spec")
    for path, expected in CITATIONS.get(kind, {}).items():
        place = f"{_short(digest)}: /spec/{'/'.join(path)}"
        cited = _text(spec, *path, default=None)
        found = _at(objects.get(cited), "kind")
        if cited is not None and found != expected:
            what = f"a {_short(found)}" if cited in objects else "none here"
            lines.append(f"{place}: expected the digest of a {expected}, found {_short(cited)}, {what}")
    if kind == "BenchmarkRun":
        workload, implementation = (
            objects.get(_text(spec, name)) for name in ("workloadDigest", "implementationDigest")
        )
        of_workload = _at(workload, "spec", "operationSpecDigest")
        of_implementation = _at(implementation, "spec", "operation", "specDigest")
        if None not in (of_workload, of_implementation) and of_workload != of_implementation:
            found = f"{_short(of_workload)} and {_short(of_implementation)}"
            lines.append(f"{_short(digest)}: expected workload and implementation of one operation, found {found}")
    return lines


def _alias_faults(objects: dict, digest: str, variants) -> list[str]:
    place = f"aliases/{_short(digest)}"
    manifest = objects.get(digest)
    if not isinstance(manifest, dict):
        return [f"{place}: expected the digest of an object, found none here"]
    if not isinstance(variants, list) or not variants:
        return [f"{place}: expected a list of metadata, found {_short(variants)}"]
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
        place = f"{name}/{_short(key)}"
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


def runs(
    catalog: dict,
    kernel: str | None = None,
    workload: str | None = None,
    device: str | None = None,
    provider: str | None = None,
    mode: str | None = None,
) -> list[dict]:
    """One row per run, with `run` (digest), `kernel`, `mode`, `provider`, `case`, `workload` (digest), `device`,
    `protocol` (name), `status`, `median_ns`, `speedup` and `observed_at`; series together, fastest first.

    Filters: kernel, provider and mode exactly, device as a part of its name in any case, workload as a part of the
    case's name or the beginning of the digest (with "sha256:", or at least 8 hexadecimal digits).

    `speedup` is the baseline's median over this one, among the runs of one workload, device, protocol and mode that
    passed. The baseline is the first of `BASELINES` there, its newest run if it has several; None without one.
    """
    objects = _section(catalog, "objects")
    everything = _runs(objects)
    baselines = _baselines(everything)
    rows = []
    for run in sorted(everything, key=_series):
        if (
            (kernel is not None and kernel != run.kernel)
            or (provider is not None and provider != run.provider)
            or (mode is not None and mode != run.mode)
            or (device is not None and device.casefold() not in run.device.casefold())
            or (workload is not None and not _is_workload(workload, run))
        ):
            continue
        baseline = baselines.get(_group(run))
        timed = baseline is not None and run.status == "passed" and run.median_ns
        protocol = _text(objects.get(run.protocol), "metadata", "name", default=run.protocol or UNSPECIFIED)
        speedup = baseline.median_ns / run.median_ns if timed else None
        rows.append({**_picked(run, ROW), "protocol": protocol, "speedup": speedup})
    return rows


def table(rows: list[dict]) -> str:
    """The rows of `runs` as aligned text, one line each under a header; "no runs" when there are none."""
    from tabulate import tabulate  # 80 ms, and only people who look at tables pay it

    if not rows:
        return "no runs"
    texts = ("kernel", "mode", "provider", "case", "device", "protocol", "status")
    lines = [
        [_plain(row[name]) for name in texts]
        + [_duration(row["median_ns"]), "" if row["speedup"] is None else _ratio(row["speedup"])]
        for row in rows
    ]
    align = ["left"] * len(texts) + ["right", "right"]
    return tabulate(lines, [*texts, "median", "speed-up"], tablefmt="simple", colalign=align, disable_numparse=True)


def summary_lines(catalog: dict) -> list[str]:
    """How many runs ended how, then one line for each that failed, with why."""
    objects = _section(catalog, "objects")
    summary = _summary(objects, _runs(objects))
    counts = sorted(summary["runs"].items(), key=lambda item: (item[0] != "passed", item[0]))
    total = sum(summary["runs"].values())
    said = ", ".join(f"{count} {_plain(status)}" for status, count in counts)
    lines = [f"{total} run{'' if total == 1 else 's'}" + (f": {said}" if said else "")]
    for failure in summary["failures"]:
        reason = failure["reason"].strip().split("\n", 1)[0]
        place = " ".join(failure[key] for key in ("kernel", "mode", "provider", "case"))
        lines.append(_plain(f"{place}: {failure['status']}" + (f": {reason}" if reason else "")))
    return lines


def _group(run: _Run) -> tuple:
    return run.workload, run.device, run.protocol, run.mode


def _baselines(runs: list[_Run]) -> dict[tuple, _Run]:
    """The baseline of each group that has one."""
    best: dict[tuple, tuple] = {}
    for run in runs:
        if run.provider in BASELINES and run.status == "passed" and run.median_ns:
            # Without its Z an instant with fractions sorts after the same second without.
            rank = -BASELINES.index(run.provider), run.observed_at.rstrip("Z"), run.run
            known = best.get(_group(run))
            if known is None or rank > known[0]:
                best[_group(run)] = rank, run
    return {group: run for group, (_, run) in best.items()}


def _series(run: _Run) -> tuple:
    return run.kernel, run.mode, run.device, run.protocol or "", _natural(run.case), run.workload or "", run.speed


def _natural(text: str) -> list:
    """Sorts numbers inside of text by value: rows512 before rows1024."""
    parts = re.split("([0-9]+)", text)  # text and digits in turn
    # Compared by length, then digit by digit: int() refuses what is too long.
    parts[1::2] = ((len(digits.lstrip("0")), digits.lstrip("0")) for digits in parts[1::2])
    return [*parts, text]


def _is_workload(wanted: str, run: _Run) -> bool:
    if wanted in run.case:
        return True
    prefix = wanted if wanted.startswith("sha256:") else f"sha256:{wanted}" if len(wanted) >= 8 else None
    return prefix is not None and run.workload is not None and run.workload.startswith(prefix)


def _duration(ns: int | None) -> str:
    """Nanoseconds as ns, µs or ms with three digits at least."""
    if ns is None:
        return ""
    if ns < 1000:
        return f"{ns} ns"
    value, unit = (ns / 1e3, "µs") if ns < 1_000_000 else (ns / 1e6, "ms")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def _ratio(ratio: float) -> str:
    """As in 3.46x; what is far slower than its baseline keeps a digit: 0.0007x."""
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.1g}x"


def _at(value, *path: str):
    """What stands at the path, None where it leads nowhere."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _text(value, *path: str, default: str | None = UNSPECIFIED) -> str | None:
    """The text that stands at the path, the default where it leads nowhere or to something else than text."""
    found = _at(value, *path)
    return found if isinstance(found, str) else default


def _section(catalog: dict, name: str) -> dict:
    section = catalog.get(name, {} if name == "aliases" else None)
    if not isinstance(section, dict):
        raise KernelcatError(f"{name}: expected an object, found {_short(section)}")
    return section


def _picked(run: _Run, names: tuple[str, ...]) -> dict:
    return {name: getattr(run, name) for name in names}


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _named(manifest: dict) -> str:
    return f"{_short(manifest['kind'])} {_short(_at(manifest['metadata'], 'name'))}"


def _stable(value) -> str:
    return json.dumps(value, sort_keys=True)


def _short(value, length: int = 80) -> str:
    """One line that shows the value, cut."""
    text = _plain(value if isinstance(value, str) else str(value))
    return text if len(text) <= length else text[: length - 1] + "…"


def _plain(text: str) -> str:
    """The text without line breaks and what a terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _unique(pairs: list[tuple[str, object]]) -> dict:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key twice in one object")
    return unique


def _refuse(name: str):
    raise ValueError(f"the number {name}, which JSON does not have")
