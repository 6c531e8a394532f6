"""The job that makes the report of a catalog: a page, and a folder of figures."""

import argparse
import sys

from kernelcat import report
from kernelcat.errors import exit_code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--catalog", required=True)
    parser.add_argument("--html", required=True, help="the page to write")
    parser.add_argument("--plots", required=True, help="the folder for the figures, made anew")
    arguments = parser.parse_args()
    report.write(arguments.catalog, arguments.html, arguments.plots)


if __name__ == "__main__":
    sys.exit(exit_code(main))
