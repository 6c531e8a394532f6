"""The catalog: a function of the set of manifests, merged without loss; each damage is named, each failure is told."""

import copy
import functools
import json
import operator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcat import catalog, compare, identity, importing, kernels, manifests, published, query, why
from kernelcat.catalog import build, merge, read, render, verify, write
from kernelcat.errors import KernelcatError
from kernelcat.show import summary_lines, table

SEED = Path(__file__).parent / "data" / "seed" / "rms_norm-backward-huggingface-a100.json"
IMPORTED = importing.import_csv(SEED.with_suffix(".csv")).manifests
KERNEL = kernels.load_all()["rms_norm"]
H100 = published.host("NVIDIA H100")
LAYER_NORM = manifests.operation(kernels.load_all()["layer_norm"])
LAYER_NORM_BY_TORCH = published.implementation("layer_norm", kernels.load_all()["layer_norm"], "torch")

# Published.
RUN = "sha256:21df0b654e59f793c2f8d87b3f81249867881ad9ca5ae2325bc218aebafbab14"
OPERATION = "sha256:8ba8d8c445e8bd111c485ff037391ce3ba744145e55c2b755cf1a312600e8260"
WORKLOAD = "sha256:3d726cc1123efb456ad82edf39b87426ebb1b70cc0b642f68e92e526607abee6"
IMPLEMENTATION = "sha256:d0846f0b6ab4d23bc51fcd7979b189c953df29327453372e7cc66c4809fb8801"
PROTOCOL = "sha256:080e6e66e4ec75a131aa0c9121c74b8e8eed64e7b6d621d567c6a28f79548be8"
ENVIRONMENT = "sha256:90c9e2764222f592477cfccf3373519add5a1b881563956ad058c4f99e41b6b9"
PROJECT = "sha256:1e8503b1cc39e8fe9d5242242de945ada0ed98cac96889f952cc7459d2de9da9"
CITED = {"workload": WORKLOAD, "implementation": IMPLEMENTATION} | {"protocol": PROTOCOL, "environment": ENVIRONMENT}
NONE = "sha256:" + "0" * 64
CASE = "hidden16384-rows2048-bf16"
DEVICE = "NVIDIA A100 SXM4-80GB"


def seed() -> list[dict]:
    return list(json.loads(SEED.read_text(encoding="utf-8")).values())


def run(provider="liger", ns=None, status="passed", mode="backward", case=CASE, at=1, cited=None, **metadata) -> dict:
    event = manifests.Event("rms_norm", mode, provider, DEVICE, case, str(at))
    return manifests.run(
        event,
        KERNEL,
        prefix="test",
        source="test",
        cited={**CITED, **(cited or {})},
        observed_at=at if isinstance(at, str) else f"2026-01-{at:02}T00:00:00.000Z",
        status=status,
        spec={"timing": {"primaryStatistic": "median", "latencyNs": {"median": ns}}} if ns else {},
        **metadata,
    )


def runs(catalog: dict, **filters) -> list[dict]:
    return query.Filters(**filters).select(query.rows(catalog))


def other(manifest: dict, **metadata) -> dict:
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


FAILED = run("liger", status="resource_exceeded", description="out of memory\nat line 3")
VARIANTS = [other(FAILED, title=title) for title in ("a", "b", "µ")]
NUMBERS = [
    {"apiVersion": "v", "kind": "Any", "metadata": {"n": n}, "spec": {"n": [n]}} for n in (0, -0.0, 2, 2.0, 1e-6, 2e53)
]
POOL = [*IMPORTED, *seed(), H100, FAILED, run(ns=10**6), *VARIANTS, *NUMBERS]
GOOD = build([*IMPORTED, FAILED, *VARIANTS])
ALIASED = identity.digest(FAILED)

scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e300, 1e300) | st.text("aµ/1")
words = st.sampled_from(["kind", "objects", "metadata", "spec", "name", "median", *CITED.values(), ALIASED, "a", "a1"])
values = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
strange = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(["v1", "v2"]),
        "kind": st.sampled_from(["BenchmarkRun", "WorkloadCase", "OperationSpec", "Other"]),
        "metadata": st.dictionaries(words, values, max_size=2),
        "spec": st.dictionaries(st.sampled_from(["operationSpecDigest", "workloadDigest", "status", "a"]), values),
    }
)
documents = st.lists(st.sampled_from(POOL) | strange, max_size=8)
documents |= documents.map(lambda found: found + IMPORTED)


def whole(manifest: dict) -> tuple[str, bytes]:
    return identity.digest(manifest), identity.canonical_json(manifest["metadata"])


# ---- building and merging


def test_the_objects_stand_under_their_published_digests():
    assert build(IMPORTED)["objects"].keys() == {*CITED.values(), RUN, OPERATION, PROJECT}
    assert build(seed())["objects"].keys() == {RUN, PROTOCOL, ENVIRONMENT}


def test_the_index_leads_from_the_operation_to_the_run():
    [workload] = build(IMPORTED)["index"][OPERATION]["workloads"].items()
    entry = {"run": RUN, "provider": "huggingface", "status": "passed", "environment": ENVIRONMENT}
    entry |= {"observedAt": "2024-09-03T15:39:46.000Z", "medianNs": 2569632}
    group = {"device": DEVICE, "protocol": PROTOCOL, "mode": "backward", "runs": [entry]}
    assert workload == (WORKLOAD, {"name": f"liger-rms-norm-{CASE}", "measured": [group]})


def test_the_index_lists_the_fastest_first():
    faster, slower = run("liger", ns=10**6), run("torch", ns=10**7)
    index = build([FAILED, slower, *IMPORTED, faster])["index"]
    [group] = index[OPERATION]["workloads"][WORKLOAD]["measured"]
    expected = [identity.digest(faster), RUN, identity.digest(slower), ALIASED]
    assert [entry["run"] for entry in group["runs"]] == expected


def test_the_summary_counts():
    summary = build([*IMPORTED, FAILED, H100])["summary"]
    once = dict.fromkeys((manifest["kind"] for manifest in IMPORTED), 1)
    assert summary["objects"] == {**once, "BenchmarkRun": 2, "ExecutionEnvironment": 2}
    assert summary["runs"] == {"passed": 1, "resource_exceeded": 1}
    assert (summary["kernels"], summary["devices"]) == ({"rms_norm": 2}, {DEVICE: 2})
    assert [failure["run"] for failure in summary["failures"]] == [ALIASED]


@settings(deadline=None)
@given(documents, st.data())
def test_the_bytes_depend_on_the_set_of_manifests_alone(found, data):
    again = data.draw(st.permutations([*found, *found]))
    assert render(build(again)) == render(build(found))


@settings(deadline=None)
@given(documents)
def test_nothing_is_lost(found):
    kept = [whole(manifest) for manifest in catalog.manifests(build(found))]
    assert sorted(kept) == sorted(set(map(whole, found)))


@settings(deadline=None)
@given(documents, documents, documents)
def test_merging_obeys_its_laws(first, second, third):
    a, b, c = map(build, (first, second, third))
    assert render(merge([a])) == render(merge([a, a])) == render(a)
    assert render(merge([a, b])) == render(merge([b, a])) == render(build(first + second))
    together = render(merge([a, b, c]))
    assert render(merge([merge([a, b]), c])) == together == render(merge([a, merge([b, c])]))


def test_other_metadata_of_one_digest_become_aliases():
    found = build([*reversed(VARIANTS), FAILED, *VARIANTS])
    assert found["objects"] == {ALIASED: FAILED}
    assert found["aliases"] == {ALIASED: [variant["metadata"] for variant in VARIANTS]}


