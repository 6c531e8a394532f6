"""Builds each kind's manifest from plain values: what imported and measured runs have in common.

What is particular to one of them stands in importing.py (the published identities) and documents.py (measured runs).
"""

from dataclasses import dataclass
from functools import cached_property

from kernelcat import identity, schema
from kernelcat.errors import KernelcatError
from kernelcat.kernel import Case, Kernel
from kernelcat.libraries import Library


def manifest(kind: str, name: str, spec: dict, **metadata: object) -> dict:
    """A manifest of `kind`. Metadata that is None or empty is left out.

    Raises KernelcatError when it does not fit the kind's schema: nothing invalid is ever written.
    """
    found = {
        "apiVersion": identity.API_VERSION,
        "kind": kind,
        "metadata": {"name": name} | {key: value for key, value in metadata.items() if value},
        "spec": spec,
    }
    faults = schema.faults(found)
    if faults:
        raise KernelcatError(f"{kind} {name}: {faults[0]}")
    return found


def project(library: Library) -> dict:
    """The SoftwareProject that a library is."""
    return manifest("SoftwareProject", identity.kebab(library.project["name"]), library.project)


def operation(kernel: Kernel, measured: bool = False) -> dict:
    """The OperationSpec of a kernel, as published: its axes, tensors and scalars by name; no expression, but where it
    is that of what was `measured`."""
    variable = {"role": "variable", "type": "integer"}
    derived = {"role": "derived", "type": "integer"}
    axes = {name: variable for name in kernel.operation_axes or kernel.axes}
    axes |= {name: {**derived, "expression": expression} for name, expression in kernel.derived.items()}

    def arguments(tensors):
        return [
            {"name": name, "tensor": {"shape": list(spec.shape), "dtype": spec.dtype}} for name, spec in tensors.items()
        ]

    spec = {
        "family": kernel.family,
        "axes": axes,
        "inputs": arguments(kernel.inputs),
        "outputs": arguments(kernel.outputs),
        "semantics": {"mutation": "none", "determinism": "unspecified"},
    }
    if measured and kernel.expression:
        spec["semantics"]["expression"] = kernel.expression
    return manifest("OperationSpec", kernel.slug, spec, title=kernel.title)


def workload(kernel: Kernel, case: Case, measured: bool = False) -> dict:
    """The WorkloadCase of one case, as published: so measured and imported runs meet on it, unless what was `measured`
    has an operation of its own.

    Raises KernelcatError for shapes that cannot be.
    """
    spec = {
        "operationSpecDigest": identity.digest(operation(kernel, measured)),
        "axes": case.axes,
        "tensors": {
            name: {"shape": list(shape), "dtype": kernel.tensor_dtype(name, case.dtype)}
            for name, shape in kernel.shapes(kernel.inputs, case.axes).items()
        },
        "correctness": {"comparator": "not_asserted"},
    }
    if case.scalars:
        spec["scalars"] = {name: {"dtype": "fp32", "value": value} for name, value in case.scalars.items()}
    return manifest("WorkloadCase", identity.kebab(f"{kernel.slug}-{case.key}"), spec)


@dataclass(frozen=True)
class Event:
    """One measured event as its source knows it: `device` is the GPU's name, `time` text as the source writes it."""

    kernel: str
    mode: str
    provider: str
    device: str
    case: str
    time: str

    @cached_property
    def external_id(self) -> str:
        """As in "rms_norm/backward/liger/nvidia-h200/hidden16384-rows2048-bf16/2026-12-01-12-44-41"."""
        device, time = identity.kebab(self.device), identity.kebab(self.time)
        return "/".join((self.kernel, self.mode, self.provider, device, self.case, time))

    def name(self, prefix: str) -> str:
        """The name of its run. Names are cut, so two runs may share one."""
        parts = (prefix, self.kernel, self.mode, self.provider, self.device, self.case, self.time)
        return identity.kebab("-".join(parts))


def run(
    event: Event,
    kernel: Kernel,
    *,
    prefix: str,
    source: str,
    cited: dict[str, str],
    observed_at: str,
    status: str = "passed",
    spec: dict | None = None,
    metrics: dict[str, float] | None = None,
    **metadata: object,
) -> dict:
    """The BenchmarkRun of an event. `cited` maps "implementation", "workload", "protocol" and "environment" to their
    digests, `spec` holds timing, measurements, correctness and evidence as far as there are any, `metrics` the
    source's own numbers by name.
    """
    native = {"source": source, "benchmark": f"{event.kernel}/{event.mode}", "externalId": event.external_id}
    whole = {
        **{f"{kind}Digest": digest for kind, digest in cited.items()},
        "status": status,
        "sourceNative": native | ({"metrics": metrics} if metrics else {}),
        "observedAt": observed_at,
        **(spec or {}),
    }
    title = f"{kernel.title} · {event.provider} · {event.mode}"
    return manifest("BenchmarkRun", event.name(prefix), whole, title=title, **metadata)


def measurement(metric: str, unit: str, statistic: str, value: int, **more: object) -> dict:
    """One entry of a run's measurements."""
    return {"metric": metric, "unit": unit, "statistic": statistic, "value": value, **more}


def latency(statistic: str, ns: int, **more: object) -> dict:
    """A latency among a run's measurements."""
    return measurement("latency", "ns", statistic, ns, **more)
