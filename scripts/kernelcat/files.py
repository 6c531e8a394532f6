"""Files: atomic writes, and strict reading of JSON and YAML 1.2."""

import gc
import json
import math
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from kernelcat.errors import KernelcatError
from kernelcat.identity import MAX_DEPTH, MAX_INTEGER, canonical_json

PART = ".part"
"""How the names of temporary files end."""

MAX_BYTES = 2**20
MAX_ALIASED = 10_000  # YAML nodes reached again through aliases; stops nine lines that stand for a billion values


def write(path: str | Path, data: bytes) -> None:
    """Writes `data` to `path` so that the file is either whole or absent: a temporary file in the same folder, then a
    rename. Missing folders are made.

    Raises OSError when the folder cannot be written; the target is then untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=PART)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError) and error.errno:
            error.filename = str(path)  # a full disk has none, and nobody knows the temporary file
        raise


def write_folder(path: str | Path, contents: dict[str, bytes]) -> None:
    """Makes the folder `path` one of exactly these files, by name: made anew beside it, then put in its place.

    Raises OSError when that cannot be done; what was there is then untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=PART))
    new, old = beside / "new", beside / "old"
    try:
        new.mkdir()
        for name, data in contents.items():
            (new / name).write_bytes(data)
        if path.exists():
            os.rename(path, old)
        try:
            os.rename(new, path)
        except BaseException:
            os.rename(old, path)
            raise
    finally:
        shutil.rmtree(beside)


def remove_parts(folder: str | Path) -> None:
    """Removes the temporary files and folders below `folder` that a kill has left. To be called while nobody writes
    there."""
    for path in [*Path(folder).rglob(f".*{PART}")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def free_bytes(folder: str | Path) -> int:
    """How many bytes the disk of `folder` has left for who has no special rights."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def end_future(folder: str | Path) -> None:
    """Gives the present time to what is from the future in `folder`, because a clock was wrong: of that Snakemake makes
    nothing, as the results would seem older than it."""
    now = time.time()
    for path in Path(folder).rglob("*"):
        if path.lstat().st_mtime > now:
            os.utime(path, follow_symlinks=False)


def load(path: str | Path, limit: int | None = MAX_BYTES) -> object:
    """The value of a JSON file (suffix .json) or YAML 1.2 file (any other suffix); "-" is standard input, JSON when it
    begins with "{" or "[". At most `limit` bytes are read; None reads any size.

    Numbers come as canonical JSON would give them back: 1.0 and -0.0 as integers, integers beyond ±(2^53-1) as floats
    when their digits are those of a double, so that a document and its canonical JSON load alike. YAML has the core
    schema only: a date is text, tags other than the core's are refused.

    Raises KernelcatError with one line, "path: …", with line and column where they are known, for what cannot be read,
    is too big, not UTF-8, empty, no JSON or YAML, holds a key twice, NaN, infinities or more than MAX_DEPTH levels.
    """
    name = "standard input" if str(path) == "-" else _one_line(str(path))
    data = _read(path, name, limit)
    if limit is not None and len(data) > limit:
        raise KernelcatError(f"{name}: expected at most {limit} bytes, found more")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise KernelcatError(f"{name}: line {line}: expected UTF-8, found byte 0x{data[error.start]:02x}") from error
    if not text.strip():
        raise KernelcatError(f"{name}: expected a JSON or YAML document, found an empty file")
    as_json = text.lstrip()[0] in "{[" if str(path) == "-" else str(path).endswith(".json")
    try:
        value = _json(text) if as_json else _yaml(text)
        if not _is_bounded(value):
            raise RecursionError
    except _Refused as error:
        raise KernelcatError(f"{name}: {error}") from error
    except RecursionError as error:
        expected = f"a document of bounded depth, found more than {MAX_DEPTH} levels"
        raise KernelcatError(f"{name}: expected {expected}") from error
    return value


def value(text: str) -> object:
    """The value of a YAML 1.2 text, read as `load` reads files. Raises KernelcatError, one line."""
    try:
        return _yaml(text)
    except _Refused as error:
        raise KernelcatError(str(error)) from error
    except RecursionError as error:
        raise KernelcatError("expected a value of bounded depth, found endless nesting") from error


class _Refused(Exception):
    """Why a text cannot be read, in one line without the file's name."""


def _read(path: str | Path, name: str, limit: int | None) -> bytes:
    size = -1 if limit is None else limit + 1
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read(size)
        with open(path, "rb") as file:
            return file.read(size)
    except OSError as error:
        raise KernelcatError(f"{name}: expected a file, found: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the path
        raise KernelcatError(f"{name}: expected a file, found: {error}") from error


def _is_bounded(value: object, levels: int = MAX_DEPTH) -> bool:
    """Whether nothing that walks through the value will meet the interpreter's recursion limit."""
    if not isinstance(value, dict | list):
        return True
    if not levels:
        return False
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list) and not _is_bounded(item, levels - 1):
            return False
    return True


def _json(text: str) -> object:
    collects = gc.isenabled()
    gc.disable()  # no cycle comes of this, and looking for one again and again takes a third of the time
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        raise _Refused(f"line {error.lineno}, column {error.colno}: expected JSON: {error.msg}") from error
    finally:
        if collects:
            gc.enable()


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise _Refused(f"expected each key once, found {_quoted(twice)} twice in one object")
    return result


def _constant(text: str) -> object:
    raise _Refused(f"expected finite numbers, found {text}")


def _integer(text: str) -> int | float:
    value = int(_bounded(text))
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        double = _float(text)
        # Canonical JSON writes the double 1e20 so. Other digits would be silently changed: they stay, to be refused.
        if canonical_json(double).decode() == text:
            return double
    return value


def _bounded(text: str) -> str:
    """Python refuses integers of more than 4300 digits, and takes quadratic time before; a double has 309 at most."""
    if len(text) > 400:
        raise _Refused(f"expected integers within ±(2^53-1), found one of {len(text)} digits")
    return text


def _float(text: str) -> int | float:
    value = float(text)
    if not math.isfinite(value):
        raise _Refused(f"expected finite numbers, found {text if len(text) <= 40 else text[:39] + '…'}")
    return int(value) if value.is_integer() and abs(value) <= MAX_INTEGER else value


# ---- YAML: ruamel.yaml parses and composes; the nodes are read here, so that each refusal has its line and column.

_CORE = (
    ("null", re.compile(r"(?:null|Null|NULL|~|)")),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)")),
    ("int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)")),
    ("float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")),
    ("float", re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))")),
)
"""The scalars of YAML 1.2's core schema (section 10.3.2), in the order in which they are tried."""