def test_nothing_that_goes_in_is_changed():
    before = copy.deepcopy(POOL)
    merge([build(POOL), GOOD])
    assert before == POOL


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (None, "expected a manifest with apiVersion, kind, metadata and spec, found null"),
        ({"kind": "A"}, "expected a manifest with apiVersion, kind, metadata and spec, found kind"),
        ({**FAILED, "more": 1}, "found apiVersion, kind, metadata, spec, more"),
        ({**FAILED, "kind": 1}, "kind: expected text, found 1"),
        ({**FAILED, "spec": []}, "spec: expected an object, found"),
        ({**FAILED, "metadata": "x"}, 'metadata: expected an object, found "x"'),
        ({**FAILED, "spec": {"a": float("nan")}}, "expected a JSON document"),
        ({**FAILED, "spec": {"a": {1}}}, "expected a JSON document"),
        ({**FAILED, "spec": {"a": "\ud800"}}, "expected a JSON document"),
        ({**FAILED, "spec": {"a": 2**53}}, "spec.a: expected an integer within"),
    ],
    ids=range(10),
)
def test_what_is_no_manifest_is_refused(manifest, message):
    with pytest.raises(KernelcatError) as caught:
        build([manifest])
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"objects": {NONE: FAILED}, "aliases": {}}, f"{NONE}: expected an object with this digest, found one with "),
        ({"aliases": {NONE: [{}]}}, f"aliases: expected the digest of an object, found {NONE}"),
        ({"aliases": {RUN: {}}}, f"aliases/{RUN}: expected a list of metadata"),
        ({"aliases": {RUN: [1]}}, "metadata: expected an object, found 1"),
        ({"objects": []}, "objects: expected an object"),
    ],
    ids=range(5),
)
def test_a_damaged_catalog_is_not_merged(damage, message):
    with pytest.raises(KernelcatError) as caught:
        merge([GOOD, {**GOOD, **damage}])
    assert message in str(caught.value)


# ---- files


@settings(deadline=None)
@given(documents)
def test_the_bytes_are_sorted_json(found):
    built = build(found)
    data = render(built)
    text = json.dumps(built, sort_keys=True, ensure_ascii=False)
    assert json.dumps(json.loads(data), ensure_ascii=False) == text  # loading keeps the order of keys
    assert sum(line.startswith(b'"sha256:') for line in data.splitlines()) >= len(built["objects"])


def test_a_written_catalog_is_read_back(tmp_path):
    write(tmp_path / "new" / "catalog.json", GOOD)
    assert read(tmp_path / "new" / "catalog.json") == GOOD


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a JSON or YAML document, found an empty file"),
        ("[" * 100_000, "expected a document of bounded depth"),
        ('{"kind": "Catalog", "kind": "Catalog"}', 'expected each key once, found "kind" twice'),
        ('{"kind": NaN}', "expected finite numbers, found NaN"),
        (b'"\xff"', "line 1: expected UTF-8"),
        ("[1]", 'expected an object with kind "Catalog", found [1]'),
        ('{"kind": "Other"}', 'expected an object with kind "Catalog", found "Other"'),
        ('{"kind": "Catalog"}', "objects: expected an object, found null"),
        ('{"kind": "Catalog", "objects": {"x": {}}}', "expected a manifest with apiVersion, kind, metadata and spec"),
        (
            json.dumps({**GOOD, "objects": {"../x": FAILED}, "aliases": {}}),
            "objects: expected digests as names, found ../x",
        ),
        (json.dumps({**GOOD, "aliases": {RUN: [1]}}), "BenchmarkRun without a name: metadata: expected an object"),
    ],
    ids=range(11),
)
def test_what_is_no_catalog_is_not_read(tmp_path, text, message):
    path = tmp_path / "catalog.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(KernelcatError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert len(str(caught.value).splitlines()) == 1


# ---- verifying

GONE = object()


def changed(path: tuple, value: object, found: dict = GOOD) -> dict:
    found = copy.deepcopy(found)
    *way, last = path
    node = functools.reduce(operator.getitem, way, found)
    if value is GONE:
        del node[last]
    else:
        node[last] = value
    return found


METADATA = [variant["metadata"] for variant in VARIANTS]


