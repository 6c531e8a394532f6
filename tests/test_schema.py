"""Validation: everything published is valid, everything else is refused at the right place."""

import copy
import json
import math
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kernelcat import identity, schema, validators
from kernelcat.errors import KernelcatError
from kernelcat.explain import explained
from kernelcat.fault import Fault, pointer, shown
from kernelcat.schema import KINDS, check, faults

REPOSITORY = Path(__file__).parents[1]
SEED = REPOSITORY / "tests" / "data" / "seed" / "rms_norm-backward-huggingface-a100.json"
PUBLISHED = REPOSITORY.parent / "shared" / "identity"
SCHEMAS = sorted((REPOSITORY / "schemas").glob("*.schema.json"))
OURS = {*KINDS.values(), "common", "document", "catalog"}

needs_published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published identities are not beside the repository (../shared/identity)"
)

A, B, COMMIT = "sha256:" + "a" * 64, "sha256:" + "b" * 64, "c" * 40
URL = "https://github.com/linkedin/Liger-Kernel"
ARTIFACT = {"uri": "samples/rms_norm.json", "digest": A}
METADATA = {
    "name": "any.name_1-x",
    "title": "RMSNorm · any",
    "description": "Two\nlines.",
    "labels": {"liger_version": "0.2.1", "empty": ""},
    "authors": ["somebody"],
    "sourceRefs": ["a paper"],
}
POLICY = {"clocksLocked": False, "powerLimitWatts": 700, "persistenceMode": True}

FULL = {
    "SoftwareProject": {
        "name": "Liger-Kernel",
        "kind": "library",
        "repository": URL,
        "homepage": "https://example.org:8080/?q=1#top",
        "host": {"kind": "github", "id": "linkedin/Liger-Kernel"},
        "packages": [{"ecosystem": "pypi", "name": "liger-kernel"}],
    },
    "OperationSpec": {
        "family": "swiglu-mlp",
        "axes": {
            "hidden": {"role": "variable", "type": "integer", "minimum": 1, "maximum": 65536},
            "heads": {"role": "constant", "type": "integer", "value": 32},
            "head_dim": {"role": "derived", "type": "integer", "expression": "hidden // heads"},
        },
        "inputs": [
            {"name": "x", "tensor": {"shape": ["hidden", 2, "head_dim"], "dtype": "float", "layout": "row_major"}},
            {"name": "eps", "scalar": {"dtype": "fp32"}},
        ],
        "outputs": [{"name": "x", "tensor": {"shape": [], "dtype": "float"}}],
        "semantics": {"expression": "x + eps", "mutation": "none", "determinism": "unspecified"},
        "reference": {"language": "python", "artifact": ARTIFACT},
    },
    "WorkloadCase": {
        "operationSpecDigest": A,
        "axes": {"hidden": 16384},
        "tensors": {
            "x": {
                "shape": [16384, 2],
                "dtype": "bf16",
                "strides": [2, 0],
                "alignmentBytes": 16,
                "data": {
                    "generator": "normal",
                    "seed": 0,
                    "parameters": {"mean": 0.5, "of": "x", "on": True},
                    "artifact": ARTIFACT,
                },
            },
            "loss": {"shape": [], "dtype": "fp32"},
        },
        "scalars": {"eps": {"dtype": "fp32", "value": 1e-6}, "on": {"dtype": "bool", "value": True}},
        "correctness": {
            "comparator": "close",
            "maxAbsoluteError": 0,
            "maxRelativeError": 1e-2,
            "requiredMatchedRatio": 1,
            "nanPolicy": "reject",
            "infinityPolicy": "exact_match",
        },
    },
    "ImplementationRevision": {
        "projectRevision": {"repository": URL, "commit": COMMIT, "version": "0.8.5", "treeDigest": B},
        "operation": {"specDigest": A},
        "callable": {"language": "triton", "path": "liger/ops.py", "symbol": "f", "interface": "torch"},
        "support": {
            "hardwareArchitectures": ["sm_80", "sm_90"],
            "productsTested": ["NVIDIA A100", "NVIDIA H100"],
            "axes": ["hidden", "rows"],
            "dtypes": ["bf16", "fp16"],
            "layouts": ["contiguous", "row_major"],
        },
        "source": {"contentDigest": A, "fileName": "ops.py", "sizeBytes": 0},
        "buildVariants": [
            {
                "name": "pip",
                "install": {
                    "kind": "pip",
                    "repository": URL,
                    "commit": COMMIT,
                    "package": "liger-kernel",
                    "version": "0.8.5",
                    "command": "pip install liger-kernel",
                },
                "requirements": ["torch"],
            }
        ],
        "licensing": {"declared": "MIT", "concluded": "MIT", "evidence": {"path": "LICENSE", "digest": A}},
    },
    "BenchmarkProtocol": {
        "harness": {"name": "kernelcat", "version": "0.1.0", "repository": URL, "commit": COMMIT},
        "measurement": {
            "timer": "cuda_events",
            "synchronization": "after each sample",
            "compileIncluded": False,
            "setupIncluded": False,
            "warmupIterations": 0,
            "warmupDuration": 25_000_000,
            "measuredIterations": 1,
            "samples": 200,
            "inputRegeneration": "none",
            "outlierPolicy": "none",
            "primaryStatistic": "median",
        },
        "correctness": {"reference": "PyTorch in fp32", "comparator": "close"},
        "devicePolicy": POLICY,
        "comparability": {"family": "kernelcat_graph", "notes": "n" * 1000},
    },
    "ExecutionEnvironment": {
        "hardware": {
            "vendor": "nvidia",
            "product": "NVIDIA H200",
            "architecture": "sm_90",
            "formFactor": "SXM5",
            "memoryBytes": 150754820096,
            "count": 1,
            "interconnect": "nvlink",
        },
        "software": {
            "operatingSystem": "Debian 12",
            "kernel": "6.1",
            "driver": "580.1",
            "cudaToolkit": "13.0",
            "compiler": "gcc 12",
            "framework": {"name": "torch", "version": "2.11.0+cu130"},
            "libraries": {"liger_kernel": "0.8.5"},
        },
        "settings": {**POLICY, "eccEnabled": True, "environmentVariables": {"CUDA_LAUNCH_BLOCKING": "", "_x9": "1"}},
        "imageDigest": B,
    },
    "BenchmarkRun": {
        "implementationDigest": A,
        "workloadDigest": B,
        "protocolDigest": A,
        "environmentDigest": B,
        "status": "passed",
        "correctness": {
            "comparator": "close",
            "maximumAbsoluteError": 3.5,
            "maximumRelativeError": 0.5,
            "matchedRatio": 0.999,
        },
        "timing": {
            "primaryStatistic": "median",
            "samples": 200,
            "latencyNs": {
                "minimum": 1,
                "p05": 1,
                "median": 3,
                "mean": 4,
                "p95": 5,
                "maximum": 9007199254740991,
                "mad": 0,
                "confidence95": [3, 3],
            },
            "rawSamples": [1, 3, 5],
        },
        "measurements": [
            {"metric": "latency", "unit": "ns", "statistic": "p20", "value": 2, "sampleCount": 200},
            {"metric": "peak_memory", "unit": "mib", "statistic": "median", "value": -0.5},
        ],
        "sourceNative": {
            "source": "kernelcat",
            "benchmark": "rms_norm/forward",
            "externalId": "rms_norm/forward/liger",
            "metrics": {"ms_50": 2.569632053375244},
        },
        "evidence": {
            "logs": ARTIFACT,
            "rawSamples": {**ARTIFACT, "uri": "https://example.org/samples"},
            "harness": {"repository": URL, "commit": COMMIT},
        },
        "observedAt": "2024-02-29T15:39:46.000Z",
    },
}
"""One valid spec of each kind with every field that the schemas know."""


