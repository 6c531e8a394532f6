"""kernelcat: from a grid of workloads to a verified catalog of runs. README.md says how to use it."""

import os
import sys
from pathlib import Path

import psutil
from snakemake.utils import min_version

min_version("9.19")

sys.path.insert(0, f"{workflow.basedir}/scripts")
# Jobs call `python`: the one that runs Snakemake, whether or not its environment is activated.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))

from kernelcat import catalog, devices, failures, files, grid, measure, progress, show
from kernelcat.errors import KernelcatError

# The worker that measuring processes are forked from ends with this process, however this ends, or with the Snakemake
# that started this one: in a cluster's job that may be one for each configuration.
if os.environ.get(measure.WORKFLOW) not in {str(process.pid) for process in psutil.Process().parents()}:
    os.environ[measure.WORKFLOW] = str(os.getpid())

try:
    files.load("config/config.yaml")  # strictly: of two equal keys Snakemake silently takes the last
except KernelcatError as error:
    sys.exit(f"kernelcat: {error}")


configfile: "config/config.yaml"


try:
    cells = grid.expand(config)
except KernelcatError as error:
    sys.exit(f"kernelcat: {error}")

progress.follow(workflow)
if any(configuration.device == "cuda" for configuration in cells.by_path.values()):
    devices.spread(workflow, config.get("gpu"))

own_kernels = config.get("kernels", "")
imports = config.get("imports", {})
paths = list(cells.by_path)
priorities = cells.priorities(config["order_seed"])
# A change to the code that makes documents makes them again; what is measured knows its code by itself (grid.job).
code = grid.code_digest([*Path("scripts").rglob("*.py"), *Path("schemas").glob("*.json")])


localrules:
    all,
    documents,
    import_csv,
    catalog,
    compare,
    report,


wildcard_constraints:
    path="(cpu|cuda)(-[a-z0-9-]+)?/.+",
    name="[a-z0-9_-]+",


rule all:
    input:
        "results/catalog.json",


# Outputs are marked update(), so that a job that fails or is killed leaves what was there (kernelcat.failures).
rule measure:
    output:
        csv=update("results/metrics/{path}.csv"),
        record=update("results/metrics/{path}.json"),
    log:
        "results/logs/measure/{path}.log",
    priority: lambda wildcards: priorities.get(wildcards.path, 0)
    conda:
        "envs/kernelcat.yaml"
    resources:
        gpu=lambda wildcards: int(wildcards.path.startswith("cuda")),
        mem_mb=16000,
        runtime=10,
    params:
        job=lambda wildcards: grid.job(cells.at(wildcards.path), own_kernels),
        # How, not what is measured. Params that look at the output are none that measure again when they change.
        options=lambda wildcards, output: grid.options(config),
    shell:
        "python scripts/measure.py --job {params.job:q} --minutes {resources.runtime}"
        " {params.options}"
        " --csv {output.csv} --record {output.record} >{log} 2>&1"


rule documents:
    input:
        records=expand("results/metrics/{path}.json", path=paths),
    output:
        # As folders: Snakemake compares each file that it looks for with each output that has a name of its own.
        runs=update(directory("results/documents/runs")),
        cited=update(directory("results/documents/cited")),
        samples=update(directory("results/documents/samples")),
    log:
        "results/logs/documents.log",
    conda:
        "envs/kernelcat.yaml"
    params:
        code=code,
        kernels=own_kernels,
        # Where files lie is taken from inputs and outputs: with a storage provider that is a copy elsewhere.
        metrics=lambda wildcards, input: next(
            (record.removesuffix(f"{path}.json") for record, path in zip(input.records, paths)), "results/metrics"
        ),
    shell:
        "printf '%s\\n' {input.records}"
        " | python scripts/documents.py --metrics {params.metrics} --kernels={params.kernels:q}"
        " --out $(dirname {output.cited}) >{log} 2>&1"


rule import_csv:
    input:
        csv=lambda wildcards: imports[wildcards.name],
    output:
        catalog=update("results/imports/{name}/catalog.json"),
        report=update("results/imports/{name}/report.json"),
    log:
        "results/logs/import/{name}.log",
    conda:
        "envs/kernelcat.yaml"
    params:
        code=code,
    shell:
        "python scripts/import_csv.py --out $(dirname {output.catalog}) -- {input.csv:q} >{log} 2>&1"


rule catalog:
    input:
        cited="results/documents/cited",
        runs="results/documents/runs",
        imports=expand("results/imports/{name}/catalog.json", name=sorted(imports)),
    output:
        update("results/catalog.json"),
    log:
        "results/logs/catalog.log",
    conda:
        "envs/kernelcat.yaml"
    params:
        code=code,
    shell:
        "python scripts/catalog.py --documents $(dirname {input.runs}) --imports {input.imports} --out {output}"
        " >{log} 2>&1"


rule compare:
    input:
        old=config.get("baseline", "baseline is not set in config/config.yaml"),
        new="results/catalog.json",
    output:
        markdown=update("results/comparison.md"),
        json=update("results/comparison.json"),
        junit=update("results/comparison.xml"),
    log:
        "results/logs/compare.log",
    conda:
        "envs/kernelcat.yaml"
    params:
        code=code,
    shell:
        "python scripts/compare.py --markdown {output.markdown} --json {output.json} --junit {output.junit}"
        " -- {input.old:q} {input.new} >{log} 2>&1"


rule report:
    input:
        catalog="results/catalog.json",
        template="scripts/kernelcat/report.html.j2",
    output:
        html=update("results/report.html"),
        plots=update(
            report(
                directory("results/plots"),
                patterns=["{kernel}--{device}--{protocol}--{conditions}--{metric}.svg"],
                caption="report/figure.rst",
                category="Figures",
                subcategory="{kernel}",
                labels={
                    "metric": "{metric}",
                    "device": "{device}",
                    "protocol": "{protocol}",
                    "conditions": "{conditions}",
                },
            )
        ),
    log:
        "results/logs/report.log",
    conda:
        "envs/kernelcat.yaml"
    params:
        code=code,
    shell:
        "python scripts/report.py --catalog {input.catalog} --html {output.html} --plots {output.plots} >{log} 2>&1"


onstart:
    failures.remember(workflow)
    files.remove_parts("results")
    files.end_future("results")


onerror:
    # What a job said of it may not be in its log, which lies on the same disk.
    if (free := files.free_bytes("results")) < 2**24:
        print(f"kernelcat: results: the disk is full, {free} bytes are free", file=sys.stderr)


onsuccess:
    lines = (
        show.summary_lines(catalog.read("results/catalog.json")) if Path("results/catalog.json").exists() else []
    )
    print(*lines, *cells.left_out_lines(), sep="\n")