def test_what_was_built_or_merged_is_faultless(tmp_path):
    write(tmp_path / "a.json", merge([GOOD, build([*IMPORTED, H100])]))
    assert verify(GOOD) == verify(build([])) == verify(read(tmp_path / "a.json")) == []


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("objects", RUN, "spec", "timing", "latencyNs", "median"), 1, f"{RUN}: expected an object with this digest"),
        (("objects", RUN, "more"), 1, f"{RUN}: /more: expected no such field"),
        (("objects", RUN, "metadata", "more"), 1, f"{RUN}: /metadata/more: expected no such field"),
        (("objects", RUN, "spec"), {"a": float("nan")}, f"{RUN}: expected an object with this digest"),
        (("objects", RUN), None, f"{RUN}: expected an object with this digest"),
        (("objects", NONE), GOOD["objects"][PROTOCOL], f"{NONE}: expected an object with this digest"),
        (("objects", "\x1b[31m"), FAILED, r"\u001b[31m: expected an object with this digest"),
        (("objects", OPERATION, "metadata", "name"), "other", f"index/{OPERATION}: expected what the objects give"),
        (("objects", ALIASED, "metadata", "title"), "z", f"aliases/{ALIASED}: expected other metadata"),
        (("objects", ALIASED, "metadata", "description"), "x", "summary/failures: expected what the objects give"),
        (("objects", WORKLOAD), GONE, f"{RUN}: /spec/workloadDigest: expected a digest of kind"),
        (("objects", ENVIRONMENT), GONE, f"{RUN}: /spec/environmentDigest: expected a digest of kind"),
        (("objects", IMPLEMENTATION), GONE, f"{ALIASED}: /spec/implementationDigest: expected a digest of kind"),
        (("objects", OPERATION), GONE, f"{WORKLOAD}: /spec/operationSpecDigest: expected a digest of kind"),
        (("objects", OPERATION), GONE, f"{IMPLEMENTATION}: /spec/operation/specDigest: expected a digest of kind"),
        (("aliases", NONE), METADATA, f"aliases/{NONE}: expected the digest of an object, found none here"),
        (("aliases", RUN), [], f"aliases/{RUN}: expected a list of metadata"),
        (("aliases", RUN), [{"name": "z", "more": 1}], f"aliases/{RUN}: /metadata/more: expected no such field"),
        (("aliases", ALIASED), METADATA[::-1], f"aliases/{ALIASED}: expected other metadata"),
        (("aliases", ALIASED), METADATA[:1] * 2, f"aliases/{ALIASED}: expected other metadata"),
        (("index", OPERATION, "workloads", WORKLOAD, "measured", 0, "runs", 0, "medianNs"), 1, f"index/{OPERATION}: "),
        (("index", OPERATION), GONE, f"index/{OPERATION}: expected what the objects give, found nothing"),
        (("index", NONE), {}, f"index/{NONE}: expected nothing"),
        (("summary", "runs", "passed"), 2, "summary/runs: expected what the objects give"),
        (("summary", "devices"), GONE, "summary/devices: expected what the objects give, found nothing"),
        (("summary", "more"), 1, "summary/more: expected nothing"),
        (("kind",), "Other", 'kind: expected "Catalog", found "Other"'),
        (("more",), 1, "more: no such field in a catalog"),
        *((((section,), GONE, f"{section}: expected an object, found null")) for section in ("objects", "aliases")),
        *((((section,), [], f"{section}: expected an object, found []")) for section in ("index", "summary")),
    ],
    ids=range(32),
)
def test_each_damage_is_named(path, value, line):
    lines = verify(changed(path, value))
    assert [found for found in lines if found.startswith(line)], lines
    assert all(found.isprintable() for found in lines)


