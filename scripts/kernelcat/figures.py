"""Which runs of a catalog make one figure, and which of them one series in it.

A figure shows one kernel on one device, by one family of protocols, in one dtype, with all scalars and all axes but the
swept one held constant. A series is what one line may join: one provider's runs by the same code, versions, environment
and protocol, one run for each x.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernelcat.index import UNSPECIFIED, text_at
from kernelcat.kernel import MODES
from kernelcat.query import natural

METRICS = {"latency": "median_ns", "memory": "peak_memory_bytes", "limit": "attainable"}
"""What is drawn, and the column of kernelcat.query that it stands in."""

# What tells two series of one provider apart, and how it is said; the first that suffice are.
_TELLING = {
    "liger_version": "{}",
    "torch_version": "torch {}",
    "triton_version": "triton {}",
    "environment": "environment {:.10}",
    "implementation": "implementation {:.10}",
    "protocol_digest": "protocol {:.10}",
}


@dataclass(frozen=True)
class Figure:
    """One small figure. `axis` is the swept axis; without one, x are the cases and no points are joined."""

    kernel: str
    device: str
    family: str
    dtype: str
    axis: str | None
    held: tuple[tuple[str, float], ...]
    """The axes and scalars that all runs have in common, sorted by name."""
    metric: str
    mode: str
    rows: tuple[dict, ...]
    """The runs of this mode that have the metric, or failed."""
    group: tuple[dict, ...]
    """The runs of all modes, whose figures stand side by side: with the same units and series."""

    @property
    def place(self) -> tuple:
        """Equal for figures that belong together: those of one sweep."""
        return (
            self.kernel,
            self.device,
            self.family,
            self.dtype,
            tuple(sorted(self.rows[0]["axes"])),
            self.axis,
            self.held,
        )

    @property
    def conditions(self) -> str:
        return " · ".join([self.family, self.dtype, *(f"{name} {number(value)}" for name, value in self.held)])


def passed(row: dict) -> bool:
    return row["status"] == "passed"


def marked(row: dict) -> bool:
    """Whether its number is not to be taken at face value."""
    return row["quality"] not in ("good", "", None)


def number(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def families(objects: dict[str, dict], rows: Iterable[dict]) -> None:
    """Gives each row `family`: what its protocol says it is comparable within, else the protocol's name."""
    for row in rows:
        row["family"] = text_at(
            objects.get(row["protocol_digest"]), "spec", "comparability", "family", default=row["protocol"]
        )


def name_series(rows: list[dict]) -> None:
    """Gives each row `series`: the provider's name, and as much of `_TELLING` as is needed to tell its series apart
    among the runs of one kernel, device and family. Also `line`: the same, but of runs that repeat each other only the
    newest is in the line of that name, the others are "earlier"."""
    for members in grouped(rows, lambda row: (row["kernel"], row["device"], row["family"], row["provider"])).values():
        names = _telling(members)
        seen: dict[tuple, int] = defaultdict(int)
        for row in sorted(members, key=lambda row: ((row["observed_at"] or "").rstrip("Z"), row["run"]), reverse=True):
            said = [_TELLING[name].format((row[name] or UNSPECIFIED).removeprefix("sha256:")) for name in names]
            label = " ".join([row["provider"], *said])
            point = (label, row["mode"], row["workload"], row["case"], tuple(sorted(row["scalars"].items())))
            earlier = seen[point]
            seen[point] += 1
            row["series"] = label
            row["line"] = f"{label} (earlier{'' if earlier == 1 else f' {earlier}'})" if earlier else label


def _telling(rows: list[dict]) -> list[str]:
    def distinct(names: Iterable[str]) -> set[tuple]:
        return {(row["mode"], *(row[name] for name in names)) for row in rows}

    wanted, found = len(distinct(_TELLING)), []
    for name in _TELLING:
        if len(distinct(found)) == wanted:
            break
        if len(distinct([*found, name])) > len(distinct(found)):
            found.append(name)
    return found


def figures(rows: list[dict]) -> list[Figure]:
    """All figures of the rows, which have `family` and `series`; those of one kernel together, modes side by side.
    Every row that passed with a number, and every one that failed, is in one of them at least."""
    found = []
    groups = grouped(
        rows,
        lambda row: (
            *(row[name] for name in ("kernel", "device", "family", "dtype")),
            tuple(sorted(row["axes"])),
            tuple(sorted(row["scalars"].items())),
        ),
    )
    for (kernel, device, family, dtype, _, scalars), members in sorted(groups.items()):
        for axis, axes, group in _sweeps(members):
            held = tuple(sorted({**dict(axes), **dict(scalars)}.items()))
            conditions = kernel, device, family, dtype, axis, held
            for metric in [name for name in METRICS if any(_has(row, name) for row in group)] or ["latency"]:
                shown = [row for row in group if not passed(row) or _has(row, metric)]
                for mode in modes(shown):
                    rows_of_mode = tuple(row for row in shown if row["mode"] == mode)
                    found.append(Figure(*conditions, metric, mode, rows_of_mode, tuple(shown)))
    return found


def _has(row: dict, metric: str) -> bool:
    return passed(row) and row[METRICS[metric]] is not None


def _sweeps(rows: list[dict]) -> list[tuple[str | None, tuple, list[dict]]]:
    """(swept axis, the others with their values, rows), for rows with the same axes. The axis that varies most comes
    first; rows that it does not sweep are swept along the next one; what no axis sweeps comes last, without an axis.
    A row where two sweeps cross is in both."""
    found, left, axes = [], rows, sorted(rows[0]["axes"])
    while left and axes:
        axis = max(axes, key=lambda name: len({row["axes"][name] for row in left}))
        axes.remove(axis)
        lines = grouped(
            rows, lambda row, axis=axis: tuple(item for item in sorted(row["axes"].items()) if item[0] != axis)
        )
        pending = {id(row) for row in left}
        for held, members in sorted(lines.items()):
            if len({row["axes"][axis] for row in members}) > 1 and any(id(row) in pending for row in members):
                found.append((axis, held, sorted(members, key=lambda row: row["axes"][axis])))
                pending -= {id(row) for row in members}
        left = [row for row in left if id(row) in pending]
    if left:
        left.sort(key=lambda row: natural(row["case"]))
        common = set.intersection(*(set(row["axes"].items()) for row in left))
        found.append((None, tuple(sorted(common)), left))
    return found


def modes(rows: Iterable[dict]) -> list[str]:
    """The modes that the rows have, in their usual order."""
    found = {row["mode"] for row in rows}
    return [mode for mode in MODES if mode in found] + sorted(found - set(MODES))


def grouped(rows: Iterable[dict], key: Callable[[dict], object]) -> dict[object, list[dict]]:
    """The rows by what `key` says of them, in their order."""
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups
