"""Where a number comes from: everything that a catalog says about one run, and the files beside it."""

import json
import shlex
from pathlib import Path

from kernelcat import evidence, query
from kernelcat.fault import one_line, printable
from kernelcat.index import at, leaves, text_at
from kernelcat.show import duration, error, percent, ratio


def lines(catalog: dict, digest: str, folder: str | Path) -> list[str]:
    """The answer for the run whose digest begins so, one fact a line under headings. `folder` is the catalog's, where
    raw samples and records lie.

    Raises KernelcatError when there is no such run, or more than one.
    """
    row = query.find(query.rows(catalog), digest)
    objects = catalog["objects"]
    manifest = objects[row["run"]]
    sections = {
        "Run": _run(row, manifest),
        "Configuration": _configuration(row, manifest),
        "Numbers": _numbers(row, manifest, folder),
        "Correctness": _correctness(row, objects),
        "Code": _facts(at(objects.get(row["implementation"]), "spec"), _CODE),
        "Protocol": [("name", row["protocol"]), *_facts(at(objects.get(row["protocol_digest"]), "spec"), _PROTOCOL)],
        "Environment": _facts(at(objects.get(row["environment"]), "spec"), ("hardware", "software", "settings")),
        "Digests": [(name, row[name]) for name in ("workload", "operation", "implementation", "environment")]
        + [("protocol", row["protocol_digest"])],
    }
    found = []
    for heading, facts in sections.items():
        said = [(one_line(name), str(value)) for name, value in facts if value not in (None, "", [], {})]
        width = max((len(name) for name, _ in said), default=0)
        found += [heading] + [
            f"  {name:<{width}}  {printable(value)}" for name, value in said or [("nothing", "stated")]
        ]
    return found


_CODE = ("projectRevision", "callable", "buildVariants", "source", "licensing")
_PROTOCOL = ("comparability", "measurement", "harness")


def _run(row: dict, manifest: dict) -> list[tuple]:
    native = at(manifest, "spec", "sourceNative")
    status = f"{row['status']}: {row['reason']}" if row["reason"] else row["status"]
    return [
        ("digest", row["run"]),
        ("status", status),
        ("observed at", row["observed_at"]),
        ("measured by", row["source"]),
        ("external id", at(native, "externalId")),
        ("liger-kernel", row["liger_version"]),
    ]


def _configuration(row: dict, manifest: dict) -> list[tuple]:
    """The configuration, and with which command it is measured again."""
    names = [(name, row[name]) for name in ("kernel", "mode", "provider", "case", "dtype", "device")]
    numbers = [(name, json.dumps(row[name], sort_keys=True)) for name in ("axes", "scalars") if row[name]]
    record = text_at(manifest, "spec", "evidence", "logs", "uri", default=None)
    again = [("record", record)]
    if row["source"] == "kernelcat" and record:
        again.append(
            (
                "measure again",
                f"snakemake --cores 1 results/catalog.json --forcerun {shlex.quote(f'results/{record}')}"
                "  # and the --config of that run",
            )
        )
    return names + numbers + again


def _numbers(row: dict, manifest: dict, folder: str | Path) -> list[tuple]:
    def between(low: str, high: str) -> str | None:
        return f"{duration(row[low])} to {duration(row[high])}" if row[low] and row[high] else None

    said = text_at(manifest, "spec", "timing", "rawSamples", "uri", default=None)
    samples = None
    if said:
        there = evidence.raw_samples(manifest, folder) is not None
        samples = f"{said} ({'there, the digest holds' if there else 'not beside the catalog, or another file'})"
    memory = row["peak_memory_bytes"]
    return [
        ("median", duration(row["median_ns"])),
        ("95 % confidence", between("confidence95_low_ns", "confidence95_high_ns")),
        ("p20 to p80", between("p20_ns", "p80_ns")),
        ("minimum to maximum", between("minimum_ns", "maximum_ns")),
        ("samples", row["samples"]),
        ("raw samples", samples),
        ("device alone", duration(row["device_median_ns"])),
        ("compile time", duration(row["compile_ns"])),
        ("peak memory", None if memory is None else f"{memory / 2**20:,.1f} MiB"),
        ("speed-up", None if row["speedup"] is None else f"{ratio(row['speedup'])} of the baseline"),
        ("of the device's limit", percent(row["attainable"])),
        ("marks", row["quality"]),
    ]


def _correctness(row: dict, objects: dict[str, dict]) -> list[tuple]:
    protocol = at(objects.get(row["protocol_digest"]), "spec", "correctness")
    matched = row["matched_ratio"]
    return [
        ("comparator", text_at(protocol, "comparator", default=None)),
        ("reference", text_at(protocol, "reference", default=None)),
        ("maximum relative error", error(row["error"], ".3g")),
        ("maximum absolute error", error(row["absolute_error"], ".3g")),
        ("elements that match", None if matched is None else f"{matched:.7%}".replace("%", " %")),
    ]


def _facts(value, names: tuple[str, ...]) -> list[tuple]:
    """What stands under these names, nested names joined by points."""
    return [
        (path, found if isinstance(found, str) else json.dumps(found, sort_keys=True))
        for name in names
        for path, found in leaves(at(value, name), name)
        if found is not None
    ]
