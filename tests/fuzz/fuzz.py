"""Coverage-guided fuzzing of what reads files from outside. `make fuzz` runs it; it needs atheris.

    python tests/fuzz/fuzz.py TARGET [-max_total_time=600] [libFuzzer's other options] [FOLDER with more inputs]

Any input gives a result or one KernelcatError, whose text is one printable line; what is accepted obeys the laws that
the targets assert. An input that breaks this is written to .cache/fuzz, and with its file in place of the options it
is tried again. The seeds, and what the fuzzer has found to be of interest, lie in .cache/fuzz/TARGET.
"""

import contextlib
import csv
import importlib
import io
import json
import os
import random
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEED = ROOT / "tests/data/seed/rms_norm-backward-huggingface-a100"
CONFIG = (ROOT / "config/config.yaml").read_bytes()

HOSTILE = (
    *("", "../x", "/etc/passwd", "a\nb", "\x1b[31m", "\u2028", "a\0b"),
    *("<script>", "$(touch pwned)", "'; touch pwned #"),
    *("a" * 3000, "\ud800", "٣", "25 ms", "1.5 ns", "1e-6", "nan", "inf", "1_0", "-0", "{}", '{"a": ' * 400),
    *(0, -1, 1.5, 2**53 - 1, 2**53, 10**19, 10**400, 1e308, 5e-324, float("nan"), float("inf"), True, None, [], {}),
)


@contextlib.contextmanager
def refusals():
    """Takes a refusal, when it is one printable line of bounded length."""
    from kernelcat.errors import KernelcatError

    try:
        yield
    except KernelcatError as error:
        assert_printable(str(error))


def assert_printable(*lines: str) -> None:
    for line in lines:
        assert line and line.isprintable() and len(line) <= 20_000, ascii(line)[:500]


# ---- the targets: each takes an input, and a folder to put it into


def suites(data: bytes, folder: Path) -> None:
    """A suite and, behind a NUL, a config. The grid is the same each time, and its paths stay where they belong."""
    from kernelcat import files, grid

    suite, _, config = data.partition(b"\0")
    (folder / "smoke.yaml").write_bytes(suite)
    (folder / "config.yaml").write_bytes(config or CONFIG)
    with refusals():
        values = files.load(folder / "config.yaml")
        found, again = (grid.expand(values, suites=folder) for _ in range(2))
        assert found == again
        assert set(found.priorities(int(values["order_seed"]))) == set(found.by_path)
        assert_printable(*found.left_out_lines(), grid.options(values))
        for path, cell in found.by_path.items():
            assert re.fullmatch(r"(cpu|cuda)/[a-z0-9_]+/[a-z-]+/\w[\w.-]*/[\w.-]+", path, re.ASCII), path
            assert grid.Configuration.from_json(json.loads(json.dumps(cell.as_json()))) == cell


def imports(data: bytes, folder: Path) -> None:
    """A CSV. Every row is accounted for, the catalog of what was imported verifies, rows survive their text."""
    from kernelcat import catalog, importing, metrics

    (folder / "rows.csv").write_bytes(data)
    with refusals():
        read = metrics.read(folder / "rows.csv")
        rows = [row for _, row in read if isinstance(row, metrics.Row)]
        assert [row for _, row in metrics.read(metrics.render(rows))] == rows
        result = importing.import_csv(folder / "rows.csv")
        skipped = sum(counts.total() for counts in result.skipped.values())
        assert result.rows == len(read) == len(result.usable) + result.duplicates + skipped
        assert_printable(*result.summary(), *(entry["found"] for entry in result.entries if entry["found"]))
        importing.write(result, folder / "out")
        assert catalog.verify(catalog.read(folder / "out/catalog.json")) == []


def documents(data: bytes, folder: Path) -> None:
    """A manifest, document or catalog, as JSON or YAML. What verifies is what is rendered and merged from it."""
    from kernelcat import authoring, catalog, compare, evidence, exporting, files, identity, query, schema, show, why

    path = folder / ("a.json" if data.lstrip()[:1] in (b"{", b"[") else "a.yaml")
    path.write_bytes(data)
    with refusals():
        value = files.load(path)
        assert_printable(*map(str, schema.faults(value)))
        faults = catalog.verify(value)
        assert_printable(*faults)
        if not faults:
            assert catalog.render(catalog.merge([value])) == catalog.render(value)
            (folder / "again.json").write_bytes(catalog.render(value))
            assert files.load(folder / "again.json") == value
        with refusals():
            assert_printable(*map(str, schema.faults(authoring.normalised(value))))
            identity.digest(value)
    with refusals():
        found = catalog.read(path)
        rows = query.rows(found)
        assert_printable(*show.summary_lines(found), *filter(None, show.table(rows).split("\n")))
        with refusals():
            merged = catalog.merge([found])
            assert catalog.render(catalog.merge([merged, found])) == catalog.render(merged)
        with refusals():
            list(exporting.rows(catalog.manifests(found)))
        for fault in evidence.verify(found, folder)[0]:
            assert_printable(fault)
        for row in rows[:3]:
            assert_printable(*why.lines(found, row["run"], folder))
        with refusals():
            compared = compare.compare(found, found, (folder, folder))
            assert_printable(*filter(None, compare.text(compared).split("\n")))
            for write in compare.FORMATS.values():
                write(compared).encode(errors="backslashreplace")


