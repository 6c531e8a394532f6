"""Comparing: what changed is told from noise, nothing is compared that cannot be, every run is accounted for."""

import hashlib
import json
import math
import random
import zlib
from xml.etree import ElementTree

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcat import catalog, cli, compare, files, identity, kernels, manifests
from kernelcat.errors import KernelcatError
from kernelcat.query import Filters

KERNEL = kernels.load_all()["rms_norm"]
DEVICE = "NVIDIA H200"


def manifest(kind: str, name: str, spec: dict) -> dict:
    return {"apiVersion": "kernelindex.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def environment(product: str = DEVICE, **software) -> dict:
    hardware = {"vendor": "nvidia", "product": product, "architecture": "sm_90", "count": 1}
    return manifest("ExecutionEnvironment", "test", {"hardware": hardware, "software": software})


def protocol(family: str) -> dict:
    return manifest("BenchmarkProtocol", f"kernelcat-{family}", {"comparability": {"family": family}})


def workload(rows: int) -> dict:
    return manifest("WorkloadCase", f"rows{rows}", {"axes": {"rows": rows}})


def implementation(name: str) -> dict:
    return manifest("ImplementationRevision", name, {"callable": {"symbol": name}})


class Catalogs:
    """Makes catalogs in folders, with raw samples beside them."""

    def __init__(self, folder):
        self.folder = folder

    def make(self, name: str, *runs: dict) -> str:
        found = []
        for values in runs:
            found += self.run(self.folder / name, **values)
        path = self.folder / name / "catalog.json"
        catalog.write(path, catalog.build(found))
        return str(path)

    def run(
        self,
        folder,
        samples=None,
        *,
        provider="liger",
        mode="forward",
        rows=1024,
        code="1",
        on=None,
        by="events",
        status="passed",
        reason="",
        quality="good",
        beside=True,
        memory=None,
        at=1,
    ) -> list[dict]:
        cited = {
            "workload": workload(rows),
            "implementation": implementation(f"{provider}-{code}"),
            "protocol": protocol(by),
            "environment": on or environment(),
        }
        spec = {}
        if samples is not None:
            data = identity.canonical_json({"unit": "ms", "samples": list(samples)})
            digest = hashlib.sha256(data).hexdigest()
            uri = f"documents/samples/{digest}.json"
            if beside:
                files.write(folder / uri, data)
            median = identity.nanoseconds(float(numpy.median(samples)))
            spec = {
                "timing": {
                    "primaryStatistic": "median",
                    "latencyNs": {"median": median},
                    "samples": len(samples),
                    "rawSamples": {"uri": uri, "digest": f"sha256:{digest}"},
                }
            }
        if memory is not None:
            measurement = {"metric": "peak_memory_allocated", "statistic": "maximum", "unit": "bytes", "value": memory}
            spec["measurements"] = [measurement]
        event = manifests.Event("rms_norm", mode, provider, DEVICE, f"rows{rows}-bf16", str(at))
        made = manifests.run(
            event,
            KERNEL,
            prefix="test",
            source="kernelcat",
            cited={kind: identity.digest(manifest) for kind, manifest in cited.items()},
            observed_at=f"2026-01-{at:02}T00:00:00.000Z",
            status=status,
            spec=spec,
            description=reason,
            labels={"quality": quality},
        )
        return [made, *cited.values()]


@pytest.mark.parametrize("samples", [[0.0, 0.002], [-1.0, 1.5], [1e300, 1e-3, 1e-3], ["1"], [[]], [], {}])
def test_samples_that_are_no_times_decide_nothing(catalogs, samples):
    """Zeros would make infinite ratios, which no JSON holds; who made the file made its digest, too."""
    paths = [catalogs.make(name, {"samples": [1.0, 1.1]}) for name in ("old", "new")]
    for path in paths:
        found = catalog.read(path)
        [run] = [value for value in found["objects"].values() if value["kind"] == "BenchmarkRun"]
        data = json.dumps({"samples": samples}).encode()
        uri = "documents/samples/x.json"
        files.write(catalogs.folder / path.split("/")[-2] / uri, data)
        run["spec"]["observedAt"] = f"2026-01-0{1 + paths.index(path)}T00:00:00.000Z"
        run["spec"]["timing"] = {
            "latencyNs": {"median": 1000},
            "samples": len(samples),
            "rawSamples": {"uri": uri, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}"},
        }
        catalog.write(path, catalog.build(found["objects"].values()))
    [pair] = compared(*paths).pairs
    assert (pair.verdict, pair.reason) == ("undecided", "neither samples nor a confidence interval at hand")


def test_a_lone_surrogate_can_be_written(catalogs, tmp_path):
    path = catalogs.make("old", {"status": "timeout"})
    text = files.Path(path).read_text().replace("/liger/", "/\\ud800/")
    files.Path(path).write_text(text)
    for format in compare.FORMATS:
        assert cli.main(["compare", path, path, "--format", format, "--out", str(tmp_path / format)]) == 0
    assert json.loads((tmp_path / "json").read_text())["pairs"][0]["provider"] == "\ud800"


@pytest.fixture
def catalogs(tmp_path):
    return Catalogs(tmp_path)


def noise(median: float, seed: int, spread: float = 0.01, count: int = 200) -> list[float]:
    generator = random.Random(seed)
    return [median * math.exp(generator.gauss(0, spread)) for _ in range(count)]


def compared(old: str, new: str, **how) -> compare.Comparison:
    folders = [path.removesuffix("/catalog.json") for path in (old, new)]
    return compare.compare(catalog.read(old), catalog.read(new), folders, **how)


def verdict(catalogs, old: dict, new: dict, **how) -> compare.Pair:
    """Of two runs, of other code in the second catalog unless they say more."""
    new = {"code": "2"} | new if "on" not in new else new
    [pair] = compared(catalogs.make("old", old), catalogs.make("new", new), **how).pairs
    return pair


# ---- verdicts


@pytest.mark.parametrize(
    ("factor", "expected"), [(1, "same"), (1.01, "same"), (1.1, "slower"), (1 / 1.1, "faster"), (2, "slower")]
)
def test_a_change_is_told_from_its_samples(catalogs, factor, expected):
    pair = verdict(catalogs, {"samples": noise(0.1, 1)}, {"samples": noise(0.1 * factor, 2)})
    assert pair.verdict == expected
    assert pair.low < pair.ratio < pair.high
    assert pair.low < factor * 1.01 and pair.high > factor * 0.99


def test_what_the_samples_do_not_decide_is_undecided(catalogs):
    pair = verdict(catalogs, {"samples": noise(0.1, 1, 0.3, 30)}, {"samples": noise(0.108, 2, 0.3, 30)})
    assert pair.verdict == "undecided"
    assert pair.reason == "the interval holds 1"


def test_a_change_below_the_minimum_effect_does_not_count(catalogs):
    runs = {"samples": noise(0.1, 1, 0.001)}, {"samples": noise(0.102, 2, 0.001)}
    assert verdict(catalogs, *runs).verdict == "same"
    assert verdict(catalogs, *runs, minimum_effect=0.01).verdict == "slower"


@pytest.mark.parametrize("mark", sorted(compare.NOISY))
def test_marked_runs_decide_nothing(catalogs, mark):
    pair = verdict(catalogs, {"samples": noise(0.1, 1)}, {"samples": noise(0.3, 2), "quality": f"unstable {mark}"})
    assert (pair.verdict, pair.reason) == ("undecided", f"new {mark}")


@pytest.mark.parametrize(
    ("old", "new", "expected", "reason"),
    [
        ("passed", "timeout", "newly_failing", "timeout: why"),
        ("timeout", "passed", "newly_passing", "timeout: why"),
        ("timeout", "timeout", "failing", "timeout: why"),
        ("timeout", "compile_error", "failing", "timeout, now compile_error: why"),
    ],
)
def test_statuses(catalogs, old, new, expected, reason):
    runs = [
        {"samples": noise(0.1, 1)} if status == "passed" else {"status": status, "reason": "why"}
        for status in (old, new)
    ]
    pair = verdict(catalogs, *runs)
    assert (pair.verdict, pair.reason) == (expected, reason)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [(100, 102, ""), (100, 125, "peak memory 1.250 times the old"), (100, 50, "peak memory 0.500 times the old")],
)
def test_a_change_of_peak_memory_is_said(catalogs, before, after, reason):
    runs = [{"samples": noise(0.1, seed), "memory": memory} for seed, memory in ((1, before), (2, after))]
    pair = verdict(catalogs, *runs)
    assert (pair.verdict, pair.reason) == ("same", reason)


