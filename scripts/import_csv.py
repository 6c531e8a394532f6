"""The job that imports an outside CSV: the command `kernelcat import`."""

import sys

from kernelcat.cli import main

if __name__ == "__main__":
    sys.exit(main(["import", *sys.argv[1:]]))