@pytest.mark.parametrize(
    ("field", "cited", "fault"),
    [
        ("workload", H100, "/spec/workloadDigest: expected a digest of kind"),
        ("environment", LAYER_NORM, "/spec/environmentDigest: expected a digest of kind"),
        ("implementation", LAYER_NORM_BY_TORCH, "expected workload and implementation of one operation"),
    ],
    ids=range(3),
)
def test_a_wrong_citation_is_named(field, cited, fault):
    wrong = run(ns=1, cited={field: identity.digest(cited)})
    [line] = verify(build([*IMPORTED, H100, LAYER_NORM, LAYER_NORM_BY_TORCH, wrong]))
    assert line.startswith(f"{identity.digest(wrong)}: {fault}")


@settings(deadline=None)
@given(values | st.fixed_dictionaries({}, optional=dict.fromkeys(catalog.SECTIONS, values)))
def test_any_json_can_be_verified(value):
    assert verify(value)


def test_any_value_can_be_verified():
    deep = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, 10**5000):
        assert verify({"kind": value})


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_what_verify_accepts_is_what_would_be_built(data):
    """A value anywhere in a good catalog is replaced."""
    path, node = [], GOOD
    while not path or (isinstance(node, dict | list) and node and data.draw(st.booleans())):
        path.append(data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node)))))
        node = node[path[-1]]
    found = changed(tuple(path), data.draw(values))
    if not verify(found):
        assert render(build(catalog.manifests(found))) == render(found)
    try:
        list(catalog.manifests(found))
    except KernelcatError:
        return
    rows = runs(found)
    assert isinstance(table(rows), str)
    assert all(line.isprintable() for line in summary_lines(found))
    for row in rows:
        assert all(line.isprintable() for line in why.lines(found, row["run"], "nowhere"))
    try:
        comparison = compare.compare(found, GOOD, ("nowhere", "nowhere"))
    except KernelcatError:
        return
    assert all(written(comparison) for written in compare.FORMATS.values())


# ---- asking

ON_H100 = {"environment": identity.digest(H100)}


def asked(*found: dict, **filters) -> list[tuple]:
    rows = runs(build([H100, *IMPORTED[1:], *found]), **filters)
    return [(row["provider"], row["median_ns"], row["speedup"]) for row in rows]


def test_a_series_is_sorted_by_speed_and_compared_with_its_baseline():
    """huggingface is the baseline, not the faster torch; what failed is last, and compared with nothing."""
    found = [FAILED, run("huggingface", ns=1000), run("liger", ns=250), run("torch", ns=500), run("slow", ns=4000)]
    assert asked(*found) == [
        ("liger", 250, 4.0),
        ("torch", 500, 2.0),
        ("huggingface", 1000, 1.0),
        ("slow", 4000, 0.25),
        ("liger", None, None),
    ]


@pytest.mark.parametrize(
    "elsewhere",
    [{"mode": "full"}, {"cited": ON_H100}, {"cited": {"protocol": NONE}}, {"cited": {"workload": NONE}}],
    ids=["mode", "device", "protocol", "workload"],
)
def test_only_what_is_comparable_is_compared(elsewhere):
    found = asked(run("huggingface", ns=1000), run("liger", ns=250, **elsewhere))
    assert sorted(found) == [("huggingface", 1000, 1.0), ("liger", 250, None)]


@pytest.mark.parametrize("provider", ["huggingface", "torch", "pytorch", "megatron", "megatron-unfused"])
def test_only_what_has_passed_is_a_baseline(provider):
    assert asked(run(provider, ns=1000), run(ns=500))[0] == ("liger", 500, 2.0)
    assert asked(run(provider, ns=1000, status="revoked"), run(ns=500))[0] == ("liger", 500, None)


@pytest.mark.parametrize(("older", "newer"), [("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z"), (1, 2)])
def test_the_newest_baseline_counts(older, newer):
    found = asked(run("torch", ns=10, at=older), run("torch", ns=1000, at=newer), run("liger", ns=500))
    assert found == [("torch", 10, 100.0), ("liger", 500, 2.0), ("torch", 1000, 1.0)]


