"""From a suite to configurations: the grid of kernels, providers, modes, dtypes, axes and scalars."""

import hashlib
import io
import itertools
import json
import math
import os
import re
import shlex
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from kernelcat import environment, files, identity, kernels, manifests, roofline, schema
from kernelcat.errors import KernelcatError
from kernelcat.kernel import Case, Kernel, Provider
from kernelcat.timing import PROTOCOLS, Sampling

MEASURING = (
    "child",
    "correctness",
    "environment",
    "interpreter",
    "kernel",
    "libraries",
    "measure",
    "metrics",
    "samples",
    "timing",
    "worker",
)
"""The modules that every measurement runs through: a change to one of them makes all results stale."""


MAX_CONFIGURATIONS = 50_000
"""Far more than a GPU measures in a week, and few enough to plan: a few short lists may multiply to billions."""


@dataclass(frozen=True)
class Configuration:
    """One cell of the grid: what one benchmark job measures."""

    kernel: str
    provider: str
    mode: str
    case: Case
    protocol: str
    device: str
    sampling: Sampling | None = None

    def as_json(self) -> dict:
        """The configuration as plain values; `from_json` reads it back."""
        case = {"axes": self.case.axes, "dtype": self.case.dtype, "scalars": self.case.scalars}
        return {
            "kernel": self.kernel,
            "provider": self.provider,
            "mode": self.mode,
            "case": case,
            "protocol": self.protocol,
            "device": self.device,
            "sampling": asdict(self.sampling) if self.sampling else None,
        }

    @staticmethod
    def from_json(values: dict) -> "Configuration":
        sampling = values["sampling"]
        changed = {"case": Case(**values["case"]), "sampling": Sampling(**sampling) if sampling else None}
        return Configuration(**{**values, **changed})

    @cached_property
    def path(self) -> str:
        """Where its files lie below results/metrics/, without a suffix: readable, unique by the digest at its end."""
        name = hashlib.sha256(identity.canonical_json(self.as_json())).hexdigest()[:12]
        case = f"{self.case.key[:150]}-{self.protocol}-{name}"
        return f"{self.device}/{self.kernel}/{self.mode}/{self.provider}/{case}"


@dataclass(frozen=True)
class Grid:
    """The configurations of a suite on one device, and those left out because their provider cannot be measured there,
    with why."""

    configurations: list[Configuration]
    left_out: list[tuple[Configuration, str]]
    gpu: str | None = None

    @cached_property
    def by_path(self) -> dict[str, Configuration]:
        """The configurations by where their files lie below results/metrics/. Those for a GPU model that is named lie
        beside those for another one: in cuda-h200/ instead of cuda/. What is measured is the same."""
        folder = f"cuda-{identity.kebab(self.gpu)}/" if self.gpu else "cuda/"
        return {re.sub("^cuda/", folder, found.path): found for found in self.configurations}

    def at(self, path: str) -> Configuration:
        """Raises KernelcatError when none has that path."""
        if path not in self.by_path:
            raise KernelcatError(f"{path}: expected a configuration of the suite; was it measured with other --config?")
        return self.by_path[path]

    def priorities(self, seed: int) -> dict[str, int]:
        """The order of measuring, by path: the higher the earlier. Small cases come first, so that what a larger one
        would exhaust is known by then; the configurations of one case follow each other in an order drawn with `seed`,
        because clocks drift."""

        def place(path: str) -> tuple:
            found = self.by_path[path]
            drawn = hashlib.sha256(f"{seed} {found.path}".encode()).hexdigest()
            return math.prod(found.case.axes.values()), found.kernel, found.case.key, drawn

        return {path: -number for number, path in enumerate(sorted(self.by_path, key=place))}

    def left_out_lines(self) -> list[str]:
        """One line for each provider that cannot be measured, with the number of its configurations and why."""
        counts = Counter((configuration.provider, reason) for configuration, reason in self.left_out)
        return [
            f"left out {count} configuration{'' if count == 1 else 's'} of {provider}: {reason}"
            for (provider, reason), count in sorted(counts.items())
        ]


def resolve_device(device: str) -> str:
    """The device of a config: "cuda" or "cpu" as it says, for "auto" "cuda" where an NVIDIA driver finds a GPU."""
    if device != "auto":
        return device
    import pynvml

    try:
        pynvml.nvmlInit()
        return "cuda" if pynvml.nvmlDeviceGetCount() else "cpu"
    except pynvml.NVMLError:
        return "cpu"


