"""Identities: the digests here must be the ones that everybody else computes, so most tests are golden values."""

import hashlib
import json
import math
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcat import identity
from kernelcat.errors import KernelcatError
from kernelcat.identity import canonical_json, case_key, digest, evaluate, instant, kebab, nanoseconds

SEED = Path(__file__).parent / "data" / "seed" / "rms_norm-backward-huggingface-a100.json"
PUBLISHED = Path(__file__).parents[2] / "shared" / "identity"
RUN_DIGEST = "sha256:21df0b654e59f793c2f8d87b3f81249867881ad9ca5ae2325bc218aebafbab14"

needs_published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published identities are not beside the repository (../shared/identity)"
)


def seed() -> dict:
    return json.loads(SEED.read_text(encoding="utf-8"))


def manifest(kind: str, spec: dict) -> dict:
    return {"apiVersion": identity.API_VERSION, "kind": kind, "metadata": {"name": "any"}, "spec": spec}


# ---- digests


def test_the_seed_run_has_its_published_digest():
    assert digest(seed()["run"]) == RUN_DIGEST


@pytest.mark.parametrize(("part", "field"), [("protocol", "protocolDigest"), ("environment", "environmentDigest")])
def test_the_seed_cites_the_digests_of_its_parts(part, field):
    document = seed()
    assert digest(document[part]) == document["run"]["spec"][field]


def test_metadata_never_counts():
    run = seed()["run"]
    assert digest({**run, "metadata": {"name": "other"}}) == RUN_DIGEST
    assert digest({key: run[key] for key in ("spec", "kind", "apiVersion")}) == RUN_DIGEST


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
def test_what_is_not_metadata_counts(field):
    assert digest({**seed()["run"], field: "other"}) != RUN_DIGEST


@pytest.mark.parametrize("missing", ["apiVersion", "kind", "spec"])
def test_a_manifest_without_meaning_has_no_digest(missing):
    run = seed()["run"]
    del run[missing]
    with pytest.raises(KernelcatError, match=f"found no '{missing}'"):
        digest(run)


def test_sorted_json_is_not_canonical_json():
    """A workload with eps = 1e-6: json.dumps writes 1e-06, and nobody else finds the object under that digest."""
    spec = {
        "operationSpecDigest": "sha256:224b946feeec7a4e920c67c6b35ed37cd0ad2c9e3d2dae3f7d2c84fb8b4a3d5c",
        "axes": {"rows": 2048, "hidden": 16384},
        "tensors": {},
        "scalars": {"eps": {"dtype": "fp32", "value": 1e-6}},
        "correctness": {"comparator": "not_asserted"},
    }
    meaning = {"apiVersion": identity.API_VERSION, "kind": "WorkloadCase", "spec": spec}
    naive = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert b'"value":1e-06' in naive
    assert b'"value":0.000001' in canonical_json(meaning)
    assert "sha256:" + hashlib.sha256(naive).hexdigest() != digest(meaning)


@needs_published
def test_sorted_json_misses_a_published_digest():
    workloads = json.loads((PUBLISHED / "sample-workloads.json").read_text())
    published, case = next((k, v) for k, v in workloads.items() if "1e-06" in json.dumps(v["spec"]))
    meaning = {"apiVersion": identity.API_VERSION, "kind": "WorkloadCase", "spec": case["spec"]}
    naive = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert "sha256:" + hashlib.sha256(naive).hexdigest() != published
    assert digest(meaning) == published


@needs_published
@pytest.mark.parametrize(
    ("file", "kind", "count"),
    [
        ("projects", "SoftwareProject", 5),
        ("protocols", "BenchmarkProtocol", 3),
        ("environments", "ExecutionEnvironment", 6),
        ("operations", "OperationSpec", 35),
        ("sample-workloads", "WorkloadCase", 39),
    ],
)
def test_every_published_digest_is_reproduced(file, kind, count):
    entries = json.loads((PUBLISHED / f"{file}.json").read_text())
    pairs = entries.items() if isinstance(entries, dict) else [(None, entry) for entry in entries]
    found = [(entry.get("digest", key), digest(manifest(kind, entry["spec"]))) for key, entry in pairs]
    assert len(found) == count
    assert [pair for pair in found if pair[0] != pair[1]] == []


