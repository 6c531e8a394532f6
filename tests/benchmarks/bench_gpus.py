"""How much sooner a suite is measured by all GPUs of a machine than by one, and whether they give the same medians.

The workflow runs in copies that share one cache of compiled kernels: untimed with all GPUs, which fills the cache, then
with one GPU and with all. The wall time is that of the whole command. Then come the medians of the two timed runs
against each other, of all configurations without a mark that forbids a verdict (compare.NOISY). `make bench-gpus` runs
it; it needs two GPUs of one model.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

from bench_overhead import ROOT, run
from conftest import copy_workflow

from kernelcat import catalog, compare, devices, files, query, samples

COLUMNS = "{:>5} {:>15} {:>7} {:>9} {:>6}  {}"


def measure(folder: Path, suite: str, cache: Path, gpus: list[str], seconds: float | None) -> float:
    """The wall time of the workflow in a new copy, with these GPUs visible."""
    copy_workflow(folder)
    config = files.load(ROOT / "config/config.yaml")
    config |= {"suite": suite, "device": "cuda", "compile_cache": str(cache), "imports": {}}
    if seconds is not None:
        config["sampling"]["seconds"] = seconds
    (folder / "config/config.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "results/catalog.json"]
    return run(command, folder, CUDA_VISIBLE_DEVICES=",".join(gpus))


def main() -> None:
    parser = argparse.ArgumentParser(description="Times a suite on one GPU and on all of this machine.")
    parser.add_argument("--suite", default="release", help="a file of config/suites/, without .yaml")
    parser.add_argument("--seconds", type=float, help="of sampling, at most (default: as in config/config.yaml)")
    arguments = parser.parse_args()
    gpus, left_out = devices.survey()
    print(*left_out, sep="\n", end="\n" if left_out else "")
    if len(gpus) < 2:
        sys.exit(f"needs two GPUs of one model, found {len(gpus)}")
    with tempfile.TemporaryDirectory(prefix="kernelcat-gpus-") as name:
        folder = Path(name)
        measure(folder / "untimed", arguments.suite, folder / "cache", gpus, 0.01)
        print(COLUMNS.format("GPUs", "configurations", "failed", "wall s", "ratio", "devices"))
        walls = {}
        for count in (1, len(gpus)):
            copy = folder / str(count)
            walls[count] = measure(copy, arguments.suite, folder / "cache", gpus[:count], arguments.seconds)
            records = [json.loads(path.read_text()) for path in (copy / "results/metrics").rglob("*.json")]
            failed = sum(record["status"] != "passed" for record in records)
            names = ", ".join(sorted({record["device"] for record in records}))
            ratio = f"{walls[count] / walls[1]:.2f}"
            print(COLUMNS.format(count, len(records), failed, f"{walls[count]:.1f}", ratio, names), flush=True)
        folders = folder / "1/results", folder / f"{len(gpus)}/results"
        catalogs = [catalog.read(copy / "catalog.json") for copy in folders]
        found = compare.compare(*catalogs, folders)
    print(*compare.summary_lines(found), sep="\n")
    noisy = {
        row["run"] for side in catalogs for row in query.rows(side) if compare.NOISY & {*(row["quality"] or "").split()}
    }
    pairs = [pair for pair in found.pairs if pair.ratio and not noisy & {pair.old, pair.new}]
    if apart := sorted(abs(math.log(pair.ratio)) for pair in pairs):
        values = ", ".join(f"{name} {samples.quantile(apart, q):.2%}" for name, q in (("median", 0.5), ("p95", 0.95)))
        beyond = sum(value > compare.MINIMUM_EFFECT for value in apart)
        print(f"medians of {len(apart)} pairs without such marks are apart by: {values}, largest {apart[-1]:.2%}")
        print(f"{beyond} of them by more than {compare.MINIMUM_EFFECT:.0%}")


if __name__ == "__main__":
    main()
