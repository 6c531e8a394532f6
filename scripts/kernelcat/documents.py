"""Records of measured configurations → documents: {run, protocol, environment} for each, and what runs cite.

    runs/{path of the configuration}.json       the document of one run
    runs/SHA256SUMS                             the digests of these and the following documents
    cited/{kind}/{64 hex digits}.json           workloads, operations, implementations and projects, each once
    samples/{64 hex digits}.json                raw samples, by the digest of the file

`read` gives all manifests of such a folder back.

What a run's spec says follows from its record alone. What follows from other runs as well, how much of the device's
limit it attains and the marks on its quality, are labels: they never change its digest.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from kernelcat import correctness, files, identity, kernels, manifests, quality, recorded, roofline, samples, schema
from kernelcat.errors import KernelcatError
from kernelcat.grid import Configuration
from kernelcat.kernel import MODES, Kernel
from kernelcat.roofline import Limits
from kernelcat.timing import PROTOCOLS, Sampling

SOURCE = "kernelcat"
RUNS = "runs"
SUMS = "SHA256SUMS"
"""What documents there are, below the folder of the runs: `sha256sum -c runs/SHA256SUMS` beside it reads it too."""


@dataclass(frozen=True)
class Records:
    """The records of one catalog, and what follows from all of them."""

    own_kernels: str | None
    by_path: dict[Path, dict]

    @cached_property
    def limits(self) -> dict[str, Limits]:
        """What each device can do."""
        found: dict[str, Limits] = defaultdict(Limits)
        for record, configuration, median in self._passed():
            kernel, case = configuration.kernel, configuration.case
            if configuration.device == "cuda" and roofline.is_calibration(kernel, case):
                found[_device(record)].add(kernel, self.kernel(kernel), case, median / 1e3)
        return found

    @cached_property
    def medians(self) -> dict[tuple, float]:
        """Median latency in ms by series and mode."""
        return {(*_series(record), configuration.mode): median for record, configuration, median in self._passed()}

    def _passed(self) -> Iterator[tuple[dict, Configuration, float]]:
        for record in self.by_path.values():
            if record["status"] == "passed":
                configuration = Configuration.from_json(record["configuration"])
                yield record, configuration, samples.quantile(sorted(record["samplesMs"]), 0.5)

    def kernel(self, name: str) -> Kernel:
        return kernels.load(kernels.files(self.own_kernels)[name])

    def labels(self, record: dict) -> dict[str, str]:
        """The labels of a record's run: `liger_version`, `attainable` (the least time that the device could take as a
        part of the median) and `quality` (the marks with blanks between them, "good" where there are none)."""
        version = record["versions"]["liger-kernel"]
        labels = {"liger_version": version} if version else {}
        if record["status"] != "passed":
            return labels
        configuration = Configuration.from_json(record["configuration"])
        series, mode, fraction = _series(record), configuration.mode, None
        median = self.medians[*series, mode]
        if limits := self.limits.get(_device(record)):
            seconds = limits.attainable_seconds(self.kernel(configuration.kernel), configuration.case, mode)
            if seconds is not None:
                fraction = seconds * 1e3 / median
                labels["attainable"] = f"{fraction:.3g}"
        parts = ("forward", "backward") if mode == "full" else ()
        halves = [self.medians[*series, part] for part in parts if (*series, part) in self.medians]
        provider = self.kernel(configuration.kernel).providers[configuration.provider]
        split = not (provider.gradients_in_forward and mode in ("forward", "backward"))
        marks = quality.marks(record, halves, fraction if split else None)
        if not split:
            marks.append(quality.GRADIENTS_IN_FORWARD)
        labels["quality"] = " ".join(marks) or "good"
        return labels


def document(record: dict, records: Records, evidence: dict[str, dict]) -> tuple[dict, list[dict]]:
    """The {run, protocol, environment} document of a record that kernelcat.measure made, and the manifests that it
    cites besides. `evidence` holds {uri, digest} of `logs`, the record, and of its raw `samples` if it has any.

    Raises KernelcatError when a manifest is invalid.
    """
    configuration = Configuration.from_json(record["configuration"])
    kernel = records.kernel(configuration.kernel)
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
        "workload": manifests.workload(kernel, configuration.case, measured=True),
        "protocol": _protocol(configuration.protocol, configuration.mode, configuration.sampling),
        "environment": manifests.manifest(
            "ExecutionEnvironment",
            identity.kebab(f"kernelcat-{record['device']}"),
            record["environment"],
            title=record["device"],
        ),
    }
    measured, metrics = _measured(record, kernel, configuration)
    if "samples" in evidence:
        measured["timing"]["rawSamples"] = evidence["samples"]
    run = manifests.run(
        event,
        kernel,
        prefix="kernelcat",
        source=SOURCE,
        cited={kind: identity.digest(manifest) for kind, manifest in cited.items()},
        observed_at=record["observedAt"],
        status=record["status"],
        spec=measured | {"evidence": {"logs": evidence["logs"]}},
        metrics=metrics,
        description=record["reason"],
        labels=records.labels(record),
    )
    beside = [cited["implementation"], cited["workload"], manifests.operation(kernel, measured=True)]
    if provider.library:
        beside.append(manifests.project(provider.library))
    return {"run": run, "protocol": cited["protocol"], "environment": cited["environment"]}, beside


def write(paths: Iterable[str | Path], metrics: str | Path, folder: str | Path, own_kernels: str | None) -> None:
    """Writes the documents of the records in `paths`, files below the folder `metrics`, to `folder`; those of other
    runs that are there are removed.

    Raises KernelcatError when a record cannot be used or a document is invalid, OSError when a file cannot be written.
    """
    records = Records(own_kernels, {Path(path): recorded.load(path) for path in paths})
    for path, record in records.by_path.items():
        configuration = Configuration.from_json(record["configuration"])
        place = re.sub("^cuda-[^/]+/", "cuda/", path.relative_to(metrics).as_posix())  # of a GPU model that is named
        if place != f"{configuration.path}.json":
            raise KernelcatError(f"{path}: expected the record of this configuration, found {configuration.path}")
    documents: dict[Path, dict] = {}
    for name in ("cited", "samples"):  # even when there are none
        (Path(folder) / name).mkdir(parents=True, exist_ok=True)
    for path, record in records.by_path.items():
        name = path.relative_to(metrics)
        # uris are relative to the folder that holds both metrics and documents
        evidence = {"logs": _artifact(f"{Path(metrics).name}/{name.as_posix()}", path.read_bytes())}
        if record["status"] == "passed":
            data = identity.canonical_json({"unit": "ms", "samples": record["samplesMs"]})
            file = Path("samples", f"{hashlib.sha256(data).hexdigest()}.json")
            evidence["samples"] = _artifact(f"{Path(folder).name}/{file.as_posix()}", data)
            files.write(Path(folder) / file, data)
        bundle, beside = document(record, records, evidence)
        documents[Path(folder) / RUNS / name] = bundle
        documents |= {_cited_path(folder, manifest["kind"], identity.digest(manifest)): manifest for manifest in beside}
    sums = []
    for path, found in sorted(documents.items()):
        data = _bytes(found)
        files.write(path, data)
        sums.append(f"{hashlib.sha256(data).hexdigest()}  {path.relative_to(folder).as_posix()}\n")
    files.write(Path(folder) / RUNS / SUMS, "".join(sums).encode())
    for path in set((Path(folder) / RUNS).rglob("*.json")) - documents.keys():
        path.unlink()


def _artifact(uri: str, data: bytes) -> dict:
    return {"uri": uri, "digest": "sha256:" + hashlib.sha256(data).hexdigest()}


def _device(record: dict) -> str:
    """The device and its settings: what can be attained does not depend on the software, which changes more often."""
    return json.dumps([record["environment"].get(part) for part in ("hardware", "settings")], sort_keys=True)


def _series(record: dict) -> tuple:
    """What the modes of one provider have in common."""
    values = record["configuration"]
    rest = json.dumps([values[key] for key in ("case", "sampling")], sort_keys=True)
    return *(values[key] for key in ("kernel", "provider", "protocol")), rest, _device(record)


def read(folder: str | Path) -> list[dict]:
    """All manifests of the documents of runs in `folder` and what they cite.

    Raises KernelcatError when one is not there, not as it was made, or of a run that was not made with the others.
    """
    sums = Path(folder) / RUNS / SUMS
    unknown = {path.as_posix() for path in sums.parent.rglob("*.json")}
    try:
        listed = [line.split("  ", 1) for line in sums.read_text().splitlines()]
        found = []
        for digest, name in listed:
            path = Path(folder) / name
            unknown.discard(path.as_posix())
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                raise KernelcatError(f"{path}: expected the document as it was made, found one that was changed since")
            document = files.load(path)
            found += document.values() if name.startswith(f"{RUNS}/") else [document]
    except OSError as error:
        raise KernelcatError(f"{error.filename}: expected a document, found: {error.strerror}") from error
    except ValueError as error:
        raise KernelcatError(f"{sums}: expected lines of digest and path, found something else") from error
    if unknown:
        raise KernelcatError(f"{min(unknown)}: expected a document that {SUMS} lists, found another")
    return found


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
        "operation": {"specDigest": identity.digest(manifests.operation(kernel, measured=True))},
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


def _measured(record: dict, kernel: Kernel, configuration: Configuration) -> tuple[dict, dict]:
    """What a run's spec says about its results, and the source's own numbers."""
    spec = {"correctness": record["correctness"]} if "correctness" in record else {}
    metrics = {"order_seed": record["orderSeed"]} if "orderSeed" in record else {}
    if record["status"] != "passed":
        return spec, metrics
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
    latency, more = manifests.latency, []
    spec["measurements"] = more
    more += [latency(name, ns[name], sampleCount=count) for name in ("p20", "p80")]
    metrics |= {f"ms_{q}": summary[name] for q, name in ((20, "p20"), (50, "median"), (80, "p80"))}
    if device := record.get("deviceMs"):
        median = identity.nanoseconds(samples.quantile(sorted(device), 0.5))
        more.append(manifests.measurement("device_latency", "ns", "median", median, sampleCount=len(device)))
    more.append(manifests.measurement("compile_time", "ns", "single", round(record["compileSeconds"] * 1e9)))
    if peak := record.get("peakMemoryBytes"):
        more += [manifests.measurement(f"peak_memory_{name}", "bytes", "maximum", size) for name, size in peak.items()]
        metrics["mb_50"] = peak["allocated"] / 2**20
    if configuration.device == "cuda":
        seconds = summary["median"] / 1e3
        rate = round(roofline.traffic_bytes(kernel, configuration.case, configuration.mode) / seconds)
        more.append(manifests.measurement("bandwidth", "bytes_per_second", "median", rate))
        if operations := roofline.operations(kernel, configuration.case, configuration.mode):
            more.append(manifests.measurement("flop_rate", "flop_per_second", "median", round(operations / seconds)))
    return spec, metrics