def seed() -> dict:
    return json.loads(SEED.read_text(encoding="utf-8"))


def manifest(kind: str, spec: dict | None = None) -> dict:
    spec = FULL[kind] if spec is None else spec
    return copy.deepcopy(
        {"apiVersion": identity.API_VERSION, "kind": kind, "metadata": METADATA, "spec": spec},
    )


def bundle() -> dict:
    protocol, environment = manifest("BenchmarkProtocol"), manifest("ExecutionEnvironment")
    run = manifest("BenchmarkRun")
    run["spec"]["protocolDigest"] = identity.digest(protocol)
    run["spec"]["environmentDigest"] = identity.digest(environment)
    return {"run": run, "protocol": protocol, "environment": environment}


def catalog() -> dict:
    objects = {identity.digest(m): m for m in map(manifest, KINDS)}
    aliases = {next(iter(objects)): [METADATA, {"name": "other"}]}
    return {"kind": "Catalog", "objects": objects, "aliases": aliases, "index": {"a": [1]}, "summary": {"runs": 1}}


MISSING = object()


def changed(document: dict, place: str, value: object) -> dict:
    """`document` with the value at the dotted `place` set, or removed when it is MISSING."""
    document = copy.deepcopy(document)
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    node = document
    for part in path:
        node = node[part]
    if value is MISSING:
        del node[last]
    else:
        node[last] = value
    return document


def pointers(document: object) -> list[str]:
    return [fault.pointer for fault in faults(document)]


# ---- what is valid


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_with_every_field_is_valid(kind):
    assert faults(manifest(kind)) == []


@pytest.mark.parametrize("document", [seed(), bundle(), catalog()], ids=["seed", "bundle", "catalog"])
def test_bundles_and_catalogs_are_valid(document):
    assert faults(document) == []


@pytest.mark.parametrize("part", ["run", "protocol", "environment"])
def test_the_parts_of_the_seed_are_valid(part):
    assert faults(seed()[part]) == []


@needs_published
def test_everything_published_is_valid():
    for file, kind in {
        "projects": "SoftwareProject",
        "protocols": "BenchmarkProtocol",
        "environments": "ExecutionEnvironment",
        "operations": "OperationSpec",
        "sample-workloads": "WorkloadCase",
    }.items():
        entries = json.loads((PUBLISHED / f"{file}.json").read_text())
        for entry in entries.values() if isinstance(entries, dict) else entries:
            assert faults(manifest(kind, entry["spec"])) == []
    for provider, spec in json.loads((PUBLISHED / "implementations.json").read_text()).items():
        assert faults(manifest("ImplementationRevision", {**spec, "operation": {"specDigest": A}})) == [], provider


def test_valid_documents_never_meet_jsonschema():
    """jsonschema takes 0.1 s to import and 2 ms for a run: 100,000 documents would take minutes."""
    code = (
        "import json, sys; from kernelcat.schema import faults; from kernelcat import identity\n"
        "documents = json.load(sys.stdin)\n"
        "assert [faults(d) for d in documents] == [[] for d in documents]\n"
        "assert 'jsonschema' not in sys.modules"
    )
    documents = [seed(), bundle(), *map(manifest, KINDS)]
    environment = {"PYTHONPATH": str(REPOSITORY / "scripts")}
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(documents), text=True, env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("BenchmarkRun", "spec.timing", MISSING),  # measurements are enough
        ("BenchmarkRun", "spec.measurements", MISSING),  # and so is timing
        ("BenchmarkRun", "spec.timing.latencyNs", {"mean": 0}),
        ("BenchmarkRun", "spec.timing.rawSamples", ARTIFACT),
        ("BenchmarkRun", "spec.status", "revoked"),
        ("BenchmarkRun", "spec.status", "incomplete_evidence"),
        ("BenchmarkRun", "spec.status", "suspected_reward_hack"),
        ("BenchmarkRun", "spec.status", "policy_violation"),
        ("BenchmarkRun", "spec.observedAt", "2024-09-03T15:39:46Z"),
        ("BenchmarkRun", "spec.correctness.maximumAbsoluteError", 1e308),
        ("BenchmarkRun", "spec.timing.samples", 200.0),  # the same number, and the same digest, as 200
        ("BenchmarkProtocol", "spec.comparability", MISSING),
        ("BenchmarkProtocol", "metadata", {"name": "9"}),
        ("SoftwareProject", "metadata.name", "n" * 200),
        ("OperationSpec", "spec.family", "f" * 100),
        ("OperationSpec", "spec.axes.head_dim.expression", "hidden // kv_heads"),  # a published operation does so
        ("ExecutionEnvironment", "spec", {"hardware": FULL["ExecutionEnvironment"]["hardware"], "software": {}}),
    ],
)
def test_variants_that_are_valid(kind, place, value):
    assert faults(changed(manifest(kind), place, value)) == []


