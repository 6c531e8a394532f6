"""The kernels: one file each, here or in a folder of the user's own. The file's name is the kernel's name."""

import importlib.util
import os
import re
import sys
from pathlib import Path

from kernelcat.errors import KernelcatError
from kernelcat.kernel import Kernel

FOLDER = Path(__file__).parent


def files(own: str | Path | None = None) -> dict[str, Path]:
    """The kernel files by kernel name: the project's and those of the folder `own`.

    Files whose name begins with an underscore are helpers that kernel files import. Raises KernelcatError when `own` is
    no folder, a file's name is no kernel name, or a name is taken.
    """
    found = {}
    folders = [FOLDER, *([Path(own)] if own else [])]
    for folder in folders:
        if not os.path.isdir(folder):
            raise KernelcatError(f"kernels: expected a folder with kernel files, found {str(folder)!r}")
        for path in sorted(folder.glob("*.py")):
            if path.name.startswith("_"):
                continue
            if not re.fullmatch(r"[a-z][a-z0-9_]*", path.stem):
                raise KernelcatError(f"{path}: expected a file name of a-z, 0-9 and _ that begins with a letter")
            if path.stem in found:
                raise KernelcatError(f"{path}: the kernel {path.stem!r} exists already in {found[path.stem]}")
            found[path.stem] = path
    return found


def load(path: Path) -> Kernel:
    """The kernel that a file defines. Raises KernelcatError when it cannot be read or binds no KERNEL."""
    name = f"kernelcat.kernels.{path.stem}" if path.parent == FOLDER else f"own kernel {path.resolve()}"
    if path.parent != FOLDER and str(path.parent.resolve()) not in sys.path:
        sys.path.append(str(path.parent.resolve()))  # the user's kernel files import their helpers by name
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            text = str(error).splitlines()[0] if str(error) else ""
            raise KernelcatError(f"{path}: cannot be read: {type(error).__name__}: {text}") from error
    kernel = getattr(sys.modules[name], "KERNEL", None)
    if not isinstance(kernel, Kernel):
        raise KernelcatError(f"{path}: expected KERNEL = Kernel(...), found {type(kernel).__name__}")
    return kernel


def load_all(own: str | Path | None = None) -> dict[str, Kernel]:
    """Every kernel by name."""
    return {name: load(path) for name, path in files(own).items()}


def by_csv_name() -> dict[str, list[Kernel]]:
    """The project's kernels by each name that benchmark CSVs have for them. Several share a name where a script's flag
    changes the operation."""
    found: dict[str, list[Kernel]] = {}
    for name, kernel in load_all().items():
        for csv_name in (name, *kernel.also):
            found.setdefault(csv_name, []).append(kernel)
    return found
