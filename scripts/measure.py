"""The job of one configuration: measures it and writes its CSV and its record."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from kernelcat import devices, metrics, recorded
from kernelcat.errors import exit_code
from kernelcat.grid import Configuration, conditions_digest
from kernelcat.measure import exhausted, measure, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="the configuration as kernelcat.grid.job writes it")
    parser.add_argument("--minutes", type=float, required=True, help="how long the job may take")
    parser.add_argument("--process", choices=("warm", "fresh"), required=True, help="forked from a worker, or new")
    parser.add_argument("--compile-cache", required=True, help="the folder that keeps compiled kernels")
    parser.add_argument("--after-out-of-memory", choices=("skip", "measure"), required=True, help="larger cases")
    parser.add_argument("--order-seed", type=int, required=True, help="what the order of the jobs was drawn with")
    parser.add_argument("--gpu", help="the only GPU model to measure on: a part of its product's name")
    parser.add_argument("--csv", required=True)
    parser.add_argument("--record", required=True)
    arguments = parser.parse_args()
    job = json.loads(arguments.job)
    configuration = Configuration.from_json(job["configuration"])
    if arguments.gpu and configuration.device == "cuda":
        devices.leave_visible(arguments.gpu)
    # the job ends itself, with a result, before the cluster would end it without one
    seconds, warm = arguments.minutes * 60 - 30, arguments.process == "warm"
    record = None
    conditions = conditions_digest(job)
    if arguments.after_out_of_memory == "skip":
        record = exhausted(configuration, Path(arguments.record).parent, conditions)
    if record is None:
        record = measure(configuration, job["kernels"], seconds, warm=warm, cache=arguments.compile_cache)
    record |= {"orderSeed": arguments.order_seed, "conditions": conditions, "code": job["code"]}
    record["jobSeconds"] = round(_seconds() - record.pop("waitedSeconds", 0), 3)
    print(f"{configuration.path}: {record['status']} {record['reason']}")
    metrics.write(arguments.csv, rows(record))
    recorded.write(arguments.record, record)


def _seconds() -> float:
    """How long this process has been running: imports take a part of a job that its own clocks would miss."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # field 22 of proc(5), in ticks
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(exit_code(main))
