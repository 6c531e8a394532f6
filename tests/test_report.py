"""The report: every run is accounted for, no line joins what does not compare, text from outside does no harm."""

import copy
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import groupby
from xml.etree import ElementTree

import pytest
from conftest import ROOT, Workflow
from hypothesis import given
from hypothesis import strategies as st

from kernelcat import catalog, figures, importing, plots, query, report
from kernelcat.fault import printable
from kernelcat.identity import digest

SEED = ROOT / "tests/data/seed/rms_norm-backward-huggingface-a100.csv"
EVIL = '</script><script>alert("\u2028&amp;")</script><!--'


def found(*changes: dict) -> dict:
    """The seed's catalog with one more run for each of `changes`: {external id's part or other field: value}."""
    made = importing.import_csv(SEED).manifests
    seed = {manifest["kind"]: manifest for manifest in made}
    for place, change in enumerate(changes):
        hidden = change.get("hidden", 8192)
        workload, run, implementation = (
            copy.deepcopy(seed[kind]) for kind in ("WorkloadCase", "BenchmarkRun", "ImplementationRevision")
        )
        workload["spec"]["axes"]["hidden"] = hidden
        provider = change.get("provider", "liger")
        implementation["metadata"]["name"] = provider
        implementation["spec"]["callable"]["symbol"] = f"of_{place}"  # one digest each, so that names do not meet
        run["spec"] |= {"workloadDigest": digest(workload), "status": change.get("status", "passed")}
        run["spec"]["observedAt"] = f"2026-01-01T00:00:{place:02}.000Z"
        parts = "rms_norm", change.get("mode", "full"), provider, "gpu", f"hidden{hidden}-rows2048-bf16", str(place)
        run["spec"]["sourceNative"]["externalId"] = "/".join(parts)
        if "/" in provider:
            run["spec"]["implementationDigest"] = digest(implementation)
        if run["spec"]["status"] != "passed" or change.get("memory"):
            del run["spec"]["timing"]
        if "memory" in change:
            memory = {"metric": "peak_memory", "unit": "bytes", "statistic": "median", "value": change["memory"]}
            run["spec"]["measurements"] = [memory]
        run["metadata"]["description"] = change.get("reason", "")
        run["metadata"]["labels"] |= change.get("labels", {})
        made += [workload, run, implementation]
    return catalog.build(made)


EVERYTHING = found(
    *({"hidden": hidden, "provider": provider} for hidden in (1024, 2048, 4096) for provider in ("liger", "torch")),
    {"hidden": 1024, "provider": "torch", "status": "resource_exceeded", "reason": "out of memory"},
    {"hidden": 1024, "memory": 3 * 2**20},
    {"provider": EVIL, "reason": EVIL, "mode": "forward", "status": "runtime_error"},
    {"hidden": 2048, "labels": {"quality": "unstable drift", "attainable": "0.5"}},
)


class Page(HTMLParser):
    """What a browser makes of a page: its scripts, its text, and the runs that its tables name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts, self.runs, self.text, self.tags, self.script = [], [], "", set(), False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.script = tag == "script"
        if self.script:
            self.scripts.append("")
        self.runs += [int(value) for name, value in attributes if name == "data-run"]

    def handle_endtag(self, tag):
        self.script = self.script and tag != "script"

    def handle_data(self, data):
        if self.script:
            self.scripts[-1] += data
        else:
            self.text += data

    @property
    def data(self) -> dict:
        return json.loads(self.scripts[1])


def page(made: dict) -> Page:
    rows = report.prepared(made)
    return Page(report.render(made, rows, figures.figures(rows), plots.providers(rows)).decode())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of a report of `EVERYTHING`."""
    folder = tmp_path_factory.mktemp("report")
    catalog.write(folder / "catalog.json", EVERYTHING)
    report.write(folder / "catalog.json", folder / "report.html", folder / "plots")
    return folder


# ---- which runs make a figure, and which of them a line

AXES = [{"rows": 1}, {"rows": 2}, {"rows": 2, "hidden": 8}, {"rows": 2, "hidden": 16}, {"rows": 4, "hidden": 8}, {}]
ROW = st.fixed_dictionaries(
    {
        "kernel": st.sampled_from(["softmax", "jsd"]),
        "mode": st.sampled_from(["forward", "full", "unheard_of"]),
        "provider": st.sampled_from(["liger", "torch"]),
        "dtype": st.sampled_from(["bf16", "fp32"]),
        "axes": st.sampled_from(AXES),
        "scalars": st.sampled_from([{}, {"eps": 0.1}, {"eps": 0.2}]),
        "device": st.sampled_from(["H200", "A100"]),
        "family": st.sampled_from(["graph", "events"]),
        "status": st.sampled_from(["passed", "passed", "timeout"]),
        "median_ns": st.sampled_from([None, 1000, 10**7]),
        "peak_memory_bytes": st.sampled_from([None, 2**20]),
        "liger_version": st.sampled_from([None, "0.8.5"]),
        "environment": st.sampled_from(["sha256:1", "sha256:2"]),
        "implementation": st.sampled_from([None, "sha256:3"]),
        "protocol_digest": st.sampled_from(["sha256:4", "sha256:5"]),
        "observed_at": st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.500Z"]),
    }
)
COMPARABLE = (
    *("kernel", "mode", "provider", "dtype", "scalars", "device", "family", "liger_version", "torch_version"),
    *("triton_version", "environment", "implementation", "protocol_digest"),
)


def completed(rows: list[dict]) -> list[dict]:
    made = []
    for place, row in enumerate(rows):
        case = "-".join([*(f"{name}{value}" for name, value in sorted(row["axes"].items())), row["dtype"]])
        empty = dict.fromkeys(query.COLUMNS)
        made.append(empty | row | {"run": f"sha256:{place}", "case": case, "workload": case, "quality": ""})
    figures.name_series(made)
    return made


@given(st.lists(ROW, max_size=30).map(completed))
def test_each_run_that_has_a_number_or_failed_is_in_a_figure(rows):
    drawn = {row["run"] for figure in figures.figures(rows) for row in figure.rows}
    wanted = {
        row["run"]
        for row in rows
        if row["status"] != "passed" or row["median_ns"] is not None or row["peak_memory_bytes"] is not None
    }
    assert drawn == wanted


@given(st.lists(ROW, max_size=30).map(completed))
def test_a_line_joins_runs_that_differ_in_the_swept_axis_alone(rows):
    for figure in figures.figures(rows):
        marks = [layer["mark"]["type"] for layer in plots.spec(figure, plots.providers(rows))["layer"]]
        assert ("line" in marks) == (figure.axis is not None)
        if figure.axis is None:
            continue
        ordered = sorted(figure.rows, key=lambda row: (row["provider"], row["line"]))
        for _, group in groupby(ordered, key=lambda row: (row["provider"], row["line"])):
            line = list(group)
            others = [{name: value for name, value in row["axes"].items() if name != figure.axis} for row in line]
            assert all(other == others[0] for other in others)
            assert all([row[name] for name in COMPARABLE] == [line[0][name] for name in COMPARABLE] for row in line)
            x = [row["axes"][figure.axis] for row in line]
            assert len(x) == len(set(x))


def test_the_swept_axis_is_the_one_that_varies_most_and_crossing_sweeps_share_their_run():
    sizes = [(64, 256), (64, 512), (64, 1024), (128, 256), (32, 256)]
    same = {"kernel": "k", "mode": "full", "provider": "p", "dtype": "bf16", "scalars": {}, "device": "d"}
    same |= {"family": "f", "status": "passed", "median_ns": 1, "observed_at": ""}
    rows = completed([same | {"axes": {"rows": rows, "hidden": hidden}} for rows, hidden in sizes])
    drawn = [(figure.axis, figure.held, len(figure.rows)) for figure in figures.figures(rows)]
    assert drawn == [("hidden", (("rows", 64),), 3), ("rows", (("hidden", 256),), 3)]


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.lists(st.sampled_from("0123456789ABC"), min_size=1, max_size=7, unique=True)
    )
)
def test_providers_of_one_kernel_differ_in_colour(kernels):
    """As long as none of them meets more providers than there are colours."""
    rows = [{"kernel": kernel, "provider": name} for kernel, names in kernels.items() for name in names]
    places = plots.providers(rows)
    beside = {name: {other for names in kernels.values() if name in names for other in names} for name in places}
    assert beside.keys() == {row["provider"] for row in rows}
    for names in kernels.values():
        if all(len(beside[name]) <= len(plots._COLOURS) for name in names):
            assert len({places[name] % len(plots._COLOURS) for name in names}) == len(names)


