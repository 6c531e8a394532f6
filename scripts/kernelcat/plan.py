"""What a run would measure, why, and how long that takes: the suite against the records in results/metrics/.

Snakemake decides by what it remembers in .snakemake/. Here the same follows from the records, which is faster and says
what changed. Both agree while results/ and .snakemake/ belong together and no job failed or was killed: what such a job
was to measure Snakemake measures in any case.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelcat import files, grid, identity, recorded, show
from kernelcat.errors import KernelcatError
from kernelcat.fault import printable
from kernelcat.grid import Configuration

CONFIG = "config/config.yaml"
METRICS, DOCUMENTS, CATALOG = Path("results/metrics"), Path("results/documents/runs"), Path("results/catalog.json")

UP_TO_DATE = "up to date"
MISSING = "record missing"

GUESS_SECONDS = 1.5
"""What a configuration takes where nothing like it was measured: a warm process on an H200 (DESIGN, section 6)."""

COMPILE_SECONDS = 6
"""What torch.compile takes besides."""


@dataclass(frozen=True)
class Plan:
    """What a run would do, one row for each configuration in the suite's order.

    A row has what kernelcat.query.Filters ask for, and `runs` (would it be measured?), `why` ("up to date", "new",
    "kernel changed" …), `detail` (from what to what), `status` (of its record, None without one), `seconds` (what
    measuring it is expected to take) and `guess` (whether those are no more than that).
    """

    rows: list[dict]
    stale: int  # records of this device whose configurations are no longer in the suite
    left_out: list[str]  # one line for each provider that cannot be measured here


@dataclass(frozen=True)
class Record:
    """What a plan needs of a record; None for what older ones do not say."""

    configuration: Configuration
    status: str
    versions: dict[str, str | None]
    conditions: str | None
    code: str | None
    job_seconds: float | None

    @staticmethod
    def load(path: Path) -> "Record":
        """Raises KernelcatError when the file holds no record."""
        values = recorded.load(path)
        try:
            return Record(
                configuration=Configuration.from_json(values["configuration"]),
                status=str(values["status"]),
                versions=dict(values["versions"]),
                conditions=values.get("conditions"),
                code=values.get("code"),
                job_seconds=float(values["jobSeconds"]) if "jobSeconds" in values else None,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise KernelcatError(f"{path}: expected the record of a measurement, found something else") from error


def plan(overrides: dict) -> Plan:
    """The plan of a run in the working directory, with these values in place of its config's.

    Raises KernelcatError for what Snakemake would not begin with, and for a file in place of a record that is none.
    """
    beside = Path("scripts/kernelcat")
    if beside.is_dir() and not beside.samefile(Path(__file__).parent):
        raise KernelcatError(f"{beside}: expected the code of this command, found another: use the command of that")
    config = _updated(files.load(CONFIG), overrides)
    cells, own_kernels = grid.expand(config), config.get("kernels")
    records = _records({path.partition("/")[0] for path in cells.by_path})
    stale = [record.configuration for path, record in records.items() if path not in cells.by_path]
    absences, expected = _Absences(cells.configurations, stale), _Expected(records.values())
    rows = []
    for path, configuration in cells.by_path.items():
        record = records.get(path)
        if record:
            why, detail = _changes(record, grid.conditions(configuration.kernel, configuration.provider, own_kernels))
        elif _documented(path):
            why, detail = MISSING, ""
        else:
            why, detail = absences.why(configuration)
        seconds, guess = expected.seconds(configuration)
        rows.append(
            {
                **{name: getattr(configuration, name) for name in ("kernel", "mode", "provider", "device", "protocol")},
                **{"case": configuration.case.key, "dtype": configuration.case.dtype, "workload": None},
                **{"status": record.status if record else None, "why": why, "detail": detail},
                **{"seconds": seconds, "guess": guess},
            }
        )
    # Snakemake looks for missing records only where it makes documents.
    looks = any(row["why"] not in (UP_TO_DATE, MISSING) for row in rows)
    looks = looks or not (CATALOG.exists() or DOCUMENTS.is_dir())
    for row in rows:
        row["runs"] = row["why"] != UP_TO_DATE and (looks or row["why"] != MISSING)
    return Plan(rows, len(stale), cells.left_out_lines())


def table(rows: list[dict]) -> str:
    """Rows of a plan as aligned text, one line each under a header; "no configurations" when there are none."""
    from tabulate import tabulate

    if not rows:
        return "no configurations"
    texts = ("kernel", "mode", "provider", "case", "device", "protocol")
    lines = [
        [*(printable(row[name]) for name in texts), "yes" if row["runs"] else "no"]
        + [printable(": ".join(filter(None, (row["why"], row["detail"])))), printable(row["status"] or "")]
        + [f"{'guess: ' if row['guess'] else ''}{row['seconds']:.1f} s" if row["runs"] else ""]
        for row in rows
    ]
    header = [*texts, "runs", "why", "last status", "time"]
    align = ["left"] * (len(header) - 1) + ["right"]
    return tabulate(lines, header, tablefmt="simple", colalign=align, disable_numparse=True)


def summary_lines(found: Plan, rows: list[dict]) -> list[str]:
    """How many of the rows would be measured, why, and for how long one after the other; then what goes unnoticed, what
    is stale and what was left out."""
    runs = [row for row in rows if row["runs"]]
    rest = Counter(row["why"] for row in rows if not row["runs"])
    reasons = Counter(row["why"] for row in runs)
    said = f"{len(runs)} to measure"
    if reasons:
        said += f" ({', '.join(f'{count} {why}' for why, count in reasons.items())})"
    said = ", ".join([said, *(f"{rest[why]} {why}" for why in (UP_TO_DATE, MISSING) if rest[why])])
    if runs:
        said += f"; about {show.about(sum(row['seconds'] for row in runs))}"
        if guesses := sum(row["guess"] for row in runs):
            said += f" ({guesses} unknown, guessed)"
    lines = [f"{_count(len(rows), 'configuration')}: {said}"]
    if rest[MISSING]:
        lines.append("Snakemake does not notice that a record is missing: --forcerun RECORD measures it again")
    if found.stale:
        lines.append(f"{_count(found.stale, 'record')} of configurations that are no longer in the suite")
    return lines + found.left_out


def _updated(config, overrides: dict):
    """The config as Snakemake overrides it: key by key, also inside of objects."""
    if not isinstance(config, dict):
        return overrides
    changed = {
        key: _updated(config.get(key), value) if isinstance(value, dict) else value for key, value in overrides.items()
    }
    return config | changed


def _records(devices: Iterable[str]) -> dict[str, Record]:
    """The records in the folders of these devices, by the paths of their configurations."""
    found = [path for device in sorted(devices) for path in sorted((METRICS / device).rglob("*.json"))]
    return {path.relative_to(METRICS).as_posix().removesuffix(".json"): Record.load(path) for path in found}


def _documented(path: str) -> bool:
    return Path(f"{DOCUMENTS}/{path}.json").exists()


def _changes(record: Record, conditions: dict) -> tuple[str, str]:
    """Why a configuration with a record would be measured again, and what changed from what to what."""
    if record.conditions == grid.conditions_digest(conditions):
        return UP_TO_DATE, ""
    versions = [
        f"{package} {before or 'none'} → {now or 'none'}"
        for package, now in conditions["versions"].items()
        if (before := record.versions.get(package)) != now
    ]
    same_code = record.code in (None, conditions["code"])
    return "version changed" if versions and same_code else "kernel changed", ", ".join(versions)


class _Absences:
    """Why configurations have no record: what their kernel, mode and provider have records of instead."""

    def __init__(self, suite: Iterable[Configuration], stale: Iterable[Configuration]) -> None:
        self.cases: dict[tuple, set[bytes]] = defaultdict(set)
        self.protocols: set[str] = set()
        self.stale: dict[tuple, set[tuple[bytes, str]]] = defaultdict(set)
        for configuration in suite:
            self.cases[_series(configuration)].add(_case(configuration))
            self.protocols.add(configuration.protocol)
        for configuration in stale:
            self.stale[_series(configuration)].add((_case(configuration), configuration.protocol))

    def why(self, configuration: Configuration) -> tuple[str, str]:
        series, case = _series(configuration), _case(configuration)
        before = {protocol for found, protocol in self.stale[series] if found == case}
        if configuration.protocol in before:
            return "sampling changed", ""
        if gone := sorted(before - self.protocols):
            return "protocol changed", f"{', '.join(gone)} → {configuration.protocol}"
        if any(found not in self.cases[series] for found, _ in self.stale[series]):
            return "axes changed", ""
        return "new", ""


class _Expected:
    """How long configurations take, by what their nearest relatives took."""

    def __init__(self, records: Iterable[Record]) -> None:
        taken: dict[tuple, list[float]] = defaultdict(list)
        for record in records:
            if record.job_seconds is not None:
                for key in _relatives(record.configuration):
                    taken[key].append(record.job_seconds)
        self.medians = {key: statistics.median(seconds) for key, seconds in taken.items()}

    def seconds(self, configuration: Configuration) -> tuple[float, bool]:
        """The seconds, and whether they are a guess."""
        for key in _relatives(configuration):
            if key in self.medians:
                return self.medians[key], False
        return GUESS_SECONDS + COMPILE_SECONDS * (configuration.provider == "torch_compile"), True


def _relatives(configuration: Configuration) -> Iterator[tuple]:
    """What the configuration has in common with others, the nearest first."""
    yield (configuration.path,)
    yield configuration.kernel, configuration.provider, configuration.protocol
    yield "provider", configuration.provider
    yield ()


def _series(configuration: Configuration) -> tuple:
    return configuration.kernel, configuration.mode, configuration.provider


def _case(configuration: Configuration) -> bytes:
    case = configuration.case
    return identity.canonical_json([case.axes, case.dtype, case.scalars])


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