def test_without_samples_the_stated_intervals_decide_or_nothing_does(catalogs):
    old, new = {"samples": noise(0.1, 1), "beside": False}, {"samples": noise(0.2, 2)}
    assert verdict(catalogs, old, new).reason == "neither samples nor a confidence interval at hand"


def test_samples_of_another_digest_are_not_used(catalogs):
    path = catalogs.make("old", {"samples": noise(0.1, 1)})
    [file] = (catalogs.folder / "old/documents/samples").iterdir()
    file.write_text('{"unit":"ms","samples":[9,9,9]}')
    [pair] = compared(path, catalogs.make("new", {"samples": noise(0.1, 2)})).pairs
    assert pair.verdict == "undecided"


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0.5, 2), min_size=5, max_size=60), st.lists(st.floats(0.5, 2), min_size=5, max_size=60))
def test_the_interval_is_that_of_the_resampling_bootstrap(old, new):
    """Against the definition: medians of samples drawn with replacement, whose middle is drawn at random if even."""
    generator = numpy.random.default_rng(0)

    def medians(values):
        drawn = numpy.sort(generator.choice(values, (4000, len(values))), axis=1)
        middle = (len(values) - generator.integers(0, 2, 4000) * (len(values) % 2 == 0)) // 2
        return drawn[numpy.arange(4000), middle]

    ratios = numpy.sort(medians(new) / medians(old))
    low, high = compare.ratio_interval(old, new, seed=1)
    slack = 0.012  # of the ranks: what 4000 draws leave open, three standard deviations at 0.5 %
    inside = [
        numpy.searchsorted(ratios, (low * (1 - 1e-9), high * (1 + 1e-9))[i], ("left", "right")[i]) for i in (0, 1)
    ]
    assert inside[0] / 4000 <= 0.005 + slack
    assert inside[1] / 4000 >= 0.995 - slack