def _yaml(text: str) -> object:
    from ruamel.yaml import YAML  # takes 30 ms
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.resolver import BaseResolver
    from ruamel.yaml.tag import Tag

    class Core(BaseResolver):
        processing_version = (1, 2)  # whatever a %YAML directive says

        def __init__(self, version=None, loader=None, loadumper=None) -> None:
            super().__init__(loadumper or loader)

        def resolve(self, kind, value, implicit):
            if kind is ScalarNode and implicit[0]:
                for name, pattern in _CORE:
                    if pattern.fullmatch(value):
                        return Tag(suffix=f"tag:yaml.org,2002:{name}")
            return super().resolve(kind, value, (False, True))

    yaml = YAML(typ="safe", pure=True)
    yaml.Resolver = Core
    yaml.composer.warn_double_anchors = False  # YAML 1.2 allows them
    try:
        node = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = _one_line(" ".join(filter(None, (error.context, error.problem))))
        raise _Refused(f"{_place(mark)}expected YAML 1.2: {problem}") from error
    except (YAMLError, ValueError, OverflowError) as error:  # the latter two for "\UFFFFFFFF"
        raise _Refused(f"expected YAML 1.2: {_one_line(str(error))}") from error
    if node is None:
        raise _Refused("expected a YAML document, found only comments")
    return _Nodes().value(node)


class _Nodes:
    """Reads composed YAML nodes; counts what aliases repeat."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.open: set[int] = set()
        self.aliased = 0

    def value(self, node) -> object:
        at = _place(node.start_mark)
        if id(node) in self.open:
            raise _Refused(f"{at}expected a document of bounded depth, found an alias inside what it names")
        if id(node) in self.seen:
            self.aliased += 1 + len(node.value) // 100  # a long text is like many values: messages may quote them all
        if self.aliased > MAX_ALIASED:
            raise _Refused(f"{at}expected at most {MAX_ALIASED} values by alias, found more")
        self.seen.add(id(node))
        self.open.add(id(node))
        result = self.read(node, at)
        self.open.discard(id(node))
        return result

    def read(self, node, at: str) -> object:
        tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
        try:
            if tag == "map" and node.id == "mapping":
                return self.mapping(node)
            if tag == "seq" and node.id == "sequence":
                return [self.value(item) for item in node.value]
            if node.id == "scalar":
                if tag == "str":
                    return node.value
                pattern = next((p for name, p in _CORE if name == tag and p.fullmatch(node.value)), None)
                if pattern is not None:
                    return _scalar(tag, node.value)
        except _Refused as error:
            raise error if str(error).startswith("line ") else _Refused(f"{at}{error}") from error
        raise _Refused(f"{at}expected a value of YAML's core schema, found the tag {_quoted(str(node.tag))}")

    def mapping(self, node) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            at = _place(key_node.start_mark)
            key = self.value(key_node)
            if not isinstance(key, str):
                raise _Refused(f"{at}expected keys that are text, found {_quoted(key)}")
            if key in result:
                raise _Refused(f"{at}expected each key once, found {_quoted(key)} twice in one mapping")
            result[key] = self.value(value_node)
        return result


def _scalar(tag: str, text: str) -> object:
    if tag == "null":
        return None
    if tag == "bool":
        return text in ("true", "True", "TRUE")
    if tag == "float":
        return _float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if text[:2] in ("0o", "0x"):
        return int(_bounded(text)[2:], 8 if text[1] == "o" else 16)
    return _integer(text)


def _place(mark) -> str:
    return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "


def _quoted(value: object) -> str:
    text = ascii(value) if not isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= 200 else text[:199] + "…"