def test_the_first_providers_have_colours_of_their_own_across_kernels():
    """A reader who learnt a colour in one figure meets it in the next."""
    rows = [{"kernel": str(number), "provider": str(number)} for number in range(7)]
    assert sorted(plots.providers(rows).values()) == list(range(7))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1024, 2048, 4096], True),
        ([1, 2, 9], True),
        ([1000, 2000, 3000], False),
        ([1, 8], False),
        ([100], False),
        ([0, 1, 100], False),
    ],
)
def test_a_geometric_sweep_has_a_logarithmic_axis(values, expected):
    assert plots.geometric(values) == expected


# ---- the page


def test_every_run_of_the_catalog_is_in_the_rows_and_in_a_table():
    made = page(EVERYTHING)
    runs = {key for key, manifest in EVERYTHING["objects"].items() if manifest["kind"] == "BenchmarkRun"}
    place = made.data["fields"].index("run")
    assert sorted(row[place] for row in made.data["rows"]) == sorted(runs)
    assert set(made.runs) == set(range(len(runs)))
    assert f"{len(runs)} runs" in made.text


def test_failures_are_listed_with_reasons_and_drawn():
    made = page(EVERYTHING)
    assert "✗ resource_exceeded" in made.text
    assert "out of memory" in made.text
    status = made.data["fields"].index("status")
    failed = {place for place, row in enumerate(made.data["rows"]) if row[status] != "passed"}
    assert len(failed) == 2
    assert failed <= {place for figure in made.data["figures"] for place in figure["rows"]}


def test_a_run_of_memory_alone_is_no_failure_and_in_the_memory_figure():
    [(row, drawn)] = [
        (row, [figure.metric for figure in figures.figures(rows) if row in figure.rows])
        for rows in [report.prepared(found({"memory": 2**20}))]
        for row in rows
        if row["median_ns"] is None
    ]
    assert (row["status"], row["memory"], drawn) == ("passed", "1.0 MiB", ["memory"])


def test_text_from_documents_does_no_harm():
    made = page(EVERYTHING)
    assert len(made.scripts) == 3
    assert made.tags.isdisjoint({"img", "iframe", "link"})
    assert printable(EVIL) in made.text
    assert printable(EVIL) in {row[made.data["fields"].index("provider")] for row in made.data["rows"]}
    assert not re.search("[<>&\u2028\u2029]", made.scripts[1])


def test_nothing_is_fetched_from_elsewhere():
    text = report.render(EVERYTHING, [], [], {}).decode()
    assert not re.search(r"<(?:link|img|iframe)\b|<script[^>]*\bsrc=|@import|url\(", text.partition("<script>")[0])


def test_marks_have_letters_and_meanings():
    text = page(EVERYTHING).text
    assert "the confidence interval of the median did not get as narrow as the configuration asks" in text
    assert "unstable" in text


@pytest.mark.parametrize("made", [catalog.build([]), found({"labels": {"quality": "unheard_of"}})])
def test_any_catalog_has_a_page(made):
    assert "kernelcat report" in page(made).text


def test_the_same_objects_give_the_same_bytes(written, tmp_path):
    objects = dict(reversed(EVERYTHING["objects"].items()))
    (tmp_path / "catalog.json").write_text(json.dumps({**EVERYTHING, "objects": objects}))
    report.write(tmp_path / "catalog.json", tmp_path / "report.html", tmp_path / "plots")
    for path in (written / "report.html", *(written / "plots").iterdir()):
        assert (tmp_path / path.relative_to(written)).read_bytes() == path.read_bytes()


