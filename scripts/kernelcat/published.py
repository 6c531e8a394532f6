"""The published identities behind a CSV of Liger's suite: implementations, protocols and hosts.

Their digests are facts: everybody computes the same ones from the same rows.
"""

from kernelcat import environment, identity, manifests
from kernelcat.errors import KernelcatError
from kernelcat.kernel import MODES, Kernel
from kernelcat.libraries import CSV_PROVIDERS

HARNESS = {"name": "Liger-Kernel benchmark scripts", "repository": "https://github.com/linkedin/Liger-Kernel"}

TIMED = {
    "no-grad-forward": "the module forward pass under torch.no_grad",
    "forward": "the module forward pass",
    "backward": "the backward pass of the module output given a random upstream gradient",
    "full": "the forward pass plus the backward pass",
}
TIMED_NOTES = (
    "Timed: {timed}, via triton.testing.do_bench with quantiles 0.5/0.2/0.8 (median with p20/p80 spread). The upstream "
    "CSV records no CUDA, driver, or torch version; the Liger release rides each run's labels. Comparable only within "
    "one kernel, workload, timed pass, and GPU."
)
MEMORY_NOTES = (
    "Measured: the peak of device memory allocated by torch during {timed}, what is resident before it included, "
    "quantiles 0.5/0.2/0.8 of repeated passes. The upstream CSV's unit says MB and means MiB (2^20 bytes). Comparable "
    "only within one kernel, workload, pass, and GPU."
)


def implementation(name: str, kernel: Kernel, provider: str) -> dict:
    """The published ImplementationRevision of a kernel by a CSV's provider. Some providers share one digest."""
    library = CSV_PROVIDERS[provider]
    spec = {
        "projectRevision": {},
        "operation": {"specDigest": identity.digest(manifests.operation(kernel))},
        "support": {"hardwareArchitectures": [], "dtypes": []},
        **library.published,
    }
    title = f"{kernel.title} · {provider}"
    return manifests.manifest(
        "ImplementationRevision", identity.kebab(f"liger-bench-{name}-{provider}"), spec, title=title
    )


def protocol(mode: str) -> dict:
    """The published BenchmarkProtocol of Liger's suite for `mode`."""
    spec = {
        "harness": HARNESS,
        "measurement": {"timer": "cuda_events", "primaryStatistic": "median"},
        "comparability": {"family": "liger_kernel_bench", "notes": TIMED_NOTES.format(timed=TIMED[mode])},
    }
    name, title = identity.kebab(f"liger-bench-do-bench-{mode}"), f"Liger benchmark harness · {MODES[mode]}"
    return manifests.manifest("BenchmarkProtocol", name, spec, title=title)


def memory_protocol(mode: str) -> dict:
    """The BenchmarkProtocol of the memory rows of Liger's suite for `mode`. The index has none: this is our own."""
    spec = {
        "harness": HARNESS,
        "measurement": {"timer": "none", "primaryStatistic": "median"},
        "comparability": {"family": "liger_kernel_bench_memory", "notes": MEMORY_NOTES.format(timed=TIMED[mode])},
    }
    name, title = identity.kebab(f"liger-bench-memory-{mode}"), f"Liger benchmark harness · memory of the {MODES[mode]}"
    return manifests.manifest("BenchmarkProtocol", name, spec, title=title)


def host(gpu_name: str) -> dict:
    """The published ExecutionEnvironment for a CSV's gpu_name: all that it says about where a row was measured.

    Raises KernelcatError when the GPU is not known.
    """
    product, form_factor = environment.split_gpu_name(gpu_name)
    architecture = environment.architecture(product)
    if architecture is None:
        raise KernelcatError(f"expected a GPU whose architecture is known, found {gpu_name!r}")
    hardware = {"vendor": "nvidia", "product": product, "architecture": architecture}
    if form_factor:
        hardware["formFactor"] = form_factor
    name, title = (
        identity.kebab(f"liger-bench-{gpu_name}"),
        f"Liger benchmark host · {gpu_name.removeprefix('NVIDIA ')}",
    )
    return manifests.manifest("ExecutionEnvironment", name, {"hardware": hardware, "software": {}}, title=title)
