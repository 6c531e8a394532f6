"""Rows per second and peak memory of `kernelcat import`, from the CSV to the written catalog, imports included.

Each size runs in a process of its own. The rows are the seed's with other shapes, providers, medians and
times; each shape stands in 40 rows. `make bench-import` runs it.
"""

import dataclasses
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

SEED = Path(__file__).parents[1] / "data" / "seed" / "rms_norm-backward-huggingface-a100.csv"
SIZES = (2_448, 25_000, 100_000)


def write_rows(path: Path, count: int) -> None:
    from kernelcat import metrics

    [(_, seed)] = metrics.read(SEED)
    rows = []
    for number in range(count):
        minutes, seconds = divmod(number, 60)
        hours, minutes = divmod(minutes, 60)
        values = {
            "kernel_provider": ("liger", "huggingface")[number % 2],
            "x_value": str(1024 + number // 40),
            "timestamp": f"2024-09-{1 + hours // 24:02} {hours % 24:02}:{minutes:02}:{seconds:02}",
            "y_value_50": repr(2.5 + number / 1e7),
        }
        rows.append(dataclasses.replace(seed, **values, y_value_20="2.5", y_value_80="3.5"))
    metrics.write(path, rows)


def measure(path: Path, folder: Path) -> None:
    start = time.process_time()
    from kernelcat import importing

    result = importing.import_csv(path)
    importing.write(result, folder)
    seconds = time.process_time()
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert len(result.usable) == result.rows
    rate = result.rows / (seconds - start)
    print(f"{result.rows:8} rows {seconds - start:7.2f} s {rate:8.0f} rows/s {megabytes:7.0f} MiB")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            csv = Path(folder) / f"{size}.csv"
            write_rows(csv, size)
            child = context.Process(target=measure, args=(csv, Path(folder) / str(size)))
            child.start()
            child.join()
            if child.exitcode:
                sys.exit(1)
