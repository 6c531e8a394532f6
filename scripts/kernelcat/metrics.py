"""The 15-column CSV of the Liger-Kernel benchmark suite: reading and writing.

One record is one metric of one configuration: the speed in ms or the peak memory in MB (the suite's word; it means MiB)
as median, 20th and 80th percentile. A `Row` keeps the file's text as it is, so that what was read can be written again
byte for byte; numbers are parsed by whoever needs them. A record's number is its index in the file with the header as
1: the line's number as long as no cell holds a line break and no line is blank.

A bad record is a `Problem` beside the rows that are fine; a bad file, where nothing can be trusted, is an error.
"""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from kernelcat import files
from kernelcat.errors import KernelcatError
from kernelcat.fault import one_line


@dataclass(frozen=True, slots=True)
class Row:
    """One record, every field as the text of the file. The order of the fields is the order of the columns."""

    kernel_name: str
    kernel_provider: str
    kernel_operation_mode: str  # forward, backward, full; no-grad-forward in newer suites
    metric_name: str  # speed or memory
    metric_unit: str  # ms, or MB (2^20 bytes)
    x_name: str
    x_label: str
    x_value: str  # a number; in model_config sweeps the model's name
    y_value_50: str
    y_value_20: str
    y_value_80: str
    extra_benchmark_config_str: str  # a JSON object, key order as the benchmark wrote it
    gpu_name: str
    timestamp: str  # YYYY-MM-DD HH:MM:SS, no zone; read as UTC
    liger_version: str

    @classmethod
    def make(
        cls,
        *,
        kernel_name: str,
        kernel_provider: str,
        kernel_operation_mode: str,
        metric_name: str,
        metric_unit: str,
        x_name: str,
        x_label: str,
        x_value: int | float | str,
        y_value_50: float | None,
        y_value_20: float | None,
        y_value_80: float | None,
        config: Mapping[str, object],
        gpu_name: str,
        timestamp: datetime | str,
        liger_version: str,
    ) -> "Row":
        """A row from typed values, formatted as the suite formats them: whole x values without a point, y values by
        `repr` of the double (an absent one is empty), the configuration as `json.dumps` with its key order kept, an
        aware instant in UTC to the second.
        """
        if isinstance(x_value, float) and x_value.is_integer():
            x_value = int(x_value)
        if isinstance(timestamp, datetime):
            timestamp = timestamp.astimezone(UTC) if timestamp.tzinfo else timestamp
            timestamp = timestamp.strftime("%Y-%m-%d %H:%M:%S")
        values = ("" if value is None else repr(float(value)) for value in (y_value_50, y_value_20, y_value_80))
        return cls(
            kernel_name,
            kernel_provider,
            kernel_operation_mode,
            metric_name,
            metric_unit,
            x_name,
            x_label,
            str(x_value),
            *values,
            json.dumps(dict(config)),
            gpu_name,
            timestamp,
            liger_version,
        )


COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(Row))

_cells = attrgetter(*COLUMNS)


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that is not a row. `reason` is a token (`ragged_record`, `bad_quoting`, `field_too_long`), `found` says
    in a few words what stands there.
    """

    reason: str
    found: str


def render(rows: Iterable[Row]) -> bytes:
    """The file's bytes: header, CRLF, UTF-8 without BOM, quotes only where a cell needs them.

    Raises KernelcatError for text that no reader would give back: NUL, or a lone surrogate.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(_cells, rows))
    try:
        data = text.getvalue().encode()
    except UnicodeEncodeError as error:
        raise KernelcatError(
            f"metrics: expected text, found the lone surrogate {error.object[error.start]!r}"
        ) from None
    if b"\0" in data:
        raise KernelcatError("metrics: expected text, found a NUL character in a cell")
    return data


def write(path: str | Path, rows: Iterable[Row]) -> None:
    """Writes the rows to `path`, whole or not at all. Raises OSError, and KernelcatError as `render` does."""
    files.write(path, render(rows))


