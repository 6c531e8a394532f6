"""What a configuration costs besides its sampling: the workflow's wall time minus the sampling time, per configuration.

The workflow runs in copies, on a suite of its own for the device that `device: auto` finds: first with process=warm,
where measuring processes are forked from one that has the imports behind it, then with process=fresh, where each has
them before it. The wall time is that of the whole command, with Snakemake's start and the catalog; the sampling time is
the sum of the records' `samplingSeconds`, warm-up included. Failed configurations have none: where the table shows any,
its numbers are wrong. They are too while something else measures on this machine, because a device is used by one
process at a time and waiting for it counts. On a GPU the configurations include those that calibrate it.

All runs share one cache of compiled kernels. On a GPU a run that is not timed, of the first size of each sweep, fills
it first, so that none compiles. On a CPU nothing is compiled, and warm, the first run, is the one that may have to read
the packages from the disk.

With --configurations the fresh run measures only so many, spread over the suite: their records, without the catalog.
With --liger the table ends with the rms_norm script of a Liger-Kernel checkout, run on the liger-kernel that is
installed: the wall time of the command, start and memory passes included, per point whose speed it measured. It does
not tell its sampling time, so that is in there. It runs twice, and the second time counts: its kernels are cached then.

Last come the medians of the warm run's forward passes of rms_norm. `make bench-overhead` runs it.
"""

import argparse
import contextlib
import csv
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from conftest import copy_workflow  # noqa: E402

from kernelcat import files, grid, samples  # noqa: E402
from kernelcat.grid import Configuration  # noqa: E402

MODES = ["forward", "backward", "full"]
PROVIDERS = ["liger", "huggingface"]
SMALL = {
    "rms_norm": {"rows": [16, 32, 64], "hidden": [64, 128]},
    "swiglu": {"batch": 1, "seq": [8, 16, 32], "hidden": 64, "intermediate": [128, 256]},
    "rope": {"seq": [8, 16, 32], "hidden": [128, 256], "q_heads": 4, "kv_heads": 2},
}
SUITES = {
    "cpu": {
        kernel: {"providers": PROVIDERS, "modes": MODES, "dtypes": ["fp32"], "axes": axes}
        for kernel, axes in SMALL.items()
    },
    "cuda": {
        "rms_norm": {
            "providers": PROVIDERS,
            "modes": MODES,
            "dtypes": ["bf16", "fp16", "fp32"],
            "axes": {"rows": [2**power for power in range(10, 16)], "hidden": 4096},
        }
    },
}
COLUMNS = "{:<16} {:>14} {:>6} {:>8} {:>10} {:>11} {:>15} {:>10}"
HEAD = ("", "configurations", "failed", "wall s", "sampling s", "wall s each", "overhead s each", "fresh/warm")
LIGER_SCRIPT = Path("benchmark/scripts/benchmark_rms_norm.py")
INTERRUPT_SECONDS = 30


def run(command: list[str], folder: Path, **variables: str) -> float:
    """The wall time of a command. What it prints goes into a file, and is shown when it fails."""
    log = folder / "output.log"
    start = time.monotonic()
    # a process group of its own: an interrupt from the keyboard reaches it once, through this process
    with (
        log.open("w") as output,
        subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        ) as process,
    ):
        try:
            process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGINT)
                process.wait(INTERRUPT_SECONDS)  # it ends its jobs
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    seconds = time.monotonic() - start
    if process.returncode:
        sys.exit(f"{log.read_text()}\n{' '.join(command[:6])} … failed with code {process.returncode}")
    return seconds


def set_up(folder: Path, suite: dict, cache: Path, sampling: dict) -> dict:
    """Makes a copy of the workflow that measures `suite`, and returns its config."""
    copy_workflow(folder)
    config = files.load(ROOT / "config/config.yaml") | {
        "suite": "overhead",
        "device": "auto",
        "protocol": {"cuda": "graph", "cpu": "monotonic"},
        "compile_cache": str(cache),
        "imports": {},
    }
    config["sampling"] |= sampling
    config.pop("kernels", None)
    (folder / "config/config.yaml").write_text(json.dumps(config))
    (folder / "config/suites/overhead.yaml").write_text(json.dumps(suite))
    return config


def measure(folder: Path, process: str, targets: list[str]) -> tuple[float, list[dict]]:
    """The wall time of the workflow, and the records that it made."""
    options = ["--config", "device=auto", f"process={process}"]
    seconds = run([sys.executable, "-m", "snakemake", "--cores", "1", *targets, *options], folder)
    return seconds, [json.loads(path.read_text()) for path in (folder / "results/metrics").rglob("*.json")]


def spread(paths: list[str], count: int) -> list[str]:
    """`count` of the paths. Steps of the golden section, which meet each path once, cover the list evenly and do not
    keep to every second or third, as equal steps may: so lie providers and modes."""
    step = round(len(paths) * 0.618)
    while math.gcd(step, len(paths)) > 1:
        step += 1
    return [paths[number * step % len(paths)] for number in range(count)]


