"""The process that measuring processes are forked from; kernelcat.measure starts it."""

import argparse
import os
import socket
import sys

from kernelcat import worker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listener", type=int, required=True, help="the file descriptor of a listening socket")
    parser.add_argument("--lifeline", type=int, required=True, help="the process whose end is this one's end")
    parser.add_argument("--preload", choices=worker.PRELOADED, help="import what measuring on this device needs")
    arguments = parser.parse_args()
    worker.serve(socket.socket(fileno=arguments.listener), arguments.lifeline, arguments.preload)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # taking the imported packages down in order is slow, and some complain


if __name__ == "__main__":
    main()