@needs_published
def test_every_published_implementation_digest_is_reproduced():
    implementations = json.loads((PUBLISHED / "implementations.json").read_text())
    operations = json.loads((PUBLISHED / "operations.json").read_text())
    lines = (PUBLISHED / "sample-runs.jsonl").read_text().splitlines()
    for run in map(json.loads, lines):
        kernel, _, provider, *_ = run["externalId"].split("/")
        spec = {**implementations[provider], "operation": {"specDigest": operations[kernel]["digest"]}}
        assert digest(manifest("ImplementationRevision", spec)) == run["implementationDigest"], run["externalId"]


# ---- canonical JSON

text = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-identity.MAX_INTEGER, identity.MAX_INTEGER) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=5),
    max_leaves=20,
)


def parsed(data: bytes) -> object:
    """Integers of more than 53 bits come from floats only, and read as floats again."""
    return json.loads(data, parse_int=lambda digits: int(digits) if len(digits) < 16 else float(digits))


def shuffled(value: object) -> object:
    if isinstance(value, dict):
        return {key: shuffled(item) for key, item in reversed(value.items())}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


def objects_in(pairs: list) -> list:
    """json's object_pairs_hook that checks the order of the keys as they stand in the text."""
    units = [key.encode("utf-16-be") for key, _ in pairs]
    assert units == sorted(units)
    return pairs


@settings(deadline=None, max_examples=500)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.sampled_from([0.0, -0.0, 1.0, 1e-5, 1e-4, 1e16, 1e15, 0.1, 1e21, 1e22, 123456789012345680.0])
        | st.text(),
        lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    )
)
def test_canonical_json_is_that_of_the_library(value):
    """Whatever is written faster is written the same."""
    assert canonical_json(value) == rfc8785.dumps(value)


@settings(deadline=None)
@given(values)
def test_canonical_json_parses_back_to_an_equal_value(value):
    assert parsed(canonical_json(value)) == value


@settings(deadline=None)
@given(values)
def test_canonical_json_does_not_depend_on_the_order_of_keys(value):
    assert canonical_json(shuffled(value)) == canonical_json(value)


@settings(deadline=None)
@given(values)
def test_canonical_json_of_canonical_json_is_itself(value):
    data = canonical_json(value)
    assert canonical_json(parsed(data)) == data


@settings(deadline=None)
@given(st.dictionaries(text, st.integers(0, 9), max_size=8))
def test_keys_are_sorted_by_utf16_code_units(value):
    json.loads(canonical_json(value), object_pairs_hook=objects_in)


def test_characters_beyond_the_first_plane_sort_before_the_last_of_it():
    """U+1F600 begins with the code unit D83D, below U+FB33: Python's own order is the other way round."""
    value = {"\ufb33": 1, "\U0001f600": 2, "\u20ac": 3, "\r": 4, "1": 5, "\u0080": 6, "ö": 7}
    assert list(json.loads(canonical_json(value)).values()) == [4, 5, 6, 7, 3, 2, 1]  # RFC 8785, section 3.2.3
    assert sorted(value)[-1] == "\U0001f600"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.0, "1"),
        (-0.0, "0"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e30, "1e+30"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (333333333.3333333, "333333333.3333333"),
        (9007199254740991, "9007199254740991"),
        (2.569632053375244, "2.569632053375244"),
        (4.50, "4.5"),
        (True, "true"),
        ("·", '"·"'),
        ("\u2028\x7f\x1f\n", '"\u2028\x7f\\u001f\\n"'),
    ],
)
def test_canonical_form(number, text):
    assert canonical_json(number).decode() == text


