"""Two catalogs: which runs became slower or faster, appeared, went, failed.

Runs are paired when they measured one workload with one provider and mode under one protocol on equal hardware. The
verdict on a pair comes from its samples: the interval of the ratio of medians, by the bootstrap, and the least change
that counts, which is the larger of what the user says and of the noise floor. The noise floor is what runs of the same
code in the same environment differ by from one measurement to the next, which no interval within one process shows.
Such pairs are the control group: whatever they differ by is noise, and is never called faster or slower.
"""

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelcat import evidence, query, samples
from kernelcat.errors import KernelcatError
from kernelcat.fault import printable
from kernelcat.index import at, leaves, text_at
from kernelcat.show import duration, ratio

MINIMUM_EFFECT = 0.03
"""How much of the old median a change must be to count, unless the user says otherwise."""

CONFIDENCE, DRAWS = 0.99, 4000
"""Of the interval, and how many bootstrap samples it is made from."""

NOISY = frozenset(
    ("degenerate", "drift", "host_bound", "unsettled", "throttled", "shared", "inconsistent", "above_limit")
)
"""Marks of runs about which nothing is decided: the number is another machine's or moment's tomorrow. Only runs that
are `throttled` on both sides, as those of large matrix products always are, are held against their own noise floor."""

FLOOR_PAIRS, FLOOR_QUANTILE = 10, 0.99
"""From how many pairs of the same code a noise floor is taken, and how many of them differ by less. Of 154 pairs
without marks that H200s measured eagerly, hours apart, half differed by less than 0.1 % and none by more than 1.1 %."""

VERDICTS = (
    *("slower", "newly_failing", "faster", "newly_passing", "undecided", "not_compared"),
    *("new", "gone", "failing", "untimed", "same", "unchanged"),
)
REGRESSIONS = ("slower", "newly_failing")


SHIFT = 0.01
"""From which change of the same code as a whole there is a warning: clocks, power or the machine are not the same."""


@dataclass(frozen=True)
class Pair:
    """One configuration in both catalogs, or in one of them. `ratio` is the new median over the old one, `low` and
    `high` the ends of its interval; None where there is none. Medians in ns."""

    verdict: str
    kernel: str
    mode: str
    provider: str
    case: str
    device: str
    protocol: str
    old: str | None = None
    new: str | None = None
    old_median_ns: int | None = None
    new_median_ns: int | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Floor:
    """The noise floor of a family of protocols as a ratio above 1, from so many pairs of the same code, all throttled
    on both sides or none; the median of their ratios is `shift`."""

    family: str
    throttled: bool
    pairs: int
    ratio: float
    shift: float


@dataclass(frozen=True)
class Comparison:
    pairs: list[Pair]
    floors: list[Floor]
    warnings: list[str]
    minimum_effect: float

    @property
    def counts(self) -> dict[str, int]:
        """How many pairs have which verdict, in the order of VERDICTS, without zeros."""
        counted = Counter(pair.verdict for pair in self.pairs)
        return {verdict: counted[verdict] for verdict in VERDICTS if counted[verdict]}

    @property
    def regressed(self) -> bool:
        return any(pair.verdict in REGRESSIONS for pair in self.pairs)


def compare(
    old: dict,
    new: dict,
    folders: tuple[str | Path, str | Path],
    minimum_effect: float = MINIMUM_EFFECT,
    filters: query.Filters | None = None,
) -> Comparison:
    """Compares two catalogs, each with its folder: raw samples lie there, or are not at hand. Every run is in a pair;
    of several runs of one configuration the newest is, the others are in a warning. The filters choose pairs of which
    one side fits, and change no verdict: the noise is that of all.

    Raises KernelcatError when there is nothing to compare: other hardware, other protocols, other workloads.
    """
    sides = [_Side(catalog, folder) for catalog, folder in zip((old, new), folders, strict=True)]
    before, after = (side.runs for side in sides)
    shared = {key: (before[key], after[key]) for key in sorted(before.keys() & after.keys())}
    fits = filters or query.Filters()
    keys = {key for side in sides for key, row in side.runs.items() if fits(row)}
    if not keys:
        raise KernelcatError("expected runs that the filters let through, found none in either catalog")
    pairs = [_alone(sides, key) for key in keys - shared.keys()]
    couples = [couple for key, couple in shared.items() if key in keys]
    if not couples and (not shared or all(pair.verdict == "not_compared" for pair in pairs)):
        raise KernelcatError(_nothing_shared(pairs))
    # A run that was not measured again is in both: it says nothing about what changed, nor about noise.
    pairs += [_pair("unchanged", old, new) for old, new in couples if old["run"] == new["run"]]
    couples = [(old, new) for old, new in couples if old["run"] != new["run"]]
    floors = _floors(sides, shared.values())
    pairs += [_judged(sides, *couple, minimum_effect, floors) for couple in couples]
    order = VERDICTS.index
    pairs.sort(key=lambda pair: (order(pair.verdict), -abs(math.log(pair.ratio or 1)), *_place(pair), pair.old or ""))
    warnings = _warnings(sides, couples, keys)
    return Comparison(pairs, [floors[place] for place in sorted(floors)], warnings, minimum_effect)