@pytest.mark.parametrize(
    "status",
    [
        "incorrect_shape",
        "incorrect_dtype",
        "incorrect_numerical",
        "compile_error",
        "runtime_error",
        "timeout",
        "resource_exceeded",
        "invalid_reference",
    ],
)
def test_a_failed_run_has_no_timing(status):
    run = changed(manifest("BenchmarkRun"), "spec.status", status)
    assert [(f.pointer, f.expected) for f in faults(run)] == [
        ("/spec/timing", "no timing, because the status says that the run failed")
    ]
    assert faults(changed(run, "spec.timing", MISSING)) == []


# ---- what is not

RUN, OP, CASE, CODE = "BenchmarkRun", "OperationSpec", "WorkloadCase", "ImplementationRevision"
PROTOCOL, HOST, PROJECT = "BenchmarkProtocol", "ExecutionEnvironment", "SoftwareProject"
AXIS = {"role": "variable", "type": "integer"}
INPUT = {"name": "y", "scalar": {"dtype": "fp32"}}

FAULTY = [
    # kind, place to change, value, pointer of the one fault, part of what is expected
    (RUN, "apiVersion", "kernelindex.dev/v1", "/apiVersion", '"kernelindex.dev/v1alpha1"'),
    (RUN, "apiVersion", MISSING, "/apiVersion", '"kernelindex.dev/v1alpha1"'),
    (RUN, "metadata", MISSING, "/metadata", "an object"),
    (RUN, "metadata", [], "/metadata", "an object"),
    (RUN, "metadata.name", MISSING, "/metadata/name", "a name"),
    (RUN, "metadata.name", "n" * 201, "/metadata/name", "at most 200"),
    (RUN, "metadata.name", "Upper", "/metadata/name", "a name"),
    (RUN, "metadata.name", "abc\n", "/metadata/name", "a name"),
    (RUN, "metadata.title", "", "/metadata/title", "text that is not empty"),
    (RUN, "metadata.labels", {"a-b": "x"}, "/metadata/labels/a-b", "a field name that is a token"),
    (RUN, "metadata.labels", {"a/b~": "x"}, "/metadata/labels/a~1b~0", "a field name that is a token"),
    (RUN, "metadata.labels", {"a": 1}, "/metadata/labels/a", "text"),
    (RUN, "metadata.authors", ["a", ""], "/metadata/authors/1", "text that is not empty"),
    (RUN, "metadata.uid", "x", "/metadata/uid", "no such field (known: name, title,"),
    (RUN, "extra", None, "/extra", "no such field (known: apiVersion, kind, metadata, spec)"),
    (RUN, "spec", MISSING, "/spec", "an object"),
    (RUN, "spec.protocolDigest", A.upper(), "/spec/protocolDigest", "a digest"),
    (RUN, "spec.protocolDigest", A + "\n", "/spec/protocolDigest", "a digest"),
    (RUN, "spec.protocolDigest", A[7:], "/spec/protocolDigest", "a digest"),
    (RUN, "spec.workloadDigest", MISSING, "/spec/workloadDigest", "a digest"),
    (RUN, "spec.status", MISSING, "/spec/status", "one of passed, incorrect_shape"),
    (RUN, "spec.status", "ok", "/spec/status", "one of passed, incorrect_shape"),
    (RUN, "spec.timing.latencyNs.median", 1.5, "/spec/timing/latencyNs/median", "integer nanoseconds"),
    (RUN, "spec.timing.latencyNs.mad", -1, "/spec/timing/latencyNs/mad", "integer nanoseconds"),
    (RUN, "spec.timing.latencyNs.mad", True, "/spec/timing/latencyNs/mad", "integer nanoseconds"),
    (RUN, "spec.timing.latencyNs.mad", "3 ns", "/spec/timing/latencyNs/mad", "integer nanoseconds"),
    (RUN, "spec.timing.latencyNs.mad", None, "/spec/timing/latencyNs/mad", "integer nanoseconds"),
    (RUN, "spec.timing.latencyNs.mad", 2**53, "/spec/timing/latencyNs/mad", "an integer within ±(2^53-1)"),
    (RUN, "spec.timing.latencyNs.mad", 2.0**53, "/spec/timing/latencyNs/mad", "integer nanoseconds"),
    (RUN, "spec.timing.latencyNs.p50", 3, "/spec/timing/latencyNs/p50", "no such field (known: median, mean,"),
    (RUN, "spec.timing.latencyNs", {"p05": 3}, "/spec/timing/latencyNs", "median or mean"),
    (RUN, "spec.timing.latencyNs", {}, "/spec/timing/latencyNs", "median or mean"),
    (RUN, "spec.timing.latencyNs", MISSING, "/spec/timing/latencyNs", "an object"),
    (RUN, "spec.timing.latencyNs.minimum", 2, "/spec/timing/latencyNs/minimum", "at most the p05, 1"),
    (RUN, "spec.timing.latencyNs.p95", 2, "/spec/timing/latencyNs/median", "at most the p95, 2"),
    (RUN, "spec.timing.latencyNs.mean", 0, "/spec/timing/latencyNs/mean", "at least the minimum, 1"),
    (RUN, "spec.timing.latencyNs.confidence95", [3], "/spec/timing/latencyNs/confidence95", "a pair [lo, hi]"),
    (RUN, "spec.timing.latencyNs.confidence95", [1, 2, 3], "/spec/timing/latencyNs/confidence95", "a pair [lo, hi]"),
    (RUN, "spec.timing.latencyNs.confidence95", [4, 3], "/spec/timing/latencyNs/confidence95", "lo ≤ hi"),
    (RUN, "spec.timing.latencyNs.confidence95", [3, 3.5], "/spec/timing/latencyNs/confidence95/1", "integer nanosec"),
    (RUN, "spec.timing.latencyNs.confidence95", [-1, 3], "/spec/timing/latencyNs/confidence95/0", "integer nanosec"),
    (RUN, "spec.timing.rawSamples", "x", "/spec/timing/rawSamples", "an artifact {uri, digest} or a list"),
    (RUN, "spec.timing.rawSamples", [1, 2.5], "/spec/timing/rawSamples/1", "integer nanoseconds"),
    (RUN, "spec.timing.rawSamples", {"uri": "x"}, "/spec/timing/rawSamples/digest", "a digest"),
    (RUN, "spec.timing.samples", 0, "/spec/timing/samples", "an integer from 1"),
    (RUN, "spec.timing.primaryStatistic", "p 50", "/spec/timing/primaryStatistic", "a token"),
    (RUN, "spec.measurements.0.value", 2.5, "/spec/measurements/0/value", "integer nanoseconds"),
    (RUN, "spec.measurements.1.value", math.nan, "/spec/measurements/1/value", "a finite number"),
    (RUN, "spec.measurements.1.value", math.inf, "/spec/measurements/1/value", "a finite number"),
    (RUN, "spec.measurements.1.value", True, "/spec/measurements/1/value", "a finite number"),
    (RUN, "spec.measurements.1.value", 2**53, "/spec/measurements/1/value", "an integer within"),
    (RUN, "spec.measurements.1.metric", "Peak", "/spec/measurements/1/metric", "a token"),
    (RUN, "spec.measurements", {}, "/spec/measurements", "a list"),
    (RUN, "spec.correctness.matchedRatio", 1.01, "/spec/correctness/matchedRatio", "a number from 0 to 1"),
    (RUN, "spec.correctness.maximumAbsoluteError", -1, "/spec/correctness/maximumAbsoluteError", "a number ≥ 0"),
    (RUN, "spec.sourceNative.source", MISSING, "/spec/sourceNative/source", "text"),
    (RUN, "spec.sourceNative.metrics", {"ms": "1"}, "/spec/sourceNative/metrics/ms", "a finite number"),
    (RUN, "spec.sourceNative.metrics", {"MS": 1}, "/spec/sourceNative/metrics/MS", "a field name that is a token"),
    (RUN, "spec.evidence.logs.uri", "http://example.org", "/spec/evidence/logs/uri", "an https URL"),
    (RUN, "spec.evidence.logs.uri", "file:///tmp/x", "/spec/evidence/logs/uri", "an https URL"),
    (RUN, "spec.evidence.logs.uri", "/tmp/x", "/spec/evidence/logs/uri", "a relative path"),
    (RUN, "spec.evidence.harness.commit", "c" * 39, "/spec/evidence/harness/commit", "40 hex digits"),
    (RUN, "spec.observedAt", "2024-09-03T15:39:46+00:00", "/spec/observedAt", "a UTC time"),
    (RUN, "spec.observedAt", "2024-09-03 15:39:46", "/spec/observedAt", "a UTC time"),
    (RUN, "spec.observedAt", "2024-09-03T15:39:46.000Z\n", "/spec/observedAt", "a UTC time"),
    (RUN, "spec.observedAt", "2023-02-29T15:39:46.000Z", "/spec/observedAt", "a time that exists"),
    (OP, "spec.family", "f" * 101, "/spec/family", "a slug"),
    (OP, "spec.family", "rms_norm", "/spec/family", "a slug"),
    (OP, "spec.family", "rmsnorm\n", "/spec/family", "a slug"),
    (OP, "spec.axes.Hidden", AXIS, "/spec/axes/Hidden", "a field name that is an axis name"),
    (OP, "spec.axes.heads.value", MISSING, "/spec/axes/heads/value", "an integer from 1"),
    (OP, "spec.axes.heads.value", 0, "/spec/axes/heads/value", "an integer from 1"),
    (OP, "spec.axes.heads.expression", "1", "/spec/axes/heads/expression", "no expression, because the role is const"),
    (OP, "spec.axes.hidden.expression", "1", "/spec/axes/hidden/expression", "no expression, because the role is var"),
    (OP, "spec.axes.hidden.value", 1, "/spec/axes/hidden/value", "no value, because the role is variable"),
    (OP, "spec.axes.head_dim.value", 1, "/spec/axes/head_dim/value", "no value, because the role is derived"),
    (OP, "spec.axes.head_dim.expression", MISSING, "/spec/axes/head_dim/expression", "an expression"),
    (OP, "spec.axes.head_dim.expression", "hidden ** 2", "/spec/axes/head_dim/expression", "can be computed"),
    (OP, "spec.axes.head_dim.expression", "hidden; 2", "/spec/axes/head_dim/expression", "an expression of integers"),
    (OP, "spec.axes.head_dim.expression", "head_dim", "/spec/axes/head_dim/expression", "does not need its own axis"),
    (OP, "spec.axes.hidden.minimum", 65537, "/spec/axes/hidden/minimum", "at most the maximum, 65536"),
    (OP, "spec.axes.hidden.type", "float", "/spec/axes/hidden/type", '"integer"'),
    (OP, "spec.axes.hidden.role", "fixed", "/spec/axes/hidden/role", "one of variable, constant, derived"),
    (OP, "spec.inputs", [], "/spec/inputs", "of at least 1 items"),
    (OP, "spec.inputs.1.tensor", {"shape": [], "dtype": "bf16"}, "/spec/inputs/1", "exactly one of tensor, scalar"),
    (OP, "spec.inputs.1.scalar", MISSING, "/spec/inputs/1", "exactly one of tensor, scalar"),
    (OP, "spec.inputs.1.name", "x", "/spec/inputs/1/name", "a name that no other of the inputs has"),
    (OP, "spec.inputs.0.tensor.shape.1", 0, "/spec/inputs/0/tensor/shape/1", "an integer from 1 to 2^53-1 or an axis"),
    (OP, "spec.inputs.0.tensor.shape.1", "4k", "/spec/inputs/0/tensor/shape/1", "an integer from 1 to 2^53-1 or an"),
    (OP, "spec.inputs.0.tensor.shape.1", True, "/spec/inputs/0/tensor/shape/1", "an integer from 1 to 2^53-1 or an"),
    (OP, "spec.inputs.0.tensor.shape.1", "rows", "/spec/inputs/0/tensor/shape/1", "an axis of this operation (hidden,"),
    (OP, "spec.inputs.0.tensor.layout", "dense", "/spec/inputs/0/tensor/layout", "one of row_major, col_major"),
    (OP, "spec.semantics.mutation", "all", "/spec/semantics/mutation", "one of none, in_place, destination"),
    (OP, "spec.semantics.determinism", MISSING, "/spec/semantics/determinism", "one of deterministic"),
    (CASE, "spec.axes.hidden", 0, "/spec/axes/hidden", "an integer from 1"),
    (CASE, "spec.axes.hidden", "4k", "/spec/axes/hidden", "an integer from 1"),
    (CASE, "spec.tensors.x.shape.0", 0, "/spec/tensors/x/shape/0", "an integer from 1"),
    (CASE, "spec.tensors.x.shape.0", "hidden", "/spec/tensors/x/shape/0", "an integer from 1"),
    (CASE, "spec.tensors.x.strides", [1], "/spec/tensors/x/strides", "one stride for each of 2 dimensions"),
    (CASE, "spec.tensors.x.data.parameters", {"a": [1]}, "/spec/tensors/x/data/parameters/a", "a number, a text"),
    (CASE, "spec.tensors.x.data.seed", 0.5, "/spec/tensors/x/data/seed", "an integer from 0"),
    (CASE, "spec.scalars.eps.value", "1e-6", "/spec/scalars/eps/value", "a number, true or false"),
    (CASE, "spec.scalars.eps.value", math.nan, "/spec/scalars/eps/value", "a finite number"),
    (CASE, "spec.correctness", {}, "/spec/correctness/comparator", "a token"),
    (CASE, "spec.correctness.nanPolicy", "allow", "/spec/correctness/nanPolicy", "one of reject, exact_match, ignore"),
    (CODE, "spec.projectRevision.commit", "C" * 40, "/spec/projectRevision/commit", "40 hex digits"),
    (CODE, "spec.projectRevision.repository", "git@x:y", "/spec/projectRevision/repository", "an https URL"),
    (CODE, "spec.projectRevision.repository", "https://u:p@x.org", "/spec/projectRevision/repository", "an https URL"),
    (CODE, "spec.support.dtypes", ["fp16", "bf16"], "/spec/support/dtypes", 'a sorted list: ["bf16", "fp16"]'),
    (CODE, "spec.support.dtypes", ["bf16", "bf16"], "/spec/support/dtypes", "a list without repetition"),
    (CODE, "spec.support.layouts", ["dense"], "/spec/support/layouts/0", "one of row_major"),
    (CODE, "spec.buildVariants.0.install.kind", "conda", "/spec/buildVariants/0/install/kind", "one of git, pip"),
    (CODE, "spec.licensing.evidence", {"digest": A}, "/spec/licensing/evidence/path", "text"),
    (PROTOCOL, "spec.comparability.notes", "n" * 1001, "/spec/comparability/notes", "at most 1000 characters"),
    (PROTOCOL, "spec.comparability.family", "a-b", "/spec/comparability/family", "a token"),
    (PROTOCOL, "spec.measurement.warmupDuration", "25 ms", "/spec/measurement/warmupDuration", "integer nanoseconds"),
    (PROTOCOL, "spec.measurement.compileIncluded", 0, "/spec/measurement/compileIncluded", "true or false"),
    (PROTOCOL, "spec.measurement.timer", MISSING, "/spec/measurement/timer", "a token"),
    (PROTOCOL, "spec.devicePolicy.powerLimitWatts", 0, "/spec/devicePolicy/powerLimitWatts", "watts > 0"),
    (HOST, "spec.software", MISSING, "/spec/software", "an object"),
    (HOST, "spec.software.libraries", {"liger-kernel": "1"}, "/spec/software/libraries/liger-kernel", "a field name"),
    (HOST, "spec.hardware.memoryBytes", 1.5, "/spec/hardware/memoryBytes", "an integer from 1"),
    (HOST, "spec.settings.environmentVariables", {"9": "x"}, "/spec/settings/environmentVariables/9", "a variable's"),
    (HOST, "spec.settings.environmentVariables", {"A": 1}, "/spec/settings/environmentVariables/A", "text"),
    (HOST, "spec.hostname", "x", "/spec/hostname", "no such field (known: hardware, software, settings, imageDigest)"),
    (PROJECT, "spec.kind", "company", "/spec/kind", "one of library, individual, vendor"),
    (PROJECT, "spec.homepage", "http://example.org", "/spec/homepage", "an https URL"),
    (PROJECT, "spec.homepage", "https://example.org\n", "/spec/homepage", "an https URL"),
    (PROJECT, "spec.host.id", "\ud800", "/spec/host/id", "text without lone surrogates"),
    (PROJECT, "spec.packages.0", {}, "/spec/packages/0/ecosystem /spec/packages/0/name", "text"),
]


