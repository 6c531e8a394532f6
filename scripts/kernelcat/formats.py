"""A catalog's runs in the formats that others read: Liger's CSV, Parquet, JSON lines and the index's bundle."""

from collections.abc import Iterable
from pathlib import Path

from kernelcat import catalog as catalogs
from kernelcat import exporting, files, identity, metrics, query, submission
from kernelcat.errors import KernelcatError
from kernelcat.index import text_at


def export(catalog: dict, filters: query.Filters, format: str, path: str | Path) -> str:
    """Writes the runs that are meant to `path`, whole or not at all, in one of FORMATS. Returns a line that says what
    was written.

    Raises KernelcatError when the catalog holds what the format cannot say, OSError when `path` cannot be written.
    """
    rows = filters.select(query.rows(catalog))
    data, said = FORMATS[format](catalog, rows, filters == query.Filters())
    files.write(path, data)
    return f"{path}: {said}"


def _csv(catalog: dict, rows: list[dict], whole: bool) -> tuple[bytes, str]:
    found, without = exporting.rows(catalog, [row["run"] for row in rows])
    said = counted(len(found), "row")
    if without:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(without.items()))
        one = without.total() == 1
        said += f"; {counted(without.total(), 'run')} {'has' if one else 'have'} no row: {reasons}"
    return metrics.render(found), said


def _parquet(catalog: dict, rows: list[dict], whole: bool) -> tuple[bytes, str]:
    return parquet(rows), counted(len(rows), "run")


def parquet(rows: list[dict]) -> bytes:
    """Rows of kernelcat.query as a Parquet file, one flat row each. In place of `axes` and `scalars` there is a column
    for each name, `axis_NAME` (Int64) and `scalar_NAME` (float64), after the others. `observed_at` is a UTC timestamp.
    What a run does not say is null. The same rows give the same bytes with the same versions of pandas and pyarrow.

    Raises KernelcatError for text with lone surrogates.
    """
    import pandas
    import pyarrow
    import pyarrow.parquet

    kinds = {int: ("Int64", pyarrow.int64()), float: ("float64", pyarrow.float64()), str: ("string", pyarrow.string())}
    columns = {name: (kind, [row[name] for row in rows]) for name, kind in query.COLUMNS.items() if kind in kinds}
    for prefix, source, kind in (("axis", "axes", int), ("scalar", "scalars", float)):
        for name in sorted({name for row in rows for name in row[source]}):
            columns[f"{prefix}_{name}"] = kind, [_number(row[source].get(name), kind) for row in rows]
    fields = {name: pyarrow.field(name, kinds[kind][1]) for name, (kind, _) in columns.items()}
    fields["observed_at"] = pyarrow.field("observed_at", pyarrow.timestamp("us", "UTC"))
    try:
        series = {name: pandas.Series(values, dtype=kinds[kind][0]) for name, (kind, values) in columns.items()}
        times = pandas.to_datetime(series["observed_at"], utc=True, errors="coerce", format="ISO8601")
        frame = pandas.DataFrame(series | {"observed_at": times.astype("datetime64[us, UTC]")})
        table = pyarrow.Table.from_pandas(frame, pyarrow.schema(fields.values()), preserve_index=False)
    except UnicodeEncodeError as error:
        raise KernelcatError(
            f"parquet: expected text, found the lone surrogate {ascii(error.object[error.start])}"
        ) from None
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def _number(value: float | None, kind: type) -> float | None:
    """The value as the column holds it, None where it cannot: documents may come from outside."""
    if value is None or abs(value) > identity.MAX_INTEGER or kind is int and type(value) is not int:
        return None
    return kind(value)


def _jsonl(catalog: dict, rows: list[dict], whole: bool) -> tuple[bytes, str]:
    return jsonl(catalog if whole else part(catalog, rows)), counted(len(rows), "run")


def jsonl(catalog: dict) -> bytes:
    """Each of a catalog's objects as a line of canonical JSON, {"digest": …, "object": …}, sorted by digest. Variants
    with other metadata follow their object, so that `kernelcat.catalog.build` makes the same catalog of the lines.

    Raises KernelcatError for what canonical JSON cannot say.
    """
    lines = []
    for digest, manifest in sorted(catalog["objects"].items()):
        variants = ({**manifest, "metadata": metadata} for metadata in catalog["aliases"].get(digest, ()))
        lines += [identity.canonical_json({"digest": digest, "object": found}) for found in (manifest, *variants)]
    return b"".join(line + b"\n" for line in lines)


def _bundle(catalog: dict, rows: list[dict], whole: bool) -> tuple[bytes, str]:
    objects = (catalog if whole else part(catalog, rows))["objects"]
    return submission.render(submission.bundle(objects)), counted(len(rows), "run")


FORMATS = {"csv": _csv, "parquet": _parquet, "jsonl": _jsonl, "bundle": _bundle}
"""How each format is made of a catalog, the rows of the runs that are meant, and whether that is the whole catalog."""


def part(catalog: dict, rows: Iterable[dict]) -> dict:
    """The objects and aliases of a catalog without those that the runs of these rows do not need: what they cite, what
    that cites, and the projects that it belongs to."""
    objects = catalog["objects"]
    kept: set[str] = set()
    open_ = [row["run"] for row in rows]
    while open_:
        digest = open_.pop()
        if digest in objects and digest not in kept:
            kept.add(digest)
            paths = catalogs.CITATIONS.get(objects[digest]["kind"], ())
            open_ += [text for path in paths if (text := text_at(objects[digest], "spec", *path, default=None))]
    wanted = {submission.repository(objects[digest]) for digest in kept} - {None}
    kept |= {
        digest
        for digest, manifest in objects.items()
        if manifest["kind"] == "SoftwareProject" and submission.repository(manifest) in wanted
    }
    return {
        name: {digest: value for digest, value in catalog.get(name, {}).items() if digest in kept}
        for name in ("objects", "aliases")
    }


def counted(count: int, noun: str) -> str:
    """As in "1 run" and "2 runs"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