class _Side:
    """One of the catalogs: its newest run of each configuration."""

    def __init__(self, catalog: dict, folder: str | Path):
        self.objects, self.folder = catalog["objects"], folder
        self.runs: dict[tuple, dict] = {}
        self.older: Counter[tuple] = Counter()
        for row in query.rows(catalog):
            key = self._key(row)
            known = self.runs.get(key)
            self.older[key] += known is not None
            if known is None or self._rank(row) > self._rank(known):
                self.runs[key] = row

    def _key(self, row: dict) -> tuple:
        # imported CSVs have the memory of a configuration in a run of its own
        untimed = row["status"] == "passed" and row["median_ns"] is None
        hardware = json.dumps(self.environment(row).get("hardware"), sort_keys=True)
        what = (row["kernel"], row["workload"] or row["case"], row["provider"], row["mode"], untimed)
        return (*what, hardware, row["protocol_digest"] or "")

    @staticmethod
    def _rank(row: dict) -> tuple:
        # without its Z an instant with fractions sorts after the same second without
        return (row["observed_at"] or "").rstrip("Z"), row["run"]

    def environment(self, row: dict) -> dict:
        return at(self.objects.get(row["environment"]), "spec") or {}

    def family(self, row: dict) -> str:
        """What protocols of one way of timing have in common, whatever the mode."""
        protocol = self.objects.get(row["protocol_digest"])
        return text_at(protocol, "spec", "comparability", "family", default=row["protocol"])

    def interval(self, row: dict) -> tuple[float, float] | None:
        """The 95 % confidence interval of the median that the document states, for where samples are not at hand."""
        ends = row["confidence95_low_ns"], row["confidence95_high_ns"]
        return ends if all(ends) else None

    def samples(self, row: dict) -> list[float] | None:
        return evidence.raw_samples(self.objects[row["run"]], self.folder)


def _place(pair: Pair) -> tuple:
    return pair.kernel, pair.mode, pair.provider, pair.case, pair.device, pair.protocol


def _pair(verdict: str, old: dict | None, new: dict | None, **values) -> Pair:
    row = new or old
    places = {name: row[name] for name in ("kernel", "mode", "provider", "case", "device", "protocol")}
    for name, side in (("old", old), ("new", new)):
        if side:
            values |= {name: side["run"], f"{name}_median_ns": side["median_ns"]}
    return Pair(verdict, **places, **values)


def _alone(sides: list[_Side], key: tuple) -> Pair:
    """What has no partner: new, gone, or measured otherwise on the other side."""
    is_new = key in sides[1].runs
    row = sides[is_new].runs[key]
    others = [other for other in sides[not is_new].runs if other[:5] == key[:5]]
    reason = ""
    if others and not any(other[5] == key[5] for other in others):
        reason = "other hardware: " + _against(row, sides[not is_new].runs[others[0]], "device", is_new)
    elif others:
        reason = "another protocol: " + _against(row, sides[not is_new].runs[others[0]], "protocol", is_new)
    verdict = "not_compared" if reason else ("new" if is_new else "gone")
    return _pair(verdict, None if is_new else row, row if is_new else None, reason=reason)


def _against(row: dict, other: dict, column: str, is_new: bool) -> str:
    old, new = (other, row) if is_new else (row, other)
    if old[column] == new[column]:
        column = {"device": "environment", "protocol": "protocol_digest"}[column]
    return f"{old[column]} against {new[column]}"