@pytest.mark.parametrize(
    ("kind", "place", "value", "where", "expected"), FAULTY, ids=[f"{f[0]}-{f[1]}-{n}" for n, f in enumerate(FAULTY)]
)
def test_fault(kind, place, value, where, expected):
    found = faults(changed(manifest(kind), place, value))
    assert [fault.pointer for fault in found] == where.split(" ")
    assert expected in found[0].expected
    if value is MISSING and where.endswith("/" + place.rpartition(".")[2]):
        assert found[0].found == "nothing"


def test_every_field_of_every_schema_is_in_a_valid_document():
    """A field that FULL leaves out would be a field that no test has seen."""

    def fields(node: object) -> set[str]:
        if isinstance(node, list):
            return set().union(*map(fields, node))
        return set(node).union(*map(fields, node.values())) if isinstance(node, dict) else set()

    def known(node: object) -> set[str]:
        if isinstance(node, list):
            return set().union(*map(known, node))
        if not isinstance(node, dict):
            return set()
        return set(node.get("properties", {})).union(*map(known, node.values()))

    for kind, name in KINDS.items():
        assert known(validators.schema(name)) - fields(manifest(kind)) == set(), kind
    assert known(validators.schema("common")) - fields([manifest(kind) for kind in KINDS]) == set()