def expand(config: dict, source: str = "config/config.yaml", suites: str | Path = "config/suites") -> Grid:
    """The grid that a config asks for, on a GPU with the runs that calibrate it.

    Raises KernelcatError, one line with file and place, for an unknown key, suite, kernel, provider, axis, dtype,
    protocol or scalar, and for shapes that cannot be.
    """
    schema.check(config, "config", source)
    device = resolve_device(config["device"])
    if "gpu" in config and device != "cuda":
        raise KernelcatError(f"{source}: gpu: expected none where the CPU is measured, found {config['gpu']!r}")
    protocols = _list(config["protocol"][device])
    known = sorted(name for name, value in PROTOCOLS.items() if value.device == device)
    for protocol in protocols:
        if protocol not in known:
            raise KernelcatError(f"{source}: protocol.{device}: expected one of {', '.join(known)}, found {protocol!r}")
    # JSON Schema calls 1000.0 an integer too
    sampling = Sampling(**config["sampling"] | {"samples": int(config["sampling"]["samples"])})
    cache = config["compile_cache"]
    if os.path.exists(cache) and not os.path.isdir(cache):
        raise KernelcatError(f"{source}: compile_cache: expected a folder, found the file {cache!r}")
    path = Path(suites) / f"{config['suite']}.yaml"
    if not os.path.isfile(path):  # unlike Path.is_file false for a name that is too long
        found = ", ".join(sorted(entry.stem for entry in Path(suites).glob("*.yaml")))
        raise KernelcatError(f"{source}: suite: expected one of {found}, found {config['suite']!r}")
    suite = files.load(path)
    schema.check(suite, "suite", str(path))
    try:
        available = kernels.files(config.get("kernels"))
    except KernelcatError as error:
        raise KernelcatError(f"{source}: {error}") from error
    cells: dict[str, Configuration] = {}
    left_out: dict[str, tuple[Configuration, str]] = {}
    dtypes: set[str] = set()
    number = itertools.count()
    for name, entry in suite.items():
        if name not in available:
            raise KernelcatError(f"{path}: expected a kernel ({', '.join(available)}), found {name!r}")
        kernel = kernels.load(available[name])
        if not kernel.providers:
            raise KernelcatError(f"{path}: {name}: expected a kernel with providers, found one that is only imported")
        _check(kernel, available[name])
        for provider in entry["providers"]:
            if provider not in kernel.providers:
                raise KernelcatError(
                    f"{path}: {name}.providers: expected some of {', '.join(kernel.providers)}, found {provider!r}"
                )
        unavailable = {provider: kernel.providers[provider].unavailable(device) for provider in entry["providers"]}
        for case in _cases(kernel, entry, f"{path}: {name}"):
            dtypes.add(case.dtype)
            for mode, provider, protocol in itertools.product(entry["modes"], entry["providers"], protocols):
                if next(number) == MAX_CONFIGURATIONS:
                    expected = f"a grid of at most {MAX_CONFIGURATIONS} configurations"
                    raise KernelcatError(f"{path}: {name}: expected {expected}, found more")
                adaptive = sampling if PROTOCOLS[protocol].adaptive else None
                cell = Configuration(name, provider, mode, case, protocol, device, adaptive)
                if reason := unavailable[provider]:
                    left_out[cell.path] = cell, reason
                else:
                    cells[cell.path] = cell
    if device == "cuda":
        for name, case in roofline.calibration(dtypes):
            provider, mode, protocol = roofline.PROVIDER, roofline.MODE, roofline.PROTOCOL
            cell = Configuration(name, provider, mode, case, protocol, device, sampling)
            cells[cell.path] = cell
    return Grid(list(cells.values()), list(left_out.values()), config.get("gpu"))


def _check(kernel: Kernel, path: Path) -> None:
    """Raises KernelcatError for a kernel that could not be measured or documented, before anything is measured."""
    for name, provider in kernel.providers.items():
        known = isinstance(provider, Provider) and isinstance(name, str)
        if not known or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
            expected = "names of at most 100 letters, digits and . _ - with a Provider each"
            raise KernelcatError(f"{path}: providers: expected {expected}, found {name!r}")
    _measuring_code(path)
    try:
        manifests.operation(kernel)
    except KernelcatError as error:
        raise KernelcatError(f"{path}: {error}") from error


