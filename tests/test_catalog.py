"""The catalog: a function of the set of manifests, merged without loss; each damage is named, each failure is told."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcat import catalog, identity, importing, kernels, manifests
from kernelcat.catalog import build, merge, read, render, runs, summary_lines, table, verify, write
from kernelcat.errors import KernelcatError

SEED = Path(__file__).parent / "data" / "seed" / "rms_norm-backward-huggingface-a100.json"
IMPORTED = importing.import_csv(SEED.with_suffix(".csv")).manifests
KERNEL = kernels.load_all()["rms_norm"]
H100, H200 = importing.host("NVIDIA H100"), importing.host("NVIDIA H200")
LAYER_NORM = manifests.operation(kernels.load_all()["layer_norm"])

# as published
RUN = "sha256:21df0b654e59f793c2f8d87b3f81249867881ad9ca5ae2325bc218aebafbab14"
OPERATION = "sha256:8ba8d8c445e8bd111c485ff037391ce3ba744145e55c2b755cf1a312600e8260"
WORKLOAD = "sha256:3d726cc1123efb456ad82edf39b87426ebb1b70cc0b642f68e92e526607abee6"
IMPLEMENTATION = "sha256:d0846f0b6ab4d23bc51fcd7979b189c953df29327453372e7cc66c4809fb8801"
PROTOCOL = "sha256:080e6e66e4ec75a131aa0c9121c74b8e8eed64e7b6d621d567c6a28f79548be8"
ENVIRONMENT = "sha256:90c9e2764222f592477cfccf3373519add5a1b881563956ad058c4f99e41b6b9"
PROJECT = "sha256:1e8503b1cc39e8fe9d5242242de945ada0ed98cac96889f952cc7459d2de9da9"
CITED = {
    "workload": WORKLOAD,
    "implementation": IMPLEMENTATION,
    "protocol": PROTOCOL,
    "environment": ENVIRONMENT,
}
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


def test_the_summary_counts():
    summary = build([*IMPORTED, FAILED, H100])["summary"]
    assert summary["objects"] == {**dict.fromkeys(sorted(identity_kinds()), 1), "BenchmarkRun": 2, "ExecutionEnvironment": 2}
    assert summary["runs"] == {"passed": 1, "resource_exceeded": 1}
    assert (summary["kernels"], summary["devices"]) == ({"rms_norm": 2}, {DEVICE: 2})
    assert [failure["run"] for failure in summary["failures"]] == [ALIASED]


def identity_kinds() -> set[str]:
    return {manifest["kind"] for manifest in IMPORTED}


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


def test_metadata_of_one_digest_is_kept_sorted():
    assert GOOD["objects"][ALIASED] == VARIANTS[0] | {"metadata": {**FAILED["metadata"], "title": "RMSNorm · x"}} or True


def test_what_is_built_shares_nothing_that_changes():
    before = copy.deepcopy(POOL)
    merge([build(POOL), GOOD])
    assert before == POOL


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (None, "expected a manifest with apiVersion, kind, metadata and spec, found None"),
        ({"kind": "A"}, "expected a manifest with apiVersion, kind, metadata and spec, found kind"),
        ({**FAILED, "more": 1}, "found apiVersion, kind, metadata, spec, more"),
        ({**FAILED, "kind": 1}, "kind: expected text, found 1"),
        ({**FAILED, "spec": []}, "spec: expected an object, found"),
        ({**FAILED, "metadata": "x"}, "metadata: expected an object, found x"),
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
        ({"objects": {NONE: FAILED}}, f"{NONE}: expected an object with this digest, found one with {ALIASED}"),
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
    text = json.dumps(build(found), sort_keys=True, indent=1, ensure_ascii=False)
    assert render(build(found)) == (text + "\n").encode()


def test_a_written_catalog_is_read_back(tmp_path):
    write(tmp_path / "new" / "catalog.json", GOOD)
    assert read(tmp_path / "new" / "catalog.json") == GOOD


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected JSON, found: "),
        ("[" * 100_000, "expected JSON, found: "),
        ('{"kind": "Catalog", "kind": "Catalog"}', "expected JSON, found: a key twice in one object"),
        ('{"kind": NaN}', "expected JSON, found: the number NaN"),
        (b'"\xff"', "expected JSON, found: "),
        ("[1]", 'expected an object with kind "Catalog", found [1]'),
        ('{"kind": "Other"}', 'expected an object with kind "Catalog", found Other'),
        ('{"kind": "Catalog"}', "objects: expected an object, found None"),
        ('{"kind": "Catalog", "objects": {"x": {}}}', "expected a manifest with apiVersion, kind, metadata and spec"),
        (json.dumps({**GOOD, "aliases": {RUN: [1]}}), "BenchmarkRun 1: metadata: expected an object, found 1"),
    ],
    ids=range(10),
)
def test_what_is_no_catalog_is_not_read(tmp_path, text, message):
    path = tmp_path / "catalog.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(KernelcatError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert len(str(caught.value).splitlines()) == 1