def test_an_interval_covers_the_true_ratio_as_often_as_it_says():
    hits = 0
    for seed in range(300):
        low, high = compare.ratio_interval(noise(1, 2 * seed, 0.1, 50), noise(1.2, 2 * seed + 1, 0.1, 50), seed)
        hits += low <= 1.2 <= high
    assert hits >= 0.97 * 300


# ---- the noise floor


def many(catalogs, name: str, factors: list[float], changed: int = 0, quality: str = "good") -> str:
    """Runs of a case each; the first `changed` ran other code in the catalog "new"."""
    runs = [
        {
            "samples": noise(0.1 * factor, zlib.crc32(f"{name} {rows}".encode()), 0.002),
            "rows": rows,
            "code": "2" if name == "new" and rows <= changed else "1",
            "quality": quality,
        }
        for rows, factor in enumerate(factors, 1)
    ]
    return catalogs.make(name, *runs)


def test_the_same_code_is_never_faster_or_slower_and_states_the_noise(catalogs):
    generator = random.Random(3)
    factors = [math.exp(generator.gauss(0, 0.05)) for _ in range(100)]
    found = compared(many(catalogs, "old", [1] * 100), many(catalogs, "new", factors))
    [floor] = found.floors
    assert floor.pairs == 100
    assert 1.1 < floor.ratio < 1.2  # 2.6 standard deviations of 5 %
    assert found.counts.keys() == {"undecided", "same"}
    assert "noise: the same code in the same environment" in {pair.reason for pair in found.pairs}
    assert "of 100 pairs of the same code 99% differ by less" in compare.text(found)


def test_a_change_that_is_lost_in_the_noise_is_undecided(catalogs):
    factors = [1.1] * 5 + [1.2, 1 / 1.2] * 10
    found = compared(many(catalogs, "old", [1] * 25), many(catalogs, "new", factors, changed=5))
    assert found.counts == {"undecided": 25}
    assert [pair.reason for pair in found.pairs if abs(pair.ratio - 1.1) < 0.01] == ["below the noise floor"] * 5


def test_what_is_looked_at_changes_no_verdict(catalogs):
    factors = [1.1] * 5 + [1.2, 1 / 1.2] * 10
    paths = many(catalogs, "old", [1] * 25), many(catalogs, "new", factors, changed=5)
    whole, part = compared(*paths), compared(*paths, filters=Filters(workload="rows3"))
    assert part.pairs == [pair for pair in whole.pairs if "rows3" in pair.case]
    assert [pair.reason for pair in part.pairs] == ["below the noise floor"]
    assert part.floors == whole.floors


def test_what_changed_stands_out_from_what_did_not(catalogs):
    factors = [1.1] * 5 + [1.001] * 40
    found = compared(many(catalogs, "old", [1] * 45), many(catalogs, "new", factors, changed=5))
    assert found.counts == {"slower": 5, "same": 40}
    assert not any("warning" in line for line in compare.summary_lines(found))