@pytest.mark.parametrize(
    ("filters", "medians"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"kernel": "rms"}, []),
        ({"provider": "torch"}, [2]),
        ({"mode": "full"}, [3]),
        ({"device": "nvidia h"}, [4]),
        ({"device": "SXM4"}, [1, 2, 3, 5]),
        ({"mode": "full, backward"}, [1, 2, 3, 4, 5]),
        ({"provider": "torch,huggingface"}, [2]),
        ({"dtype": "bf16"}, [1, 2, 3, 4]),
        ({"status": "passed"}, [1, 2, 3, 4, 5]),
        ({"protocol": "do-bench"}, [1, 2, 3, 4, 5]),
        ({"version": "0.8.5"}, [1]),
        ({"workload": "rows2048"}, [1, 2, 3, 4]),
        ({"workload": "rows204"}, []),
        ({"workload": "048"}, []),
        ({"workload": "rows"}, [1, 2, 3, 4, 5]),
        ({"workload": NONE}, [5]),
        ({"workload": WORKLOAD[7:15]}, [1, 2, 3, 4]),
        ({"workload": WORKLOAD[7:14]}, []),
        ({"mode": "backward", "provider": "liger", "device": "a100", "workload": "512"}, [5]),
    ],
)
def test_filters(filters, medians):
    found = [
        run(ns=1, labels={"liger_version": "0.8.5"}),
        run("torch", ns=2),
        run(ns=3, mode="full"),
        run(ns=4, cited=ON_H100),
    ]
    found.append(run(ns=5, case="rows512", cited={"workload": NONE}))
    assert sorted(ns for _, ns, _ in asked(*found, **filters)) == medians


def test_the_fastest_right_provider_of_each_workload():
    """Neither what failed, nor what is faster than the device allows."""
    found = [FAILED, run(ns=3), run("torch", ns=2), run("slow", ns=9), run("torch", ns=1, mode="full")]
    found.append(run("wrong", ns=1, labels={"quality": "above_limit drift"}))
    fastest = query.fastest(runs(build([*IMPORTED[1:], *found])))
    assert [(row["mode"], row["provider"], row["median_ns"]) for row in fastest] == [
        ("backward", "torch", 2),
        ("full", "torch", 1),
    ]


@pytest.mark.parametrize("scalars", [[{}], ["eps"], "eps", 1, {"eps": 1}, {"eps": {"value": "x"}}])
def test_scalars_that_are_none_have_no_column(scalars):
    """Documents of others are read before anything is validated."""
    [row] = query.rows(changed(("objects", WORKLOAD, "spec", "scalars"), scalars, build(IMPORTED)))
    assert row["scalars"] == {}


def test_names_of_an_environment_are_printed_as_text():
    found = changed(("objects", ENVIRONMENT, "spec", "software"), {"\n\x1b[31m": 1, "x" * 10**5: 1})
    lines = why.lines(found, RUN, "nowhere")
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) < 1000


@pytest.mark.parametrize("digest", [RUN, RUN[7:], RUN[:15], RUN[7:15]])
def test_a_run_is_found_by_the_beginning_of_its_digest(digest):
    assert query.find(query.rows(build(IMPORTED)), digest)["run"] == RUN


@pytest.mark.parametrize(("digest", "count"), [("0000", "no run"), ("", "2 runs"), ("../x", "no run")])
def test_a_digest_of_no_run_or_of_several_is_refused(digest, count):
    with pytest.raises(KernelcatError, match=f"beginning, found {count} for"):
        query.find(query.rows(build([*IMPORTED, FAILED])), digest)


def test_a_row_says_what_the_documents_say():
    """Against the seed's document, whose numbers are published."""
    [row] = query.rows(build(IMPORTED))
    assert list(row) == list(query.COLUMNS)
    said = {name: value for name, value in row.items() if value not in (None, "")}
    assert said == {
        "run": RUN,
        "kernel": "rms_norm",
        "mode": "backward",
        "provider": "huggingface",
        "case": CASE,
        "dtype": "bf16",
        "axes": {"hidden": 16384, "rows": 2048},
        "scalars": {"eps": 1e-6},
        "device": DEVICE,
        "protocol": "liger-bench-do-bench-backward",
        "status": "passed",
        "speedup": 1.0,
        "median_ns": 2569632,
        "p20_ns": 2566368,
        "p80_ns": 2573120,
        "liger_version": "0.2.1",
        "source": "liger-kernel-bench",
        "observed_at": "2024-09-03T15:39:46.000Z",
        "workload": WORKLOAD,
        "operation": OPERATION,
        "implementation": IMPLEMENTATION,
        "environment": ENVIRONMENT,
        "protocol_digest": PROTOCOL,
    }