def _nothing_shared(pairs: list[Pair]) -> str:
    reasons = Counter(pair.reason for pair in pairs if pair.reason)
    expected = "expected runs of the same workload, provider, mode, protocol and hardware in both catalogs"
    if not reasons:
        return f"{expected}, found none"
    return f"{expected}, found {printable(max(sorted(reasons), key=reasons.__getitem__))}"


def _floors(sides: list[_Side], couples: Iterable[tuple[dict, dict]]) -> dict[tuple[str, bool], Floor]:
    """The noise floor of each family of protocols that has controls enough, throttled or not."""
    logs = defaultdict(list)
    for old, new in couples:
        again = old["run"] != new["run"]
        if again and _timed(old) and _timed(new) and _controls(sides, old, new) and not _noisy(old, new):
            place = sides[1].family(new), _throttled(old, new)
            logs[place].append(math.log(new["median_ns"] / old["median_ns"]))
    return {
        place: Floor(
            *place,
            len(values),
            math.exp(samples.quantile(sorted(map(abs, values)), FLOOR_QUANTILE)),
            math.exp(statistics.median(values)),
        )
        for place, values in logs.items()
        if len(values) >= FLOOR_PAIRS
    }


def _controls(sides: list[_Side], old: dict, new: dict) -> bool:
    """Whether both ran the same code with the same libraries and driver. What was imported says its version aside."""
    software = [side.environment(row).get("software") for side, row in zip(sides, (old, new), strict=True)]
    measured = old["source"] == new["source"] == "kernelcat"
    same = old["implementation"] == new["implementation"] and software[0] == software[1]
    return same and (measured or old["liger_version"] == new["liger_version"])


def _timed(row: dict) -> bool:
    return row["status"] == "passed" and bool(row["median_ns"])


def _marks(row: dict) -> frozenset[str]:
    return NOISY.intersection((row["quality"] or "").split())


def _throttled(old: dict, new: dict) -> bool:
    return "throttled" in _marks(old) & _marks(new)


def _noisy(old: dict, new: dict) -> str:
    """Which marks forbid a verdict, on which side; empty when none does."""
    allowed = {"throttled"} if _throttled(old, new) else set()
    marks = [(side, _marks(row) - allowed) for side, row in (("old", old), ("new", new))]
    return ", ".join(f"{side} {' '.join(sorted(found))}" for side, found in marks if found)


def _judged(sides: list[_Side], old: dict, new: dict, minimum_effect: float, floors: dict) -> Pair:
    passed = [row["status"] == "passed" for row in (old, new)]
    if not all(passed):
        verdict = {(True, False): "newly_failing", (False, True): "newly_passing"}.get(tuple(passed), "failing")
        before = f"{old['status']}, now " if verdict == "failing" and old["status"] != new["status"] else ""
        failed = old if passed[1] else new
        return _pair(verdict, old, new, reason=f"{before}{failed['status']}: {failed['reason']}".removesuffix(": "))
    memory = _memory_change(old, new, minimum_effect)
    if not _timed(old) or not _timed(new):
        return _pair("untimed", old, new, reason=memory)
    value = new["median_ns"] / old["median_ns"]
    interval = _interval(sides, old, new)
    if interval is None:
        return _pair("undecided", old, new, ratio=value, reason="neither samples nor a confidence interval at hand")
    low, high = interval
    floor = floors.get((sides[1].family(new), _throttled(old, new)))
    least = max(1 + minimum_effect, floor.ratio if floor else 1)
    verdict = "undecided"
    if noisy := _noisy(old, new):
        reason = noisy
    elif low > 1 / (1 + minimum_effect) and high < 1 + minimum_effect:
        verdict, reason = "same", ""
    elif not low > 1 and not high < 1:
        reason = "the interval holds 1"
    elif _throttled(old, new) and not floor:
        reason = f"both throttled, and fewer than {FLOOR_PAIRS} such pairs of the same code say what that changes"
    elif 1 / least < value < least:
        reason = (
            "below the noise floor" if least > 1 + minimum_effect else "too small to count, too uncertain to be none"
        )
    elif _controls(sides, old, new):
        reason = "noise: the same code in the same environment"
    else:
        verdict, reason = ("slower" if value > 1 else "faster"), ""
    reason = "; ".join(filter(None, [reason, memory]))
    return _pair(verdict, old, new, ratio=value, low=low, high=high, reason=reason)