def test_a_slower_machine_is_no_slower_code(catalogs):
    found = compared(many(catalogs, "old", [1] * 25), many(catalogs, "new", [1.1] * 25, changed=5))
    assert found.counts == {"undecided": 25}
    assert "warning: under events the same code takes 1.1" in compare.text(found)


def test_runs_throttled_on_both_sides_are_held_against_their_own_noise(catalogs):
    """A product of large matrices always runs at the power limit: a verdict on it is wanted, and takes controls that
    say how far the limit itself moves it."""

    def found(factors: list[float], changed: int, old="throttled", new="throttled") -> compare.Comparison:
        before = many(catalogs, "old", [1] * len(factors), quality=old)
        return compared(before, many(catalogs, "new", factors, changed, new))

    known = found([1.1] * 5 + [1.02] * 10, 5)
    assert known.counts == {"slower": 5, "same": 10}
    assert [(floor.throttled, floor.pairs) for floor in known.floors] == [(True, 10)]
    assert "noise floor of events, throttled: 2" in compare.text(known)
    assert "under events, throttled the same code takes 1.02" in compare.text(known)
    unknown = found([1.1] * 5 + [1.02] * 9, 5)
    assert unknown.counts == {"undecided": 5, "same": 9}
    assert {pair.reason for pair in unknown.pairs} == {
        "both throttled, and fewer than 10 such pairs of the same code say what that changes",
        "",
    }
    one = found([1.1] * 5 + [1.02] * 10, 5, old="good")
    assert one.counts == {"undecided": 15}
    assert {pair.reason for pair in one.pairs} == {"new throttled"}
    assert found([1.1] * 5 + [1.02] * 10, 5, new="throttled drift").counts == {"undecided": 15}


def test_other_code_makes_no_noise_floor(catalogs):
    found = compared(many(catalogs, "old", [1] * 20), many(catalogs, "new", [1.1] * 20, changed=20))
    assert found.counts == {"slower": 20}
    assert found.floors == []
    assert "no noise floor: fewer than 10 pairs" in compare.text(found)


def test_the_same_code_with_another_library_is_no_control(catalogs):
    old = {"samples": noise(0.1, 1), "on": environment(libraries={"triton": "3.6"})}
    new = {"samples": noise(0.2, 1), "on": environment(libraries={"triton": "3.7"})}
    assert verdict(catalogs, old, new).verdict == "slower"
    assert verdict(catalogs, old, old | {"samples": noise(0.2, 1)}).verdict == "undecided"


# ---- pairs


def test_every_run_is_in_a_pair(catalogs):
    """New, gone, the newest of several, and the older ones in a warning."""
    quick = noise(0.1, 1)
    old = catalogs.make("old", {"samples": quick}, {"samples": quick, "rows": 1}, {"samples": noise(9, 1), "at": 2})
    new = catalogs.make("new", {"samples": noise(9, 2)}, {"samples": quick, "rows": 2})
    found = compared(old, new)
    assert [(pair.verdict, pair.case) for pair in found.pairs] == [
        ("new", "rows2-bf16"),
        ("gone", "rows1-bf16"),
        ("same", "rows1024-bf16"),
    ]
    assert found.warnings == ["older runs of one configuration left out: 1 of the old catalog"]


def test_what_was_not_measured_again_is_unchanged_and_no_sign_of_quiet(catalogs):
    path = many(catalogs, "old", [1] * 20)
    found = compared(path, path)
    assert (found.counts, found.floors) == ({"unchanged": 20}, [])


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"on": environment("NVIDIA A100")}, "other hardware: NVIDIA H200 against NVIDIA A100"),
        ({"by": "graph"}, "another protocol: kernelcat-events against kernelcat-graph"),
    ],
)
def test_other_hardware_and_other_protocols_are_refused(catalogs, other, reason):
    old = {"samples": noise(0.1, 1)}
    with pytest.raises(KernelcatError, match=f"in both catalogs, found {reason}"):
        verdict(catalogs, old, old | other)
    paths = catalogs.make("old", old, old | {"rows": 1}), catalogs.make("new", old | other, old | {"rows": 1})
    assert [(pair.verdict, pair.reason) for pair in compared(*paths).pairs] == [
        ("not_compared", reason),
        ("not_compared", reason),
        ("unchanged", ""),
    ]


def test_nothing_in_common_is_refused(catalogs):
    with pytest.raises(KernelcatError, match="found none"):
        verdict(catalogs, {"samples": noise(1, 1), "rows": 1}, {"samples": noise(1, 1), "rows": 2})