def read(source: str | Path | bytes, place: str | None = None) -> list[tuple[int, Row | Problem]]:
    """Every record of a file (a path, or the file's bytes) with its number, the header being record 1.

    A byte order mark, any of CRLF, LF and CR, columns in another order and blank lines (which are no records) are fine.
    `place` is what messages call the file: by default the path.

    Raises KernelcatError, one line, when the file as a whole cannot be trusted: unreadable, empty, not UTF-8, with NUL
    bytes, with missing, unknown or repeated columns, or with a quote whose missing end swallows other lines.
    """
    if not isinstance(source, bytes):
        place = place or one_line(str(source))
        try:
            before, source, after = os.stat(source), Path(source).read_bytes(), os.stat(source)
        except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
            said = getattr(error, "strerror", None) or error
            raise KernelcatError(f"{place}: expected a CSV file, found: {said}") from None
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise KernelcatError(f"{place}: expected a CSV file that is complete, found one that is being written")
    place = place or "CSV"
    records = _records(_decode(source, place), place)
    header = next(records, None)
    if header is None:
        raise KernelcatError(f"{place}: expected a header and rows, found an empty file")
    order = _order(header, place)
    return [(number, _row(record, order)) for number, record in enumerate(records, start=2)]


def _decode(data: bytes, place: str) -> str:
    nul = data.find(b"\0")
    if nul >= 0:
        raise KernelcatError(f"{place}: line {_line(data, nul)}: expected text, found a NUL byte")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Positions count from behind a byte order mark, which holds no line break: the line is right either way.
        line, byte = _line(error.object, error.start), error.object[error.start]
        raise KernelcatError(f"{place}: line {line}: expected UTF-8, found the byte 0x{byte:02x}") from None


def _line(data: bytes, position: int) -> int:
    before = data[:position]
    return before.count(b"\n") + before.replace(b"\r\n", b"\n").count(b"\r") + 1


def _records(text: str, place: str) -> Iterator[list[str] | Problem]:
    """The records, blank lines left out. A fault of quoting that begins and ends on one line concerns that record: the
    reader goes on at the next line. One that runs over several lines means that nobody knows where records begin.
    """
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, strict=True)
    while True:
        start, position = reader.line_num + 1, lines.tell()
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            unclosed = str(error) == "unexpected end of data"
            if unclosed or reader.line_num > start:
                raise KernelcatError(
                    f"{place}: line {start}: expected a quote to be closed, found it open at line {reader.line_num}"
                ) from None
            reason = "field_too_long" if "field larger" in str(error) else "bad_quoting"
            yield Problem(reason, one_line(text[position : lines.tell()].rstrip("\r\n"), 120))
            continue
        if len(record) > 1 or (record and record[0].strip()):
            yield record


def _order(header: list[str] | Problem, place: str) -> list[int]:
    """Where each column stands in the file's records."""
    if isinstance(header, Problem):
        raise KernelcatError(f"{place}: line 1: expected the header, found {header.reason} in {header.found!r}")
    faults = {
        "missing": [name for name in COLUMNS if name not in header],
        "unknown": [name for name in dict.fromkeys(header) if name not in COLUMNS],
        "repeated": [name for name in COLUMNS if header.count(name) > 1],
    }
    if any(faults.values()):
        said = "; ".join(f"{what} {_names(names)}" for what, names in faults.items() if names)
        raise KernelcatError(f"{place}: header: expected the {len(COLUMNS)} columns of the Liger suite, found: {said}")
    return [header.index(name) for name in COLUMNS]


def _row(record: list[str] | Problem, order: list[int]) -> Row | Problem:
    if isinstance(record, Problem):
        return record
    if len(record) != len(order):
        return Problem("ragged_record", one_line(f"{len(record)} fields: {','.join(record)}", 120))
    return Row(*[record[index] for index in order])


def _names(names: list[str]) -> str:
    shown = ", ".join(
        name if name in COLUMNS else repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:15]
    )
    return shown + (f" and {len(names) - 15} more" if len(names) > 15 else "")