def _cases(kernel: Kernel, entry: dict, place: str) -> Iterator[Case]:
    """The cases of a suite's entry: the product of its own lists, then of each of its `cases`."""
    sweeps = [(place, entry)] if "axes" in entry else []
    sweeps += [(f"{place}.cases.{number}", {**entry, **sweep}) for number, sweep in enumerate(entry.get("cases", []))]
    if not sweeps:
        raise KernelcatError(f"{place}: expected axes or cases, found neither")
    for where, sweep in sweeps:
        if sweep["axes"].keys() != set(kernel.axes):
            raise KernelcatError(f"{where}.axes: expected {', '.join(kernel.axes)}, found {', '.join(sweep['axes'])}")
        scalars = {**kernel.scalars, **sweep.get("scalars", {})}
        if unknown := scalars.keys() - kernel.scalars.keys():
            raise KernelcatError(f"{where}.scalars: expected some of {sorted(kernel.scalars)}, found {sorted(unknown)}")
        if "dtypes" not in sweep:
            raise KernelcatError(f"{where}: expected dtypes, found none")
        lists = [*(sweep["axes"][axis] for axis in kernel.axes), sweep["dtypes"], *scalars.values()]
        for values in itertools.product(*map(_list, lists)):
            sizes, (dtype, *rest) = values[: len(kernel.axes)], values[len(kernel.axes) :]
            case = Case(dict(zip(kernel.axes, sizes, strict=True)), dtype, dict(zip(scalars, rest, strict=True)))
            try:
                kernel.shapes(kernel.inputs | kernel.outputs, case.axes)
            except KernelcatError as error:
                raise KernelcatError(f"{where}.axes: {case.axes}: {error}") from error
            yield case


def _list(value) -> list:
    return value if isinstance(value, list) else [value]


def job(configuration: Configuration, own_kernels: str | None = None) -> str:
    """Everything that a benchmark job depends on, as one canonical JSON string: the configuration, the digest of the
    code that it runs through, and the versions of the packages that its provider uses.

    One string because Snakemake compares params as an unordered set; the code is in it because Snakemake notices a
    changed script, but not a changed module that it imports.
    """
    found = conditions(configuration.kernel, configuration.provider, own_kernels)
    return json.dumps({"configuration": configuration.as_json(), **found})


@lru_cache
def conditions(kernel: str, provider: str, own_kernels: str | None = None) -> dict:
    """What the jobs of a kernel's provider have in common: `kernels`, the folder of a kernel of one's own, the digest
    of the `code`, and the `versions` of the provider's packages."""
    path = kernels.files(own_kernels)[kernel]
    own = path.parent != kernels.FOLDER
    return {
        "kernels": str(path.parent) if own else None,
        "code": _measuring_code(path),
        "versions": {
            package: environment.version(package) for package in kernels.load(path).providers[provider].packages
        },
    }


def conditions_digest(job: dict) -> str:
    """The digest of a job's conditions, as records keep it."""
    return hashlib.sha256(json.dumps([job[key] for key in ("kernels", "code", "versions")]).encode()).hexdigest()


def options(config: dict) -> str:
    """The part of a config that says how jobs run, and changes no result, as arguments of scripts/measure.py."""
    values = {**config, "order_seed": int(config["order_seed"])}
    names = ("process", "compile_cache", "order_seed", "after_out_of_memory", "gpu")
    return shlex.join(f"--{name.replace('_', '-')}={values[name]}" for name in names if name in values)


@lru_cache
def _measuring_code(kernel_file: Path) -> str:
    """The digest of the code that a kernel's measurements run through: its file, the helpers beside it, and ours."""
    helpers = [path for path in kernel_file.parent.glob("_*.py") if path.name != "__init__.py"]
    ours = [Path(__file__).parent / f"{name}.py" for name in MEASURING]
    return code_digest([kernel_file, *helpers, *ours])


def code_digest(paths: Iterable[Path]) -> str:
    """The digest of files, of Python files by their tokens: comments and blank lines change nothing.

    Raises KernelcatError when a Python file cannot be read as such.
    """
    digests = "".join(_file_digest(path) for path in sorted(paths))
    return hashlib.sha256(digests.encode()).hexdigest()


@lru_cache
def _file_digest(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".py":
        skipped = {tokenize.COMMENT, tokenize.NL}
        try:
            tokens = [token for token in tokenize.tokenize(io.BytesIO(data).readline) if token.type not in skipped]
        except (tokenize.TokenError, SyntaxError) as error:
            raise KernelcatError(f"{path}: cannot be read: {type(error).__name__}: {error}") from error
        data = "\n".join(f"{token.type} {token.string}" for token in tokens).encode()
    return hashlib.sha256(data).hexdigest()
