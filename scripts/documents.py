"""The job that turns records of measurements into documents. The records' paths come on standard input, one a line."""

import argparse
import sys

from kernelcat import documents
from kernelcat.errors import exit_code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metrics", required=True, help="the folder that the records lie in")
    parser.add_argument("--out", required=True, help="the folder that the documents go to")
    parser.add_argument("--kernels", help="the folder with the user's own kernel files")
    arguments = parser.parse_args()
    documents.write(sys.stdin.read().split(), arguments.metrics, arguments.out, arguments.kernels or None)


if __name__ == "__main__":
    sys.exit(exit_code(main))