def nested(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, math.nan]}, "canonical JSON: a.1: expected a finite number, found nan"),
        (-math.inf, "canonical JSON: top level: expected a finite number, found -inf"),
        (2**53, "canonical JSON: top level: expected an integer within ±(2^53-1), found 9007199254740992"),
        (-(2**53), "canonical JSON: top level: expected an integer within ±(2^53-1), found -9007199254740992"),
        pytest.param(10**5000, "expected an integer within ±(2^53-1), found a huge integer", id="huge"),
        ("\ud800", "canonical JSON: top level: expected text without lone surrogates, found '\\ud800'"),
        ({"\ud800": 1}, "canonical JSON: \\ud800: expected a field name that is text"),
        ({1: 2}, "canonical JSON: 1: expected a field name that is text without lone surrogates, found 1"),
        ({"a": b"x"}, "canonical JSON: a: expected a JSON value"),
        (nested(5000), "expected at most 100 levels"),
    ],
)
def test_canonical_json_refuses(value, message):
    with pytest.raises(KernelcatError) as caught:
        canonical_json(value)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


# ---- names, times, durations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb"),
        ("2024-09-03 15:39:46", "2024-09-03-15-39-46"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3"),
        ("  --A__b--  ", "a-b"),
        ("rms_norm", "rms-norm"),
        ("ÄÖ", ""),
        ("Über·Kernel", "ber-kernel"),
        ("", ""),
        ("x" * 120, "x" * 100),
        ("a" * 99 + " b", "a" * 99 + "-"),  # trimmed before it is cut, not after: published names end so
        ("\n", ""),
    ],
)
def test_kebab(text, expected):
    assert kebab(text) == expected


def test_kebab_makes_the_published_name():
    run = seed()["run"]
    kernel, mode, provider, gpu, case, _ = run["spec"]["sourceNative"]["externalId"].split("/")
    assert kebab(f"liger-{kernel}-{mode}-{provider}-{gpu}-{case}-2024-09-03 15:39:46") == run["metadata"]["name"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-09-03 15:39:46", "2024-09-03T15:39:46.000Z"),
        ("2024-09-03T15:39:46Z", "2024-09-03T15:39:46.000Z"),
        ("2024-09-03T15:39:46", "2024-09-03T15:39:46.000Z"),
        ("2024-09-03T15:39:46.5Z", "2024-09-03T15:39:46.500Z"),
        ("2024-09-03T15:39:46.123999999Z", "2024-09-03T15:39:46.123Z"),
        ("2024-02-29 00:00:00", "2024-02-29T00:00:00.000Z"),
        ("0999-12-31 23:59:59", "0999-12-31T23:59:59.000Z"),
    ],
)
def test_instant(text, expected):
    assert instant(text) == expected
    assert instant(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29 00:00:00",
        "2024-13-01 00:00:00",
        "2024-09-31 00:00:00",
        "2024-09-03 24:00:00",
        "2024-09-03 15:39:60",
        "0000-01-01 00:00:00",
        "2024-09-03T15:39:46+00:00",
        "2024-09-03T15:39:46+02:00",
        "2024-09-03T15:39:46z",
        "2024-09-03T15:39:46.Z",
        "2024-09-03T15:39:46.0000000001Z",
        "2024-09-03",
        "2024-9-3 15:39:46",
        "2024-09-03 15:39:46\n",
        "٢٠٢٤-09-03 15:39:46",
        "",
        "now",
        None,
        20240903,
    ],
)
def test_instant_refuses(text):
    with pytest.raises(KernelcatError, match="expected a"):
        instant(text)


@pytest.mark.parametrize(
    ("ms", "ns"),
    [
        (46.8328125, 46832813),  # a real row: half up; round() gives 46832812
        (2.569632053375244, 2569632),
        (2.5663681030273438, 2566368),
        (0.0000005, 1),
        (0.0000004, 0),
        (0, 0),
        (1, 1_000_000),
    ],
)
def test_nanoseconds(ms, ns):
    assert nanoseconds(ms) == ns
    assert type(nanoseconds(ms)) is int


