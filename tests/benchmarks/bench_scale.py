"""How far one machine goes: planning, a run with nothing to do, and catalogs, in seconds and megabytes.

`make bench-scale` runs it. Each line has a time of a process of its own, imports included, beside the target.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEED = ROOT / "tests/data/seed/rms_norm-backward-huggingface-a100.csv"

BUILD = """
import copy, sys
from kernelcat import catalog, importing

manifests = importing.import_csv(sys.argv[1]).manifests
*rest, run = sorted(manifests, key=lambda manifest: manifest["kind"] == "BenchmarkRun")
def made(number):
    found = copy.deepcopy(run)
    found["spec"]["timing"]["latencyNs"]["median"] += number
    found["metadata"]["description"] = f"run {number}"
    return found
first, last = map(int, sys.argv[3:])
catalog.write(sys.argv[2], catalog.build([*rest, *map(made, range(first, last))]))
"""


def measured(*command: str, folder: Path | None = None) -> tuple[float, float]:
    """Seconds and MiB (the most that was resident) of a command, which must succeed."""
    environment = os.environ | {"PYTHONPATH": str((folder or ROOT) / "scripts")}
    begin = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    if status:
        sys.exit(f"{' '.join(command)}\n{output.decode()[-3000:]}")
    return seconds, usage.ru_maxrss / 1024


def report(what: str, found: tuple[float, float], target: str) -> None:
    seconds, mebibytes = found
    print(f"{what:60} {seconds:7.1f} s {mebibytes:7.0f} MiB   {target}", flush=True)


def plans(folder: Path, count: int, target: str) -> None:
    """A suite of `count` configurations: a dry run, `kernelcat plan`, and a run with nothing to do."""
    for name in ("Snakefile", "config", "envs", "profiles", "report", "schemas", "scripts"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    rows = ", ".join(str(16 * number) for number in range(1, count // 4 + 1))
    (folder / "config/suites/scale.yaml").write_text(
        "softmax:\n  providers: [liger, torch]\n  modes: [forward, full]\n  dtypes: [fp32]\n"
        f"  axes: {{rows: [{rows}], hidden: 64}}\n"
    )
    options = ["--config", "suite=scale", "device=cpu"]
    snakemake = [sys.executable, "-m", "snakemake", "--cores", "1", "results/catalog.json", "--quiet", "all", *options]
    report(f"dry run, {count:,} configurations", measured(*snakemake, "--dry-run", folder=folder), target)
    kernelcat = [sys.executable, "-m", "kernelcat.cli", "plan", *options]
    report(f"kernelcat plan, {count:,} configurations", measured(*kernelcat, folder=folder), "")
    sys.path.insert(0, str(ROOT / "scripts"))
    from kernelcat import catalog, files, grid

    config = files.load(folder / "config/config.yaml") | {"suite": "scale", "device": "cpu"}
    for path in grid.expand(config, suites=folder / "config/suites").by_path:
        for suffix in ("csv", "json"):
            file = folder / f"results/metrics/{path}.{suffix}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    for name in ("runs", "cited", "samples"):
        (folder / "results/documents" / name).mkdir(parents=True)
    catalog.write(folder / "results/catalog.json", catalog.build([]))
    measured(*snakemake, "--touch", folder=folder)
    report(f"a run with nothing to do, {count:,} configurations", measured(*snakemake, folder=folder), "")


def catalogs(folder: Path, count: int) -> None:
    big, one, out = (str(folder / name) for name in ("big.json", "one.json", "out.json"))
    build = [sys.executable, "-c", BUILD, str(SEED)]
    report(f"catalog of {count:,} runs, built", measured(*build, big, "0", str(count)), "at most 60 s, 2048 MiB")
    print(f"{'':60} {Path(big).stat().st_size / 1e6:7.0f} MB in the file")
    measured(*build, one, str(count), str(count + 1))
    command = [sys.executable, "-m", "kernelcat.cli"]
    report("  verified", measured(*command, "verify", big), "at most 60 s")
    report("  merged with itself", measured(*command, "merge", big, big, "--out", out), "at most 60 s, 2048 MiB")
    report("  one run added", measured(*command, "merge", big, one, "--out", out), "at most 10 s")
    report("  shown, one kernel", measured(*command, "show", big, "--kernel", "softmax"), "")
    assert len(json.loads(Path(out).read_bytes())["objects"]) > count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100_000, help="of the catalog (default: %(default)s)")
    parser.add_argument("--configurations", type=int, nargs="*", default=[5_000, 20_000])
    arguments = parser.parse_args()
    targets = {5_000: "at most 15 s", 20_000: "at most 60 s"}
    for count in arguments.configurations:
        with tempfile.TemporaryDirectory() as folder:
            plans(Path(folder), count, targets.get(count, ""))
    with tempfile.TemporaryDirectory() as folder:
        catalogs(Path(folder), arguments.runs)


if __name__ == "__main__":
    main()
