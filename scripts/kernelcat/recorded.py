"""Records of measurements as files. Each holds the digest of the rest of it: what was edited, or put together by hand,
is no evidence, and without the digest it would become documents whose digests all hold."""

import hashlib
import json
from pathlib import Path

from kernelcat import files, identity
from kernelcat.errors import KernelcatError
from kernelcat.grid import Configuration


def write(path: str | Path, record: dict) -> None:
    """Writes a record (kernelcat.measure says what it holds), whole or not at all. Raises OSError."""
    data = json.dumps({**record, "digest": _digest(record)}, sort_keys=True, indent=1, allow_nan=False)
    files.write(path, f"{data}\n".encode())


def load(path: str | Path) -> dict:
    """The record in a file, without its digest; older ones have none.

    Raises KernelcatError, one line, for a file that holds no record or another one than was written.
    """
    record = files.load(path, limit=None)
    try:
        Configuration.from_json(record["configuration"])
        found = record.pop("digest", None)
        whole = found in (None, _digest(record)) and bool(record["status"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise KernelcatError(f"{path}: expected the record of a measurement, found something else") from error
    if not whole:
        raise KernelcatError(f"{path}: expected the record as it was measured, found one that was changed since")
    return record


def _digest(record: dict) -> str:
    return "sha256:" + hashlib.sha256(identity.canonical_json(record)).hexdigest()