def test_other_software_is_a_warning(catalogs):
    pair = (
        {"samples": noise(0.1, 1), "on": environment(driver="580.1")},
        {
            "samples": noise(0.1, 2),
            "on": environment(driver="590.2", libraries={"triton": "3.7"}),
        },
    )
    paths = [catalogs.make(name, run) for name, run in zip(("old", "new"), pair, strict=True)]
    assert compared(*paths).warnings == [
        "driver differs: 580.1 against 590.2 (1 pair)",
        "libraries.triton differs: unknown against 3.7 (1 pair)",
    ]


def test_a_filter_that_one_side_fits_chooses_the_pair(catalogs):
    """A regression does not become a run that is gone."""
    old = {"samples": noise(0.1, 1)}, {"samples": noise(0.1, 1), "rows": 1}
    new = {"status": "timeout", "reason": "why"}, {"samples": noise(0.1, 2), "rows": 1}
    paths = catalogs.make("old", *old), catalogs.make("new", *new)
    for status in ("passed", "timeout"):
        found = compared(*paths, filters=Filters(status=status))
        assert [pair.verdict for pair in found.pairs][0] == "newly_failing"
    with pytest.raises(KernelcatError, match="the filters let through, found none in either catalog"):
        compared(*paths, filters=Filters(kernel="nonsense"))


def test_filters_choose_what_is_compared(catalogs):
    runs = [{"samples": noise(0.1, 1)}, {"samples": noise(0.1, 1), "mode": "full"}]
    paths = [catalogs.make(name, *runs) for name in ("old", "new")]
    assert [pair.mode for pair in compared(*paths, filters=Filters(mode="full")).pairs] == ["full"]


# ---- what is written


@pytest.fixture
def regression(catalogs):
    nasty = "out of <memory> | ]]> \x1b[31m"
    old = [{"samples": noise(0.1, 1)}, {"samples": noise(0.1, 1), "rows": 1}, {"samples": noise(0.1, 1), "rows": 2}]
    new = [
        {"samples": noise(0.2, 1), "code": "2"},
        {"status": "resource_exceeded", "reason": nasty, "rows": 1},
        old[2] | {"at": 2},
    ]
    return catalogs.make("old", *old), catalogs.make("new", *new)


def test_exit_codes(regression, capsys, tmp_path):
    old, new = regression
    assert cli.main(["compare", old, new]) == 1
    assert cli.main(["compare", old, old]) == 0
    assert cli.main(["compare", old, new, "--workload", "rows2"]) == 0
    out = tmp_path / "comparison.md"
    assert cli.main(["compare", old, new, "--format", "markdown", "--out", str(out)]) == 1
    assert capsys.readouterr().out.endswith("3 configurations: 1 slower, 1 newly failing, 1 same\n")
    assert cli.main(["compare", old, "missing.json"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    for wrong in (["--minimum-effect", "-1"], ["--minimum-effect", "nan"], ["--format", "pdf"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(["compare", old, new, *wrong])
        assert caught.value.code == 2


def test_a_pull_request_sees_what_changed(regression):
    text = compare.markdown(compared(*regression))
    assert text.startswith("### kernelcat: Regression\n\n3 configurations: 1 slower, 1 newly failing, 1 same\n")
    [header, _, slower, failing] = [line for line in text.splitlines() if line.startswith("|")]
    columns = header.count("|")
    assert all(line.replace("\\|", "").count("|") == columns for line in (slower, failing))
    assert "| slower " in slower and " 2.0" in slower
    assert "<memory>" not in text and "\x1b" not in text


def test_ci_sees_failures(regression):
    suite = ElementTree.fromstring(compare.junit(compared(*regression)))
    assert suite.attrib == {"name": "kernelcat compare", "tests": "3", "failures": "2", "skipped": "0", "errors": "0"}
    assert [[child.tag for child in case] for case in suite] == [["failure"], ["failure"], []]


def test_programs_see_everything(regression):
    found = json.loads(compare.as_json(compared(*regression)))
    assert [pair["verdict"] for pair in found["pairs"]] == ["slower", "newly_failing", "same"]
    assert found["regressed"] is True
    assert found["counts"] == {"slower": 1, "newly_failing": 1, "same": 1}


@pytest.mark.parametrize("format", compare.FORMATS)
def test_the_same_catalogs_give_the_same_bytes(regression, format):
    texts = {compare.FORMATS[format](compared(*regression)) for _ in range(2)}
    assert len(texts) == 1
