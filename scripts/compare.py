"""The job that compares the catalog with an older one and writes what it found for people, programs and CI."""

import argparse
import sys
from pathlib import Path

from kernelcat import catalog, compare, files
from kernelcat.errors import exit_code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--markdown", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--junit", required=True)
    arguments = parser.parse_args()
    paths = arguments.old, arguments.new
    found = compare.compare(*map(catalog.read, paths), [Path(path).parent for path in paths])
    for format in ("markdown", "json", "junit"):
        files.write(getattr(arguments, format), compare.FORMATS[format](found).encode(errors="backslashreplace"))
    print(*compare.summary_lines(found), sep="\n")


if __name__ == "__main__":
    sys.exit(exit_code(main))