def test_all_faults_are_named_at_once_sorted_by_pointer():
    document = seed()
    document["run"]["spec"]["timing"]["latencyNs"] = {"p05": 4, "p95": 2, "confidence95": [3, True]}
    document["run"]["spec"]["foo"] = document["run"]["metadata"]["bar"] = 1
    del document["run"]["spec"]["status"]
    document["environment"]["spec"]["hardware"]["vendor"] = None
    document["extra"] = 1
    del document["protocol"]
    assert pointers(document) == [
        "/environment/spec/hardware/vendor",
        "/extra",
        "/protocol",
        "/run/metadata/bar",
        "/run/spec/environmentDigest",
        "/run/spec/foo",
        "/run/spec/status",
        "/run/spec/timing/latencyNs",
        "/run/spec/timing/latencyNs/confidence95/1",
        "/run/spec/timing/latencyNs/p05",
    ]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (None, [("", "null")]),
        ([], [("", "[]")]),
        ("x", [("", '"x"')]),
        ({}, [("/apiVersion", "nothing"), ("/kind", "nothing")]),
        ({"apiVersion": identity.API_VERSION}, [("/kind", "nothing")]),
        ({"apiVersion": "v2", "kind": "Benchmark"}, [("/apiVersion", '"v2"'), ("/kind", '"Benchmark"')]),
        ({"kind": ["BenchmarkRun"]}, [("/apiVersion", "nothing"), ("/kind", '["BenchmarkRun"]')]),
        ({"run": 1}, [("/environment", "nothing"), ("/protocol", "nothing"), ("/run", "1")]),
        ({"kind": "Catalog"}, [(f"/{f}", "nothing") for f in ("aliases", "index", "objects", "summary")]),
    ],
)
def test_what_is_no_document(document, expected):
    assert [(fault.pointer, fault.found) for fault in faults(document)] == expected