# ---- the files


def test_svg_files_are_xml_and_say_their_units(written):
    texts = {}
    for path in (written / "plots").iterdir():
        assert not re.search("NaN|undefined|e\\+308", path.read_text())
        root = ElementTree.parse(path).getroot()
        texts[path.stem.rpartition("--")[2]] = " ".join(element.text or "" for element in root.iter())
    assert re.search(r"latency \((ms|µs)\)", texts["latency"])
    assert "peak memory (MiB)" in texts["memory"]
    assert "% of the device's limit" in texts["limit"]
    assert "hidden" in texts["latency"]


def test_old_figures_go(written, tmp_path):
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots/old.svg").touch()
    report.write(written / "catalog.json", tmp_path / "report.html", tmp_path / "plots")
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {p.name for p in (written / "plots").iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == {"plots", "report.html"}


def test_file_names_are_safe_and_differ():
    base = {"mode": "full", "provider": "p", "dtype": "bf16", "axes": {"x": 1}, "scalars": {}, "device": "d"}
    base |= {"family": "f", "status": "passed", "median_ns": 1, "observed_at": ""}
    kernels = ["a_b", "a-b", "A b", "../../etc", "/", "x" * 500, "x" * 499]
    drawn = figures.figures(completed([base | {"kernel": kernel} for kernel in kernels]))
    names = report.file_names(drawn)
    assert len(names) == len(kernels)
    assert all(re.fullmatch(r"[a-z0-9-]+\.svg", name) and len(name) < 250 for name in names)
    assert all(name.count("--") == 4 for name in names)


def test_what_axes_are_called_is_no_program():
    name = 'x"] + fetch("//example.org") + ["'
    base = {"kernel": "k", "mode": "full", "provider": "p", "dtype": "bf16", "scalars": {}, "device": "d"}
    base |= {"family": "f", "status": "passed", "median_ns": 1, "observed_at": ""}
    rows = completed([base | {"axes": {name: value}} for value in (1, 2)])
    text = plots.svg(figures.figures([dict.fromkeys(plots.FIELDS) | row for row in rows]), {"p": 0})
    titles = [element.text for element in ElementTree.fromstring(text).iter() if element.text]
    assert name in titles
    assert {"1", "2"} <= set(titles)


def test_a_catalog_that_cannot_be_read_is_one_line_and_leaves_the_report(written, tmp_path):
    before = (written / "report.html").read_bytes()
    (tmp_path / "bad.json").write_text("[]")
    command = [sys.executable, ROOT / "scripts/report.py", "--catalog", tmp_path / "bad.json"]
    command += ["--html", written / "report.html", "--plots", written / "plots"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("kernelcat: ") and result.stderr.count("\n") == 1
    assert (written / "report.html").read_bytes() == before


# ---- the rule


def test_the_rule_makes_page_and_figures_that_snakemake_reports(fresh: Workflow):
    (fresh.folder / "config/suites/tiny.yaml").write_text(
        "softmax: {providers: [torch], modes: [forward], dtypes: [fp32], axes: {rows: 2, hidden: [8, 16]}}\n"
    )
    fresh.edit("config/config.yaml", "suite: smoke", "suite: tiny")
    fresh.edit("config/config.yaml", "device: auto", "device: cpu")
    result = fresh.run("results/report.html")
    assert result.returncode == 0, result.stdout
    made = Page((fresh.folder / "results/report.html").read_text())
    assert len(made.data["rows"]) == 2
    [picture] = (fresh.folder / "results/plots").glob("*.svg")
    assert picture.name.startswith("softmax--") and picture.name.endswith("--latency.svg")
    assert "Nothing to be done" in fresh.run("results/report.html").stdout
    result = fresh.run("results/report.html", "--report", "whole.html")
    assert result.returncode == 0, result.stdout
    whole = (fresh.folder / "whole.html").read_text()
    assert picture.name in whole
    for said in ('{"Figures": {"softmax": [', '"metric": "latency"', "Hollow points carry a mark"):
        assert said in whole
