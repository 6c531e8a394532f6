"""Records of measured configurations → documents: {run, protocol, environment} for each, and what runs cite.

    runs/{path of the configuration}.json       the document of one run
    cited/{kind}/{64 hex digits}.json           workloads, operations, implementations and projects, each once

`read` gives all manifests of such a folder back, for the runs that are asked for.
"""

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from kernelcat import correctness, files, identity, kernels, manifests, samples, schema
from kernelcat.grid import Configuration
from kernelcat.kernel import MODES, Kernel
from kernelcat.timing import PROTOCOLS, Sampling

SOURCE = "kernelcat"


def document(record: dict, evidence: dict, own_kernels: str | None = None) -> tuple[dict, list[dict]]:
    """The {run, protocol, environment} document of a record that kernelcat.measure made, and the manifests that it
    cites besides. `evidence` is the record's {uri, digest}.

    Raises KernelcatError when a manifest is invalid.
    """
    configuration = Configuration.from_json(record["configuration"])
    kernel = kernels.load(kernels.files(own_kernels)[configuration.kernel])
    provider = kernel.providers[configuration.provider]
    event = manifests.Event(
        configuration.kernel,
        configuration.mode,
        configuration.provider,
        record["device"],
        configuration.case.key,
        f"{record['observedAt'][:10]} {record['observedAt'][11:19]}",
    )
    cited = {
        "implementation": _implementation(kernel, configuration, record),
        "workload": manifests.workload(kernel, configuration.case),
        "protocol": _protocol(configuration.protocol, configuration.mode, configuration.sampling),
        "environment": manifests.manifest(
            "ExecutionEnvironment",
            identity.kebab(f"kernelcat-{record['device']}"),
            record["environment"],
            title=record["device"],
        ),
    }
    measured, metrics = _measured(record)
    run = manifests.run(
        event,
        kernel,
        prefix="kernelcat",
        source=SOURCE,
        cited={kind: identity.digest(manifest) for kind, manifest in cited.items()},
        observed_at=record["observedAt"],
        status=record["status"],
        spec=measured | {"evidence": {"rawSamples": evidence}},
        metrics=metrics,
        description=record["reason"],
        labels=_labels(record),
    )
    beside = [cited["implementation"], cited["workload"], manifests.operation(kernel)]
    if provider.library:
        beside.append(manifests.project(provider.library))
    return {"run": run, "protocol": cited["protocol"], "environment": cited["environment"]}, beside


def write(records: Iterable[str | Path], metrics: str | Path, folder: str | Path, own_kernels: str | None) -> None:
    """Writes the documents of `records`, files below the folder `metrics`, to `folder`.

    Raises KernelcatError when a record cannot be read or a document is invalid, OSError when a file cannot be written.
    """
    cited: dict[str, dict] = {}
    for path in map(Path, records):
        record = files.load(path, limit=None)
        name = path.relative_to(metrics)
        # the uri is relative to the folder that holds both metrics and documents
        uri = f"{Path(metrics).name}/{name.as_posix()}"
        digest = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
        bundle, beside = document(record, {"uri": uri, "digest": digest}, own_kernels)
        files.write(Path(folder) / "runs" / name, _bytes(bundle))
        cited |= {identity.digest(manifest): manifest for manifest in beside}
    for digest, manifest in cited.items():
        files.write(_cited_path(folder, manifest["kind"], digest), _bytes(manifest))


def read(runs: Iterable[str | Path], folder: str | Path) -> list[dict]:
    """All manifests of the documents `runs` and what they cite below `folder`.

    Raises KernelcatError when one cannot be read.
    """
    found = []
    cited: dict[Path, dict] = {}

    def load(kind: str, digest: str) -> dict:
        path = _cited_path(folder, kind, digest)
        if path not in cited:
            cited[path] = files.load(path)
        return cited[path]

    repositories = set()
    for path in runs:
        bundle = files.load(path)
        found += bundle.values()
        spec = bundle["run"]["spec"]
        implementation = load("ImplementationRevision", spec["implementationDigest"])
        repositories.add(implementation["spec"]["projectRevision"].get("repository"))
        workload = load("WorkloadCase", spec["workloadDigest"])
        load("OperationSpec", workload["spec"]["operationSpecDigest"])
    # nothing cites a project by digest: it belongs to the implementations from its repository
    folder = _cited_path(folder, "SoftwareProject", "").parent
    projects = [files.load(path) for path in sorted(folder.glob("*.json"))]
    used = [project for project in projects if project["spec"]["repository"] in repositories]
    return [*found, *cited.values(), *used]


