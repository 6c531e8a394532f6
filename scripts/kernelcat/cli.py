"""The `kernelcat` command: numbers, documents and catalogs from the command line."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelcat import (
    authoring,
    catalog,
    compare,
    evidence,
    files,
    formats,
    identity,
    importing,
    plan,
    query,
    schema,
    show,
    why,
)
from kernelcat.errors import KernelcatError, exit_code


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns 0, 1 when the answer is no or an input cannot be used; argparse exits with 2."""
    arguments = _parser().parse_args(argv)
    return exit_code(lambda: arguments.command(arguments))


def digest(arguments: argparse.Namespace) -> int:
    manifest = files.load(arguments.file)
    try:
        print(identity.digest(authoring.normalised(manifest)))
    except KernelcatError as error:
        raise KernelcatError(f"{arguments.file}: {error}") from None
    return 0


def validate(arguments: argparse.Namespace) -> int:
    valid = True
    for path in arguments.files:
        try:
            document = files.load(path)
        except KernelcatError as error:
            print(error)
            valid = False
            continue
        try:
            faults = schema.faults(authoring.normalised(document))
        except KernelcatError as error:
            faults = [error]
        for fault in faults:
            print(f"{path}: {fault}")
        if faults:
            valid = False
        else:
            print(f"{path}: valid")
    return 0 if valid else 1


def import_csv(arguments: argparse.Namespace) -> int:
    result = importing.import_csv(arguments.csv)
    importing.write(result, arguments.out)
    print(*result.summary(), sep="\n")
    return 0


def export(arguments: argparse.Namespace) -> int:
    _refuse_input(arguments.out, arguments.catalog)
    found = catalog.read(arguments.catalog)
    print(formats.export(found, query.filters(arguments), arguments.format, arguments.out))
    return 0


def verify(arguments: argparse.Namespace) -> int:
    found = files.load(arguments.catalog, limit=None)
    faults, sound, away = catalog.verify(found), 0, 0
    if not faults:
        faults, sound, away = evidence.verify(found, Path(arguments.catalog).parent)
    if faults:
        print(*[f"{arguments.catalog}: {fault}" for fault in faults], sep="\n")
        return 1
    count = len(found["objects"])
    print(f"{arguments.catalog}: {count} object{'' if count == 1 else 's'}, every digest and reference holds")
    if sound:
        print(f"{arguments.catalog}: {sound} file{'' if sound == 1 else 's'} of evidence beside it, every digest holds")
    if away:
        print(
            f"{arguments.catalog}: the evidence of {away} run{'' if away == 1 else 's'} is not beside it, not verified"
        )
    return 0


def merge(arguments: argparse.Namespace) -> int:
    merged = catalog.merge(map(catalog.read, arguments.catalogs))
    catalog.write(arguments.out, merged)
    print(show.runs_line(merged["summary"]["runs"]))
    return 0


def show_runs(arguments: argparse.Namespace) -> int:
    found = query.filters(arguments).select(query.rows(catalog.read(arguments.catalog)))
    print(show.table(query.fastest(found) if arguments.fastest else found))
    return 0


def why_run(arguments: argparse.Namespace) -> int:
    known = catalog.read(arguments.catalog)
    try:
        lines = why.lines(known, arguments.run, Path(arguments.catalog).parent)
    except KernelcatError as error:
        raise KernelcatError(f"{arguments.catalog}: {error}") from None
    print(*lines, sep="\n")
    return 0


def compare_catalogs(arguments: argparse.Namespace) -> int:
    paths = arguments.old, arguments.new
    found = compare.compare(
        *map(catalog.read, paths),
        [Path(path).parent for path in paths],
        arguments.minimum_effect,
        query.filters(arguments),
    )
    text = compare.FORMATS[arguments.format](found)
    if arguments.out:
        _refuse_input(arguments.out, *paths)
        files.write(arguments.out, text.encode(errors="backslashreplace"))  # JSON's escape of a lone surrogate
        print(compare.summary_lines(found)[0])
    else:
        print(text, end="")
    return 1 if found.regressed else 0