TARGETS = {target.__name__: target for target in (suites, imports, documents)}


# ---- inputs: seeds, and mutations that know of cells, keys and values


def seeds(target: str) -> list[bytes]:
    if target == "suites":
        suites = [path.read_bytes() for path in sorted((ROOT / "config/suites").glob("*.yaml"))]
        return [
            *dict.fromkeys(entry for suite in suites for entry in suite.split(b"\n\n")),
            suites[-1] + b"\0" + CONFIG,
        ]
    if target == "imports":
        return [SEED.with_suffix(".csv").read_bytes()]
    from kernelcat import catalog, importing

    document = SEED.with_suffix(".json").read_bytes()
    found = importing.import_csv(SEED.with_suffix(".csv")).manifests
    manifests = [*json.loads(document).values(), *found]
    return [document, catalog.render(catalog.build(found)), *(json.dumps(value).encode() for value in manifests)]


def mutated(target: str, data: bytes, most: int, seed: int) -> bytes | None:
    """The input with some of its values, keys or cells replaced, doubled or removed; None where it holds none."""
    from kernelcat import files
    from kernelcat.errors import KernelcatError

    drawn = random.Random(seed)
    head, nul, tail = data.partition(b"\0") if target == "suites" else (data, b"", b"")
    try:
        if target == "imports":
            value = list(csv.reader(io.StringIO(head.decode(), newline="")))
        else:
            value = files._yaml(head.decode()) if head.lstrip()[:1] not in (b"{", b"[") else json.loads(head)
        places = list(_places(value))
    except (ValueError, RecursionError, KernelcatError, files._Refused, csv.Error):
        return None
    if not places:
        return None
    for _ in range(drawn.choice((1, 1, 1, 2, 5))):
        inside, key = drawn.choice(places)
        other, at = drawn.choice(places)
        try:
            kind = drawn.randrange(6)
            if kind == 0 and isinstance(inside, dict):
                inside[str(drawn.choice(HOSTILE))] = inside.pop(key)
            elif kind == 1:
                del inside[key]
            elif kind == 2:
                inside[key] = [inside[key]] * drawn.choice((1, 2, 30))
            elif kind == 3:
                inside[key] = json.loads(json.dumps(other[at]))
            elif kind == 4:
                for _ in range(drawn.choice((20, 90, 500))):
                    inside[key] = {"a": inside[key]} if drawn.random() < 0.9 else [inside[key]]
            else:
                inside[key] = drawn.choice(HOSTILE)
        except (LookupError, ValueError, RecursionError):
            continue  # what stood there has been removed
    try:
        if target == "imports":
            text = io.StringIO(newline="")
            csv.writer(text).writerows(row if isinstance(row, list) else [row] for row in value)
            head = text.getvalue().encode()
        else:
            head = json.dumps(value, ensure_ascii=drawn.random() < 0.5).encode()
    except (ValueError, RecursionError, csv.Error):
        return None
    return (head + nul + tail)[:most]


def _places(value):
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _places(item)


def main() -> None:
    try:
        import atheris
    except ImportError:
        sys.exit(f"fuzzing needs atheris, which is not installed: {sys.executable} -m pip install atheris")
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(TARGETS)} [libFuzzer's options] [FOLDER or FILE…]")
    name, options = sys.argv[1], sys.argv[2:]
    with atheris.instrument_imports(include=["kernelcat"]):
        for module in ("authoring", "cli", "grid"):
            importlib.import_module(f"kernelcat.{module}")

    flags = [option for option in options if option.startswith("-")]
    inputs = [option for option in options if not option.startswith("-")]
    corpus = ROOT / ".cache/fuzz" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(name)):
        (corpus / f"seed{number}").write_bytes(data)
    limits = [
        f"-artifact_prefix={corpus}-",
        "-max_len=65536",
        "-timeout=20",
        "-report_slow_units=2",
        "-rss_limit_mb=2048",
    ]

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        found = mutated(name, data, most, seed) if seed % 2 else None
        return atheris.Mutate(data, most) if found is None else found

    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            sys.argv[0],
            *limits,
            *flags,
            *([] if any(map(os.path.isfile, inputs)) else [str(corpus)]),
            *inputs,
        ]
        atheris.Setup(arguments, lambda data: TARGETS[name](data, Path(folder)), custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