# ---- bundles and catalogs


@pytest.mark.parametrize(("part", "field"), [("protocol", "protocolDigest"), ("environment", "environmentDigest")])
def test_a_bundle_cites_what_it_holds(part, field):
    document = bundle()
    document["run"]["spec"][field] = A
    (fault,) = faults(document)
    assert fault == Fault(f"/run/spec/{field}", f'"{A}"', f"the digest of /{part}, {identity.digest(document[part])}")


def test_the_metadata_of_a_bundled_protocol_may_differ():
    document = bundle()
    document["protocol"]["metadata"]["title"] = "Another"
    assert faults(document) == []


def test_the_parts_of_a_bundle_have_their_kinds():
    document = bundle()
    document["environment"]["kind"] = "BenchmarkProtocol"
    assert "/environment/kind" in pointers(document)


def first_digest(kind: str) -> str:
    return identity.digest(manifest(kind))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda c: c["objects"].update({"x": manifest(PROJECT)}), ["/objects/x"]),
        (lambda c: c["objects"].update({A: 5}), [f"/objects/{A}"]),
        (lambda c: c["objects"].update({A: {}}), [f"/objects/{A}/kind"]),
        (lambda c: c["objects"].update({A: {**manifest(PROJECT), "kind": "x"}}), [f"/objects/{A}/kind"]),
        (lambda c: c["objects"].update({A: {**manifest(PROJECT), "x": 1}}), [f"/objects/{A}/x"]),
        (
            lambda c: c["objects"][first_digest(RUN)]["spec"]["timing"]["latencyNs"].update(confidence95=[4, 3]),
            [f"/objects/{first_digest(RUN)}/spec/timing/latencyNs/confidence95"],
        ),
        (
            lambda c: c["objects"].update({A: changed(manifest(CODE), "spec.support.dtypes", ["b", "a"]), "x": 1}),
            [f"/objects/{A}/spec/support/dtypes", "/objects/x", "/objects/x"],
        ),
        (lambda c: c["aliases"].update({A: []}), [f"/aliases/{A}"]),
        (lambda c: c["aliases"].update({A: [{"title": "x"}]}), [f"/aliases/{A}/0/name"]),
        (lambda c: c.update(objects=[]), ["/objects"]),
        (lambda c: c.update(index=[]), ["/index"]),
        (lambda c: c.update(index={"a": [math.nan]}), ["/index/a/0"]),
        (lambda c: c.update(apiVersion=identity.API_VERSION), ["/apiVersion"]),
        (lambda c: c.pop("summary"), ["/summary"]),
    ],
)
def test_faults_of_a_catalog(change, expected):
    document = catalog()
    change(document)
    assert pointers(document) == expected


# ---- the fast path and the located one agree

DOCUMENTS = [manifest(kind) for kind in KINDS] + [bundle(), catalog()]


def places(node: object, place: tuple = ()) -> list[tuple]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place, *(deeper for key, item in items for deeper in places(item, (*place, key)))]


odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from(
        [2**53 - 1, 2**53, -(2**53), 10**30, 10**5000, 1.0, 1.5, -0.0, 2.0**53, 1e300, math.nan, -math.inf]
    ),
    st.sampled_from(["", "a", "A", "a\n", "a_b", "a-b", "é", "\ud800", A, URL, "passed", "timeout", "ns", "derived"]),
    st.sampled_from([[], {}, [1, 1], ["b", "a"], [[]], {"": 1}, {"a": 1}, {1: 2}, (1,), b"x", {"name": "x"}]),
    st.sampled_from(["median", "0001-01-01T00:00:00Z", "2024-02-30T00:00:00Z", "1//0", "hidden"]),
).map(copy.deepcopy)  # a later mutation may go inside