def test_a_filter_does_not_hide_the_baseline():
    assert asked(run("torch", ns=1000), run("liger", ns=500), provider="liger") == [("liger", 500, 2.0)]


@pytest.mark.parametrize(
    "cases",
    [
        ["a2b", "a10a", "a10b", "b1"],
        ["a", "a2"],
    ],
)
def test_cases_are_sorted_by_their_numbers(cases):
    found = runs(build(run(ns=1, case=case) for case in cases[::-1]))
    assert [row["case"] for row in found] == cases


def test_any_number_that_can_be_read_is_shown():
    median = ("objects", RUN, "spec", "timing", "latencyNs", "median")
    assert table(runs(changed(median, 10**400, build([*IMPORTED, run(ns=1)]))))


def test_the_table():
    header, _, *lines = table(runs(build([*IMPORTED, run(ns=999), FAILED]))).splitlines()
    shared = f"{CASE} {DEVICE} liger-bench-do-bench-backward"
    assert (
        header.split()
        == "run kernel mode provider case device protocol status median speed-up of limit error marks".split()
    )
    assert [" ".join(line.split()[1:]) for line in lines] == [
        f"rms_norm backward liger {shared} passed 999 ns 2572.20x",
        f"rms_norm backward huggingface {shared} passed 2.57 ms 1.00x",
        f"rms_norm backward liger {shared} resource_exceeded",
    ]
    assert table([]) == "no runs"


@pytest.mark.parametrize(
    ("ns", "baseline", "shown"),
    [(1000, 3456, "1.00 µs 3.46x"), (12_345, 1852, "12.3 µs 0.15x"), (999_000, 699, "999 µs 0.0007x")],
)
def test_durations_and_ratios_keep_their_digits(ns, baseline, shown):
    text = table(runs(build([run(ns=ns), run("torch", ns=baseline)]), provider="liger"))
    assert " ".join(text.split()).endswith(f" passed {shown}")


def test_marks_and_the_part_of_the_limit_are_shown():
    marked = run(ns=1000, labels={"quality": "unstable host_bound", "attainable": "0.934"})
    good = run("torch", ns=2000, labels={"quality": "good", "attainable": "1.07"})
    found = build([*IMPORTED, marked, good])
    lines = [" ".join(line.split()) for line in table(runs(found)).splitlines()]
    assert lines[2].endswith("x 93 % unstable host_bound")
    assert lines[3].endswith("x 107 %")
    assert summary_lines(found) == ["3 runs: 3 passed", "marked: 1 host_bound, 1 unstable"]


def test_each_failure_is_told_in_a_line():
    wrong = run("torch", status="incorrect_numerical", mode="full")
    assert summary_lines(build([*IMPORTED, *VARIANTS, FAILED, wrong])) == [
        "3 runs: 1 passed, 1 incorrect_numerical, 1 resource_exceeded",
        f"rms_norm backward liger {CASE}: resource_exceeded: out of memory",
        f"rms_norm full torch {CASE}: incorrect_numerical",
    ]
    assert summary_lines(build([FAILED]))[0] == "1 run: 1 resource_exceeded"
    assert summary_lines(build([])) == ["0 runs"]


@pytest.mark.parametrize("value", [[], {}, 1, None])
def test_an_operation_that_is_no_digest_is_a_fault_and_no_traceback(value):
    workload = next(key for key, found in GOOD["objects"].items() if found["kind"] == "WorkloadCase")
    assert verify(changed(("objects", workload, "spec", "operationSpecDigest"), value))