def test_rounding_half_even_would_give_another_digest():
    assert round(46.8328125 * 1e6) != nanoseconds(46.8328125)


@pytest.mark.parametrize("ms", [math.nan, math.inf, -math.inf, 1e300, 9007199254.740993])
def test_nanoseconds_refuses(ms):
    with pytest.raises(KernelcatError, match="milliseconds"):
        nanoseconds(ms)


@pytest.mark.parametrize(
    ("axes", "dtype", "expected"),
    [
        ({"rows": 2048, "hidden": 16384}, "bf16", "hidden16384-rows2048-bf16"),
        ({"batch": 32, "seq": 512, "hidden": 768, "vocab": 1024}, "fp32", "batch32-hidden768-seq512-vocab1024-fp32"),
        ({"k_heads": 1, "k": 2, "kv": 3}, "fp16", "k2-k_heads1-kv3-fp16"),  # "_" (5F) sorts before "v" (76)
        ({}, "bf16", "bf16"),
    ],
)
def test_case_key(axes, dtype, expected):
    assert case_key(axes, dtype) == expected


# ---- axis expressions

AXES = {"hidden": 4096, "q_heads": 32, "seq": 7, "in": 3}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("hidden // q_heads", 128),
        ("seq + 1", 8),
        ("seq - 10", -3),
        ("(seq - 10) // 2", -2),
        ("(seq - 10) % 4", 1),
        ("2 * (seq + 1) * 3", 48),
        ("seq", 7),
        ("-seq + 10", 3),
        ("in * 2", 6),  # an axis may have the name of a keyword
        (" 5 ", 5),
        ("(" * 90 + "seq" + ")" * 90, 7),
    ],
)
def test_evaluate(expression, value):
    assert evaluate(expression, AXES) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("hidden // 0", "divisor"),
        ("hidden % (seq - 7)", "divisor"),
        ("rows", 'found "rows"'),
        ("hidden / 2", "expression of"),
        ("hidden ** 2", "expression of"),
        ("hidden // 2\n", "expression of"),
        ("hidden.real", "expression of"),
        ("seq(1)", "expression of"),
        ("()", "expression of"),
        ("+seq", "expression of"),
        ("seq seq", "expression of"),
        ("seq, seq", "expression of"),
        ("0x10", "expression of"),
        ("1_0", "expression of"),
        ("1e3", "expression of"),
        ("1.5", "expression of"),
        ("007", "expression of"),
        ("seq if seq else 1", "expression of"),
        ("__import__", "expression of"),
        ("", "expression of"),
        ("(seq", "expression of"),
        ("9007199254740992", "2^53"),
        ("9007199254740991 + 1", "2^53"),
        ("hidden * hidden * hidden * hidden * hidden * hidden - hidden", "2^53"),
        ("1" * 201, "at most 200"),
    ],
)
def test_evaluate_refuses(expression, message):
    with pytest.raises(KernelcatError) as caught:
        evaluate(expression, AXES)
    assert message in str(caught.value)


@pytest.mark.parametrize("size", [True, 2.0, "2", None])
def test_evaluate_takes_integer_sizes_only(size):
    with pytest.raises(KernelcatError):
        evaluate("a + 1", {"a": size})


@settings(deadline=None)
@given(st.text(st.sampled_from("ab_12 +-*/%()."), max_size=30))
def test_evaluate_gives_an_integer_or_a_refusal(expression):
    try:
        assert type(evaluate(expression, {"a": 2, "b": 5})) is int
    except KernelcatError as error:
        assert len(str(error).splitlines()) == 1


@settings(deadline=None)
@given(st.integers(-99, 99), st.integers(1, 99), st.sampled_from(["+", "-", "*", "%", "//"]))
def test_evaluate_agrees_with_python(a, b, operator):
    assert evaluate(f"a {operator} b", {"a": a, "b": b}) == eval(f"a {operator} b", {"a": a, "b": b})