def _cited_path(folder: str | Path, kind: str, digest: str) -> Path:
    return Path(folder) / "cited" / schema.KINDS[kind] / f"{digest.removeprefix('sha256:')}.json"


def _bytes(document: dict) -> bytes:
    return (json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


@lru_cache
def _protocol(name: str, mode: str, sampling: Sampling | None) -> dict:
    """The BenchmarkProtocol of one of kernelcat's protocols for `mode`."""
    spec = PROTOCOLS[name].spec(mode, correctness.COMPARATOR, sampling)
    title = f"kernelcat · {name} · {MODES[mode]}"
    return manifests.manifest("BenchmarkProtocol", identity.kebab(f"kernelcat-{name}-{mode}"), spec, title=title)


def _implementation(kernel: Kernel, configuration: Configuration, record: dict) -> dict:
    """The ImplementationRevision that was measured: version, module and symbol, or the content of the user's file."""
    provider = kernel.providers[configuration.provider]
    spec = {
        "operation": {"specDigest": identity.digest(manifests.operation(kernel))},
        "support": {"hardwareArchitectures": [], "dtypes": []},
    }
    module, _, symbol = (provider.symbol or "").partition(":")
    if library := provider.library:
        version = record["versions"][library.package]
        spec |= {
            "projectRevision": {"repository": library.project["repository"], "version": version},
            "callable": {"language": library.language, "path": module, "symbol": symbol},
            "buildVariants": [
                {"name": "pip", "install": {"kind": "pip", "package": library.package, "version": version}}
            ],
            "licensing": library.licensing,
        }
    else:
        version = ""
        spec |= {
            "projectRevision": {},
            "callable": {
                "language": provider.language,
                "path": record["source"]["fileName"],
                "symbol": symbol or configuration.provider,
            },
            "source": record["source"],
            "licensing": {},
        }
    if provider.interface:
        spec["callable"]["interface"] = provider.interface
    name = identity.kebab(f"{configuration.kernel}-{configuration.provider}-{version}")
    title = " ".join(filter(None, (kernel.title, "·", configuration.provider, version)))
    return manifests.manifest("ImplementationRevision", name, spec, title=title)


def _labels(record: dict) -> dict:
    version = record["versions"]["liger-kernel"]
    return {"liger_version": version} if version else {}


def _measured(record: dict) -> tuple[dict, dict]:
    """What a run's spec says about its results, and the source's own numbers."""
    spec = {"correctness": record["correctness"]} if "correctness" in record else {}
    if record["status"] != "passed":
        return spec, {}
    values = record["samplesMs"]
    count, summary = len(values), samples.summary(values)
    ns = {name: identity.nanoseconds(value) for name, value in summary.items()}
    interval = [identity.nanoseconds(value) for value in samples.median_interval(sorted(values))]
    names = ("median", "mean", "p05", "p95", "minimum", "maximum", "mad")
    spec["timing"] = {
        "primaryStatistic": "median",
        "samples": count,
        "latencyNs": {**{name: ns[name] for name in names}, "confidence95": interval},
    }
    spec["measurements"] = [manifests.latency(name, ns[name], sampleCount=count) for name in ("p20", "p80")]
    metrics = {f"ms_{q}": summary[name] for q, name in ((20, "p20"), (50, "median"), (80, "p80"))}
    if "peakMemoryBytes" in record:
        peak = record["peakMemoryBytes"]
        entry = {"metric": "peak_memory", "unit": "bytes", "statistic": "maximum", "value": peak, "sampleCount": 1}
        spec["measurements"].append(entry)
        metrics["mb_50"] = peak / 2**20
    return spec, metrics
