"""The job that merges the documents of runs and imported catalogs."""

import argparse
import sys

from kernelcat import catalog, documents
from kernelcat.errors import KernelcatError, exit_code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", required=True, help="the folder that the documents lie in")
    parser.add_argument("--imports", nargs="*", default=[], help="catalogs to merge")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    measured = catalog.build(documents.read(arguments.documents))
    merged = catalog.merge([measured, *map(catalog.read, arguments.imports)])
    if faults := catalog.verify(merged):
        raise KernelcatError(f"{arguments.out}: {faults[0]}")
    catalog.write(arguments.out, merged)


if __name__ == "__main__":
    sys.exit(exit_code(main))