def _memory_change(old: dict, new: dict, minimum_effect: float) -> str:
    """Peak memory is no matter of samples: it is said where it changed by the least change that counts."""
    before, after = old["peak_memory_bytes"], new["peak_memory_bytes"]
    if not before or not after or abs(after / before - 1) < max(minimum_effect, 1e-9):
        return ""
    return f"peak memory {after / before:.3f} times the old"


def _interval(sides: list[_Side], old: dict, new: dict) -> tuple[float, float] | None:
    """The interval of the ratio of medians: from the samples, or, wider, from the intervals that documents state."""
    found = [side.samples(row) for side, row in zip(sides, (old, new), strict=True)]
    if all(found) and min(map(min, found)) > 0:  # files from outside may hold times that are none
        return ratio_interval(*found, seed=int(old["run"][-8:], 16) ^ int(new["run"][-8:], 16))
    stated = [side.interval(row) for side, row in zip(sides, (old, new), strict=True)]
    if not all(stated):
        return None
    return stated[1][0] / stated[0][1], stated[1][1] / stated[0][0]


def ratio_interval(old: list[float], new: list[float], seed: int) -> tuple[float, float]:
    """The bootstrap's interval of median(new) / median(old) at CONFIDENCE, from samples in any one unit.

    Nothing is resampled: the median of n draws with replacement is the sample's quantile at the median of n uniform
    numbers, and that is Beta((n + 1) / 2, (n + 1) / 2) distributed (Maritz and Jarrett, JASA 73, 1978).
    """
    import numpy

    generator = numpy.random.default_rng(seed)
    medians = []
    for values in (old, new):
        half = (len(values) + 1) / 2
        positions = (generator.beta(half, half, DRAWS) * len(values)).astype(int)
        medians.append(numpy.sort(numpy.asarray(values, float))[positions])
    ends = numpy.quantile(medians[1] / medians[0], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(ends[0]), float(ends[1])


def _warnings(sides: list[_Side], couples: list[tuple[dict, dict]], keys: set[tuple]) -> list[str]:
    """In what the environments of pairs differ, and of which of the configurations older runs were left out."""
    differences = Counter()
    for old, new in couples:
        before, after = (_facts(side.environment(row), row) for side, row in zip(sides, (old, new), strict=True))
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                differences[name, str(before.get(name, "unknown")), str(after.get(name, "unknown"))] += 1
    lines = [
        printable(f"{name} differs: {old} against {new} ({count} pair{'' if count == 1 else 's'})")
        for (name, old, new), count in sorted(differences.items())
    ]
    for name, side in zip(("old", "new"), sides, strict=True):
        if older := sum(side.older[key] for key in keys):
            lines.append(f"older runs of one configuration left out: {older} of the {name} catalog")
    return lines


def _facts(environment: dict, row: dict) -> dict:
    """Software and settings of an environment by the names that their documents have, and the version of Liger."""
    parts = (environment.get(part) or {} for part in ("software", "settings"))
    facts = {name: value for part in parts for name, value in leaves(part) if name != "framework.name"}
    return {"libraries.liger_kernel": row["liger_version"]} | facts


# ---- for people and machines


def summary_lines(found: Comparison) -> list[str]:
    """What the verdicts are, how much noise there is, and what else differs between the catalogs."""
    counted = ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in found.counts.items())
    lines = [f"{len(found.pairs)} configuration{'' if len(found.pairs) == 1 else 's'}: {counted}"]
    lines.append(f"changes count from {found.minimum_effect:.1%}, or from the noise floor where that is higher")
    for floor in found.floors:
        name = printable(floor.family) + ", throttled" * floor.throttled
        lines.append(
            f"noise floor of {name}: {floor.ratio - 1:.1%}: of {floor.pairs} pairs of the same code "
            f"{FLOOR_QUANTILE:.0%} differ by less"
        )
        if abs(floor.shift - 1) > SHIFT:
            lines.append(f"warning: under {name} the same code takes {floor.shift:.3f} times as long as before")
    if not found.floors:
        lines.append(f"no noise floor: fewer than {FLOOR_PAIRS} pairs of the same code, measured again, without marks")
    return lines + [f"warning: {line}" for line in found.warnings]