def print_row(name: str, seconds: float, records: list[dict], warm: float | None = None) -> float:
    """Prints a row of the table and returns the overhead per configuration."""
    failed = sum(record["status"] != "passed" for record in records)
    sampling = sum(record.get("samplingSeconds", 0) for record in records)
    overhead = (seconds - sampling) / len(records)
    values = [f"{seconds:.1f}", f"{sampling:.1f}", f"{seconds / len(records):.2f}", f"{overhead:.2f}"]
    print(COLUMNS.format(name, len(records), failed, *values, f"{overhead / warm:.1f}" if warm else ""), flush=True)
    return overhead


def print_sweep(records: list[dict]) -> None:
    """Prints the medians of rms_norm's forward pass in the suite's first dtype, and how far apart p80 and p20 are."""
    found = [record for record in records if record["status"] == "passed"]
    cells = [(Configuration.from_json(record["configuration"]), record["samplesMs"]) for record in found]
    cells = [(cell, times) for cell, times in cells if (cell.kernel, cell.mode) == ("rms_norm", "forward")]
    dtype = "bf16" if any(cell.case.dtype == "bf16" for cell, _ in cells) else "fp32"
    print(f"\nrms_norm forward {dtype}\n{'case':<28} {'provider':<12} {'median ms':>10} {'p80/p20':>8}")
    for cell, times in sorted(cells, key=lambda pair: (pair[0].provider, list(pair[0].case.axes.values()))):
        if cell.case.dtype == dtype:
            known = samples.summary(times)
            spread = known["p80"] / known["p20"]
            print(f"{cell.case.key:<28} {cell.provider:<12} {known['median']:>10.5f} {spread:>8.3f}")


def run_liger(checkout: Path, folder: Path, cache: Path) -> None:
    """Runs a copy of Liger's script and prints its row."""
    script = folder / LIGER_SCRIPT
    shutil.copytree((checkout / LIGER_SCRIPT).parent, script.parent)
    csv_file = folder / "benchmark/data/all_benchmark_data.csv"
    csv_file.parent.mkdir()
    variables = {"TRITON_CACHE_DIR": f"{cache}/triton", "LIGER_BENCH_TARGET": "", "LIGER_BENCH_PROVIDER_TAG": ""}
    for _ in range(2):
        seconds = run([sys.executable, str(script), "--overwrite"], folder, **variables)
    with csv_file.open(newline="") as file:
        latencies = [float(row["y_value_50"]) for row in csv.DictReader(file) if row["metric_name"] == "speed"]
    if not latencies:
        sys.exit("Liger's script wrote no latencies")
    values = [f"{seconds:.1f}", "", f"{seconds / len(latencies):.2f}"]
    print(COLUMNS.format("Liger's script", len(latencies), sum(map(math.isnan, latencies)), *values, "", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the overhead per configuration.")
    parser.add_argument("--configurations", type=int, metavar="N", help="measure only N in the fresh run")
    parser.add_argument("--seconds", type=float, help="of sampling, at most (default: as in config/config.yaml)")
    parser.add_argument("--liger", type=Path, metavar="PATH", help="a Liger-Kernel checkout, whose script runs too")
    arguments = parser.parse_args()
    device = grid.resolve_device("auto")
    if arguments.liger and device != "cuda":
        parser.error("--liger: its script needs a GPU")
    if arguments.liger and not (arguments.liger / LIGER_SCRIPT).is_file():
        parser.error(f"--liger: expected {LIGER_SCRIPT} in {arguments.liger}, found none")
    suite, sampling = SUITES[device], {} if arguments.seconds is None else {"seconds": arguments.seconds}
    with tempfile.TemporaryDirectory(prefix="kernelcat-overhead-") as name:
        folder = Path(name)
        cache = folder / "cache"
        config = set_up(folder / "warm", suite, cache, sampling)
        set_up(folder / "fresh", suite, cache, sampling)
        cells = grid.expand(config, suites=folder / "warm/config/suites").configurations
        paths, kernels = [cell.path for cell in cells], dict.fromkeys(cell.kernel for cell in cells)
        count = len(paths) if arguments.configurations is None else arguments.configurations
        if not 1 <= count <= len(paths):
            parser.error(f"--configurations: expected 1 to {len(paths)}, found {count}")
        print(f"{len(paths)} configurations of {', '.join(kernels)} on {device}", flush=True)
        if device == "cuda":
            first = {name: entry | {"axes": entry["axes"] | {"rows": 2**10}} for name, entry in suite.items()}
            set_up(folder / "untimed", first, cache, {"seconds": 0.01})
            measure(folder / "untimed", "warm", ["results/catalog.json"])
        print(COLUMNS.format(*HEAD), flush=True)
        seconds, records = measure(folder / "warm", "warm", ["results/catalog.json"])
        warm = print_row("warm", seconds, records)
        targets = ["results/catalog.json"]
        if count < len(paths):
            targets = [f"results/metrics/{path}.json" for path in spread(paths, count)]
        label = "fresh" if count == len(paths) else f"fresh, of {len(paths)}"
        print_row(label, *measure(folder / "fresh", "fresh", targets), warm)
        if arguments.liger:
            run_liger(arguments.liger, folder / "liger", cache)
        print_sweep(records)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the folders go then too
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
