"""Files: atomic writes."""

import os
import tempfile
from pathlib import Path


def write(path: str | Path, data: bytes) -> None:
    """Writes `data` to `path` so that the file is either whole or absent: a temporary file in the same folder, then a
    rename. Missing folders are made.

    Raises OSError when the folder cannot be written; the target is then untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