@st.composite
def mutated(draw):
    document = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places(document)))
        if not place:
            continue
        node = document
        for key in place[:-1]:
            node = node[key]
        action = draw(st.sampled_from(["set", "set", "remove", "add"]))
        target = node[place[-1]]
        if action == "remove":
            del node[place[-1]]
        elif action == "add" and isinstance(target, dict):
            target[draw(st.sampled_from(["a", "x/y", "mean", "value", "tensor", "timing", "\ud800", "A"]))] = draw(odd)
        elif action == "add" and isinstance(target, list):
            target.append(draw(odd))
        else:
            node[place[-1]] = draw(odd)
    return document


@settings(deadline=None)  # the first call compiles and imports
@given(mutated())
def test_faults_never_raises_and_is_sorted_and_on_one_line(document):
    found = faults(document)
    assert found == sorted(found)
    assert len(found) == len(set(found))
    for fault in found:
        text = str(fault)
        assert text.encode("utf-8")  # no lone surrogate reaches a terminal
        assert len(text.splitlines()) == 1
        assert len(fault.found) <= 80
    if not found:
        assert identity.canonical_json(document)


@settings(deadline=None)  # the first call compiles and imports
@given(mutated())
def test_the_fast_path_accepts_exactly_what_jsonschema_accepts(document):
    for part in [document, *document.values()]:
        if not (isinstance(part, dict) and isinstance(part.get("kind"), str) and part["kind"] in KINDS):
            continue
        name = KINDS[part["kind"]]
        if not validators.plain(part):
            assert not validators.accepts(name, part)
        else:
            assert validators.accepts(name, part) == (explained(name, part) == set())


@settings(deadline=None)  # the first call compiles and imports
@given(mutated())
def test_what_is_plain_has_no_strays(document):
    if validators.plain(document):
        assert list(identity.strays(document)) == []


@settings(deadline=None)  # the first call compiles and imports
@given(mutated())
def test_validity_is_that_of_the_canonical_form(document):
    """Two texts with one digest are both valid or both not: 200.0 is 200."""
    try:
        data = identity.canonical_json(document)
    except KernelcatError:
        assert faults(document) != []
        return
    again = json.loads(data, parse_int=lambda digits: int(digits) if len(digits) < 16 else float(digits))
    if document == again:  # tuples are lists there
        assert pointers(again) == pointers(document)


def nested(levels: int) -> dict:
    value: dict = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [100, 500, 20_000])
def test_endless_nesting_is_a_fault(levels):
    (fault,) = faults({**catalog(), "index": nested(levels)})
    assert fault.pointer == "/index" + "/a" * 99
    assert "levels" in fault.expected


def test_bounded_nesting_is_none():
    assert faults({**catalog(), "index": nested(98)}) == []


def test_many_objects_in_a_set_are_refused_in_time():
    """They cannot be sorted, and comparing each with each takes minutes."""
    document = changed(manifest(CODE), "spec.support.dtypes", [{"a": number} for number in range(5000)])
    start = time.process_time()
    assert len(faults(document)) == 5000
    assert time.process_time() - start < 5


def test_a_set_does_not_repeat_what_is_no_text():
    found = faults(changed(manifest(CODE), "spec.support.dtypes", [{"a": 1, "b": 2}, {"b": 2, "a": 1}]))
    assert ("/spec/support/dtypes", "a list without repetition") in {(fault.pointer, fault.expected) for fault in found}


def test_faults_of_many_axes_are_short():
    """Each names the axes: all of them in each of thousands of faults are gigabytes."""
    document = manifest("OperationSpec")
    document["spec"]["axes"] |= {f"axis{n}": {"role": "variable", "type": "integer"} for n in range(1000)}
    document["spec"]["inputs"][0]["tensor"]["shape"] = ["nowhere"] * 1000
    found = faults(document)
    assert len(found) == 1000
    assert max(len(str(fault)) for fault in found) < 250