HEADER = ("verdict", "kernel", "mode", "provider", "case", "device", "protocol", "old", "new", "ratio", "interval")


def table(pairs: Iterable[Pair], format: str = "simple") -> str:
    """Each pair in a line, in a table format of tabulate; nothing for no pairs."""
    from tabulate import tabulate

    written = _escaped if format == "github" else printable
    lines = [
        [pair.verdict.replace("_", " "), *(written(text) for text in _place(pair))]
        + [duration(pair.old_median_ns), duration(pair.new_median_ns)]
        + ["" if pair.ratio is None else f"{pair.ratio:.3f}", "" if pair.low is None else _ends(pair)]
        + [written(pair.reason.split("\n", 1)[0])]
        for pair in pairs
    ]
    align = ["left"] * 7 + ["right"] * 4 + ["left"]
    return tabulate(lines, [*HEADER, "why"], tablefmt=format, colalign=align, disable_numparse=True) if lines else ""


def _ends(pair: Pair) -> str:
    return f"{pair.low:.3f}–{pair.high:.3f}"


def text(found: Comparison) -> str:
    """For a terminal: what is not the same as before, and the summary."""
    changed = table(pair for pair in found.pairs if _changed(pair))
    return "\n".join(filter(None, [changed, *summary_lines(found)])) + "\n"


def _changed(pair: Pair) -> bool:
    return pair.verdict not in ("untimed", "same", "unchanged") or bool(pair.reason)


def markdown(found: Comparison) -> str:
    """For a pull request: the verdict first, what changed in a table, the rest folded away."""
    head, *rest = summary_lines(found)
    title = "Regression" if found.regressed else "No regression"
    lines = [f"### kernelcat: {title}", "", head, "", *(f"- {_escaped(line)}" for line in rest)]
    decided = [pair for pair in found.pairs if pair.verdict in VERDICTS[:4]]
    others = [pair for pair in found.pairs if pair.verdict in VERDICTS[4:] and _changed(pair)]
    if decided:
        lines += ["", table(decided, "github")]
    if others:
        summary = "<details><summary>Undecided, not compared, new, gone, failing as before, other memory</summary>"
        lines += ["", summary, "", table(others, "github"), "", "</details>"]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return printable(text).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")


def as_json(found: Comparison) -> str:
    """All of it for programs, pairs that are the same included."""
    value = {
        "counts": found.counts,
        "regressed": found.regressed,
        "minimumEffect": found.minimum_effect,
        "confidence": CONFIDENCE,
        "noiseFloors": [asdict(floor) for floor in found.floors],
        "warnings": found.warnings,
        "pairs": [asdict(pair) for pair in found.pairs],
    }
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def junit(found: Comparison) -> str:
    """JUnit XML: a test case per configuration; regressions are failures, what is not decided is skipped."""
    from xml.etree import ElementTree

    skipped = ("undecided", "not_compared", "failing", "untimed", "gone")
    failures = sum(pair.verdict in REGRESSIONS for pair in found.pairs)
    left = sum(pair.verdict in skipped for pair in found.pairs)
    counts = {"tests": str(len(found.pairs)), "failures": str(failures), "skipped": str(left), "errors": "0"}
    suite = ElementTree.Element("testsuite", {"name": "kernelcat compare", **counts})
    for pair in found.pairs:
        name = f"{pair.mode} {pair.provider} {pair.case} {pair.protocol} {pair.device}"
        case = ElementTree.SubElement(suite, "testcase", {"classname": printable(pair.kernel), "name": printable(name)})
        change = "" if pair.ratio is None else f"{ratio(pair.ratio)} the old time"
        message = printable(" ".join(filter(None, [pair.verdict.replace("_", " "), change, pair.reason])))
        if pair.verdict in REGRESSIONS:
            ElementTree.SubElement(case, "failure", {"message": message, "type": pair.verdict})
        elif pair.verdict in skipped:
            ElementTree.SubElement(case, "skipped", {"message": message})
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=False) + "\n"


FORMATS = {"table": text, "markdown": markdown, "json": as_json, "junit": junit}
