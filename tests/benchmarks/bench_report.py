"""Seconds and megabytes of the report of 10,000 runs, imports included. `make bench-report` runs it.

The runs are the seed's with other kernels, devices, modes, providers and shapes: sweeps of six shapes, five providers,
a twentieth failed, a tenth marked, memory and part of the limit beside each latency.
"""

import copy
import itertools
import resource
import sys
import tempfile
import time
from pathlib import Path

SEED = Path(__file__).parents[1] / "data" / "seed" / "rms_norm-backward-huggingface-a100.csv"
RUNS = 10_000


def manifests() -> list[dict]:
    """As an import of the seed, with as many runs."""
    from kernelcat import identity, importing

    made = importing.import_csv(SEED).manifests
    seed = {manifest["kind"]: manifest for manifest in made}
    device = identity.kebab("NVIDIA A100-SXM4-80GB")
    cells = itertools.product(
        range(40),
        ("forward", "backward", "full"),
        ("bf16", "fp32", "fp16"),
        ("liger", "huggingface", "torch", "torch_compile", "megatron"),
        range(6),
    )
    for number, (kernel, mode, dtype, provider, size) in enumerate(itertools.islice(cells, RUNS)):
        hidden = 1024 << size
        workload = copy.deepcopy(seed["WorkloadCase"])
        workload["spec"]["axes"]["hidden"] = hidden
        workload["metadata"]["name"] = f"kernel{kernel}-{dtype}"
        for tensor in workload["spec"]["tensors"].values():
            tensor["dtype"] = dtype
        run = copy.deepcopy(seed["BenchmarkRun"])
        median = 1000 * (number % 7 + 1) * (1 << size)
        run["spec"] |= {
            "workloadDigest": identity.digest(workload),
            "status": "passed" if number % 20 else "timeout",
            "timing": {"primaryStatistic": "median", "latencyNs": {"median": median}},
            "measurements": [
                {"metric": "latency", "unit": "ns", "statistic": "p20", "value": median - 50},
                {"metric": "latency", "unit": "ns", "statistic": "p80", "value": median + 150},
                {"metric": "peak_memory_allocated", "unit": "bytes", "statistic": "maximum", "value": hidden * 2**16},
            ],
        }
        case = f"hidden{hidden}-rows2048-{dtype}"
        run["spec"]["sourceNative"]["externalId"] = f"kernel{kernel}/{mode}/{provider}/{device}/{case}/{number}"
        run["metadata"]["labels"] |= {"attainable": f"{1 / (number % 7 + 2):.3f}", "quality": "good"}
        if number % 10 == 1:
            run["metadata"]["labels"]["quality"] = "unstable drift"
        made += [workload, run]
    return made


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
    from kernelcat import catalog, query, report

    with tempfile.TemporaryDirectory() as folder:
        path, page, plots = (Path(folder) / name for name in ("catalog.json", "report.html", "plots"))
        found = catalog.build(manifests())
        catalog.write(path, found)
        runs = len(query.rows(found))
        start, processor = time.perf_counter(), time.process_time()
        report.write(path, page, plots)
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        megabytes = page.stat().st_size / 1e6
        pictures = [file.stat().st_size for file in plots.iterdir()]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{runs} runs: {seconds:.1f} s, {processor:.1f} s of them computing")
        print(f"page of {megabytes:.1f} MB, {peak:.0f} MiB of memory at most")
        print(f"{len(pictures)} figures of {sum(pictures) / 1e6:.1f} MB")