# ---- the schema files


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_schemas_are_draft_2020_12(path):
    text = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(text)
    assert text["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert text["$id"] == path.name


def nodes(node: object):
    """All schemas inside a schema but the conditions, which describe no value by themselves."""
    if isinstance(node, dict):
        yield node
        for keyword, item in node.items():
            yield from nodes(item) if keyword != "if" else ()
    elif isinstance(node, list):
        for item in node:
            yield from nodes(item)


@pytest.mark.parametrize("name", sorted(OURS))
def test_objects_are_closed_and_fields_described(name):
    for node in nodes(validators.schema(name)):
        if "type" in node and "properties" in node and node.get("title") != "a manifest":  # whose kind closes it
            assert node["additionalProperties"] is False, node
            assert [field for field, s in node["properties"].items() if "description" not in s] == []
        if isinstance(node.get("pattern"), str):
            assert node["pattern"].endswith(r"$(?!\n)")
            assert not re.search(node["pattern"], "a\n")
        if node.get("type") == "integer" or "integer" in node.get("type", ()):
            assert node["maximum"] == 2**53 - 1 and node["minimum"] in (0, 1)


@pytest.mark.parametrize("name", sorted(KINDS.values()))
def test_our_schemas_take_the_fast_path(name):
    assert validators._compiled(name) is not None


# ---- configuration files


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """A folder with one schema, `suite`, in the place of the project's."""

    def write(content: dict) -> None:
        content = {"$id": "suite.schema.json", **content}
        (tmp_path / "suite.schema.json").write_text(json.dumps(content), encoding="utf-8")

    caches = (validators.schema, validators.validator, validators._compiled)
    monkeypatch.setattr(validators, "folder", lambda: tmp_path)
    for cache in caches:
        cache.cache_clear()
    yield write
    for cache in caches:
        cache.cache_clear()


SUITE = {
    "type": "object",
    "title": "a suite",
    "minProperties": 1,
    "additionalProperties": {
        "type": "object",
        "additionalProperties": False,
        "required": ["axes"],
        "properties": {"axes": {"type": "object", "additionalProperties": {"$ref": "#/$defs/sizes"}}},
    },
    "$defs": {"sizes": {"title": "integers > 0", "type": "array", "items": {"type": "integer", "minimum": 1}}},
}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"rms_norm": {"axes": {"hidden": "4k"}}}, 'rms_norm.axes.hidden: expected integers > 0, found "4k"'),
        ({"rms_norm": {"axes": {"hidden": [1, 0]}}}, "rms_norm.axes.hidden.1: expected an integer ≥ 1, found 0"),
        ({"rms_norm": {}}, "rms_norm.axes: expected an object, found nothing"),
        ({"rms_norm": {"axes": {}, "x": 1}}, "rms_norm.x: expected no such field (known: axes), found 1"),
        ({"a": 1, "b": 2, "c": 3}, "a: expected an object, found 1 (and 2 more)"),
        ({"a/b": {"axes": {"~": [True]}}}, "a/b.axes.~.0: expected an integer ≥ 1, found true"),
        ({}, "top level: expected an object of at least 1 fields, found {}"),
        ([], "top level: expected a suite, found []"),
        ({"a": {"axes": {"h": [2**53]}}}, "a.axes.h.0: expected an integer within ±(2^53-1), found 9007199254740992"),
        ({"a": {"axes": {"h": [1e300]}}}, "a.axes.h.0: expected an integer ≥ 1, found 1e+300"),
    ],
)
def test_check_says_the_place_in_one_line(suite, value, message):
    suite(SUITE)
    with pytest.raises(KernelcatError) as caught:
        check(value, "suite", "config/suites/smoke.yaml")
    assert str(caught.value) == f"config/suites/smoke.yaml: {message}"


def test_check_accepts(suite):
    suite(SUITE)
    assert check({"rms_norm": {"axes": {"hidden": [4096]}}}, "suite", "smoke.yaml") is None


SIZE = {"type": "integer", "exclusiveMinimum": 0}


@pytest.mark.parametrize(
    ("content", "good", "bad", "message"),
    [
        ({"anyOf": [SIZE, {"type": "array", "items": SIZE}]}, [1], [0], "0: expected an integer > 0, found 0"),
        ({"anyOf": [SIZE, {"const": "all"}]}, 1, {}, 'top level: expected an integer > 0, or "all", found {}'),
        ({"oneOf": [SIZE, {"type": "integer", "maximum": 5}]}, 6, 3, "top level: expected an integer > 0, or an int"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}, "top level: expected 'b' is a dependency"),
        ({"patternProperties": {"^a": SIZE}}, {"a": 1, "b": 0}, {"a": 0}, "a: expected an integer > 0, found 0"),
        ({"properties": {"a": {"$ref": "#"}}, "maxProperties": 1}, {"a": {}}, {"a": {"a": 1, "b": 2}}, "a: expected"),
        ({"prefixItems": [SIZE]}, [1, "x"], [0], "0: expected an integer > 0, found 0"),
        ({"type": "array", "contains": {"const": 1}}, [1, "x"], [0], "top level: expected [0] does not contain"),
        ({"properties": {"a": {"not": {}, "title": "no a"}}}, {"b": 1}, {"a": 1}, "a: expected no a, found 1"),
        ({"not": {"const": 1}, "title": "anything but 1"}, 2, 1, "top level: expected anything but 1, found 1"),
        ({"type": ["string", "null"]}, None, 3, "top level: expected text or null, found 3"),
    ],
)
def test_check_speaks_of_other_keywords_too(suite, content, good, bad, message):
    """Some of these are unknown to the fast path, which must then not accept."""
    suite(content)
    assert check(good, "suite", "c.yaml") is None
    with pytest.raises(KernelcatError) as caught:
        check(bad, "suite", "c.yaml")
    assert str(caught.value).startswith(f"c.yaml: {message}")
    assert len(str(caught.value).splitlines()) == 1


# ---- faults as text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None, "x"]}, '{"a": [1, null, "x"]}'),
        ("a\nb\u2028\ud800", '"a\\nb\\u2028\\ud800"'),
        ("é·", '"é·"'),
        ("x" * 100, '"' + "x" * 78 + "…"),
        (math.nan, "NaN"),
        (b"x", "a Python bytes"),
        ((1,), "a Python tuple"),
    ],
)
def test_shown(value, text):
    assert shown(value) == text


def test_shown_is_short_whatever_the_size():
    assert len(shown(list(range(10**6)))) == 80
    assert len(shown({"a" * 10**6: "b" * 10**6})) == 80
    assert shown(10**5000) == "an integer of more than 80 digits"
    assert len(shown(nested(10_000))) <= 80


def test_pointer_escapes():
    assert pointer("a/b", 0, "~") == "/a~1b/0/~0"
    assert pointer() == ""


def test_a_fault_is_one_line():
    fault = Fault("/a\nb", '"x"', "text")
    assert str(fault) == '/a\\nb: expected text, found "x"'
    assert len(str(Fault("/" + "a" * 10**6, '"x"', "text"))) < 1100
    assert str(Fault("", "[]", "an object")) == "top level: expected an object, found []"


def test_schemas_are_found_inside_an_installed_package(tmp_path, monkeypatch):
    """A wheel holds the schemas in kernelcat/schemas; a checkout has them at its top."""
    assert validators.folder() == REPOSITORY / "schemas"
    (tmp_path / "kernelcat" / "schemas").mkdir(parents=True)
    monkeypatch.setattr(validators, "__file__", str(tmp_path / "kernelcat" / "validators.py"))
    assert validators.folder.__wrapped__() == tmp_path / "kernelcat" / "schemas"


def test_there_is_one_schema_for_each_kind():
    assert {f"{name}.schema.json" for name in OURS} <= {path.name for path in SCHEMAS}
    assert schema.KINDS.keys() == FULL.keys()