def _part(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (value := float(text)) < 1:
            return value
    raise argparse.ArgumentTypeError(f"expected a number from 0 to below 1, as in 0.03, found {text!r}")


def _refuse_input(out: str, *inputs: str) -> None:
    """Raises KernelcatError when what is to be written is one of the files that are read."""
    for path in inputs:
        if os.path.exists(out) and os.path.samefile(out, path):
            raise KernelcatError(f"{out}: expected another file than the catalog that is read")


def plan_runs(arguments: argparse.Namespace) -> int:
    with contextlib.chdir(arguments.directory):
        found = plan.plan(dict(arguments.config))
    rows = query.filters(arguments).select(found.rows)
    print(plan.table(rows), *plan.summary_lines(found, rows), sep="\n")
    return 0


def _override(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, found {text!r}")
    try:
        return key, files.value(value)
    except KernelcatError as error:
        raise argparse.ArgumentTypeError(f"{key}: {error}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kernelcat", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(function, name: str, summary: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary)
        command.set_defaults(command=function)
        return command

    command = add(digest, "digest", "Print the digest of one manifest.")
    command.add_argument("file", metavar="FILE", help="JSON or YAML; - is standard input")

    command = add(validate, "validate", "Name each fault of documents: path, JSON pointer, found, expected.")
    command.add_argument("files", metavar="FILE", nargs="+", help="JSON or YAML; - is standard input")

    command = add(import_csv, "import", "Turn a CSV of Liger's benchmark suite into a catalog and a report.")
    command.add_argument("csv", metavar="CSV")
    command.add_argument("--out", metavar="DIR", required=True, help="where catalog.json and report.json go")

    command = add(export, "export", "Write a catalog's runs as CSV of Liger's suite, Parquet, JSON lines or bundle.")
    command.add_argument("catalog", metavar="CATALOG")
    command.add_argument("--format", choices=formats.FORMATS, default="csv", help="csv by default")
    command.add_argument("--out", metavar="PATH", required=True)
    query.add_filters(command)

    command = add(verify, "verify", "Recompute every digest and follow every reference of a catalog.")
    command.add_argument("catalog", metavar="CATALOG")

    command = add(merge, "merge", "Merge catalogs into one.")
    command.add_argument("catalogs", metavar="CATALOG", nargs="+")
    command.add_argument("--out", metavar="CATALOG", required=True)

    command = add(show_runs, "show", "List a catalog's runs, fastest first, with speed-ups over the baseline.")
    command.add_argument("catalog", metavar="CATALOG")
    command.add_argument("--fastest", action="store_true", help="the fastest right provider of each workload alone")
    query.add_filters(command)

    command = add(why_run, "why", "Tell where a run's number comes from: configuration, samples, code, environment.")
    command.add_argument("run", metavar="RUN", help="the run's digest, or its beginning, as `show` lists it")
    command.add_argument("--catalog", default="results/catalog.json", help="(default: %(default)s)")

    command = add(compare_catalogs, "compare", "Say what became slower, faster, new, gone; exit 1 on a regression.")
    command.add_argument("old", metavar="OLD")
    command.add_argument("new", metavar="NEW")
    command.add_argument(
        "--minimum-effect",
        metavar="PART",
        type=_part,
        default=compare.MINIMUM_EFFECT,
        help="the least change that counts, as a part of the old median (default: %(default)s)",
    )
    command.add_argument("--format", choices=tuple(compare.FORMATS), default="table")
    command.add_argument("--out", metavar="FILE", help="write it there, print the first line")
    query.add_filters(command)
    command = add(plan_runs, "plan", "List what Snakemake would measure here, why, and how long that takes.")
    command.add_argument("--directory", metavar="DIR", default=".", help="where config/ and results/ are, if not here")
    command.add_argument(
        "--config", metavar="KEY=VALUE", type=_override, nargs="+", action="extend", default=[], help="as for snakemake"
    )
    query.add_filters(command, ("kernel", "provider", "mode", "dtype", "workload", "device", "protocol", "status"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
