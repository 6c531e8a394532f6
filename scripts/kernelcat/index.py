"""What a catalog's objects say about its runs: the index from operation to workload to runs, and the summary.

Objects may come from outside: what is missing in one reads as "unspecified".
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from kernelcat import identity

UNSPECIFIED = "unspecified"

FAILURE = ("run", "kernel", "mode", "provider", "case", "status", "reason")


@dataclass(frozen=True, slots=True)
class Run:
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
    quality: str  # marks, with blanks between them; "good" without any, "" where nobody looked
    attainable: str  # the least possible time over the median, "" where it is not known
    error: float | None  # the maximum relative error of outputs and gradients, None where nothing was compared

    @property
    def speed(self) -> tuple:
        """Sorts the fastest first, what failed last."""
        return self.status != "passed", self.median_ns is None, self.median_ns or 0, self.provider, self.run


def runs_in(objects: dict[str, dict]) -> list[Run]:
    """What the index needs of each run among the objects."""
    return [_run(objects, key, value) for key, value in objects.items() if at(value, "kind") == "BenchmarkRun"]


def _run(objects: dict[str, dict], digest: str, manifest: dict) -> Run:
    spec = manifest.get("spec")
    workload = text_at(spec, "workloadDigest", default=None)
    environment = text_at(spec, "environmentDigest", default=None)
    case, implementation = objects.get(workload), objects.get(text_at(spec, "implementationDigest"))
    operation = text_at(case, "spec", "operationSpecDigest", default=None)
    # kernel/mode/provider/gpu/case/timestamp. Published implementations do not tell all providers apart, this does.
    parts = text_at(spec, "sourceNative", "externalId").split("/")
    if len(parts) == 6 and all(parts):
        kernel, mode, provider, _, case_name, _ = parts
    else:
        kernel, mode = text_at(objects.get(operation), "metadata", "name"), UNSPECIFIED
        provider, case_name = text_at(implementation, "metadata", "name"), text_at(case, "metadata", "name")
    hardware = at(objects.get(environment), "spec", "hardware")
    device = " ".join(filter(None, (text_at(hardware, "product"), text_at(hardware, "formFactor", default=""))))
    latency = at(spec, "timing", "latencyNs")
    medians = (ns for key in ("median", "mean") if type(ns := at(latency, key)) is int)
    median = next((ns for ns in medians if 0 <= ns <= identity.MAX_INTEGER), None)
    error = at(spec, "correctness", "maximumRelativeError")
    return Run(
        run=digest,
        kernel=kernel,
        mode=mode,
        provider=provider,
        case=case_name,
        device=device,
        protocol=text_at(spec, "protocolDigest", default=None),
        environment=environment,
        operation=operation,
        workload=workload,
        status=text_at(spec, "status"),
        median_ns=median,
        observed_at=text_at(spec, "observedAt", default=""),
        reason=text_at(manifest, "metadata", "description", default=""),
        quality=text_at(manifest, "metadata", "labels", "quality", default=""),
        attainable=text_at(manifest, "metadata", "labels", "attainable", default=""),
        error=error if type(error) in (int, float) else None,
    )


def index(objects: dict[str, dict], runs: list[Run]) -> dict:
    """Operation → workload → groups of comparable runs. What cites an object that is not here has no place in it."""
    index = {
        digest: {"name": text_at(manifest, "metadata", "name", default=""), "workloads": {}}
        for digest, manifest in objects.items()
        if at(manifest, "kind") == "OperationSpec"
    }
    entries = {}
    for digest, manifest in objects.items():
        operation = text_at(manifest, "spec", "operationSpecDigest", default=None)
        if at(manifest, "kind") == "WorkloadCase" and operation in index:
            entry = {"name": text_at(manifest, "metadata", "name", default=""), "measured": []}
            entries[digest] = index[operation]["workloads"][digest] = entry
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        if run.workload in entries:
            groups.setdefault((run.workload, run.device, run.mode, run.protocol or ""), []).append(run)
    for (workload, device, mode, protocol), members in sorted(groups.items(), key=lambda item: item[0]):
        listed = [_entry(run) for run in sorted(members, key=lambda run: run.speed)]
        group = {"device": device, "protocol": protocol, "mode": mode, "runs": listed}
        entries[workload]["measured"].append(group)
    return index


def _entry(run: Run) -> dict:
    entry = {
        "run": run.run,
        "provider": run.provider,
        "status": run.status,
        "environment": run.environment or "",
        "observedAt": run.observed_at,
    }
    return entry if run.median_ns is None else {**entry, "medianNs": run.median_ns}


def summary(objects: dict[str, dict], runs: list[Run]) -> dict:
    """Counts of objects and runs, and one entry for each run that did not pass."""
    order = attrgetter("kernel", "mode", "provider", "case", "run")
    failures = [
        {name: getattr(run, name) for name in FAILURE} for run in sorted(runs, key=order) if run.status != "passed"
    ]
    return {
        "objects": _counted(text_at(manifest, "kind") for manifest in objects.values()),
        "runs": _counted(run.status for run in runs),
        "kernels": _counted(run.kernel for run in runs),
        "devices": _counted(run.device for run in runs),
        "failures": failures,
    }


def at(value, *path: str):
    """What stands at the path, None where it leads nowhere."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text_at(value, *path: str, default: str | None = UNSPECIFIED) -> str | None:
    """The text that stands at the path, the default where it leads nowhere or to something else than text."""
    found = at(value, *path)
    return found if isinstance(found, str) else default


def leaves(value, path: str = "") -> Iterator[tuple[str, object]]:
    """Each value inside that is no object, with the names that lead to it joined by points, sorted by name."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from leaves(value[key], f"{path}.{key}" if path else key)
    else:
        yield path, value


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
