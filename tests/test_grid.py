"""The grid: a suite gives exactly its configurations, or one line of what is wrong; a job changes with what it runs."""

import collections
import hashlib
import itertools
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from kernelcat import grid, kernels, roofline
from kernelcat.errors import KernelcatError
from kernelcat.grid import Configuration
from kernelcat.kernel import Case
from kernelcat.timing import Sampling

ROOT = Path(__file__).parents[1]
PACKAGE = Path(grid.__file__).parent

SAMPLING = {"precision": 0.01, "seconds": 1, "samples": 1000}
CONFIG = {
    "suite": "own",
    "device": "cpu",
    "protocol": {"cuda": "events", "cpu": "monotonic"},
    "sampling": SAMPLING,
    "order_seed": 0,
    "after_out_of_memory": "skip",
    "process": "warm",
    "compile_cache": ".cache",
}
SMOKE = grid.expand(CONFIG | {"suite": "smoke"}, suites=ROOT / "config" / "suites").configurations
RMS_NORM = {"providers": ["liger"], "modes": ["forward"], "dtypes": ["fp32"], "axes": {"rows": 64, "hidden": 256}}
ROPE = {**RMS_NORM, "axes": {"seq": 4, "hidden": 32, "q_heads": 4, "kv_heads": 2}}


@pytest.fixture
def expand(tmp_path):
    """Expands a suite (a dict, or the file's text) with changes to the config."""

    def expanded(entries: dict | str, /, **changes):
        text = entries if isinstance(entries, str) else json.dumps(entries)
        (tmp_path / "own.yaml").write_text(text)
        return grid.expand({**CONFIG, **changes}, "config.yaml", tmp_path)

    return expanded


def cases(expanded) -> list[tuple]:
    """The axes' values in the kernel's order, the dtype and the scalars of each configuration."""
    found = [configuration.case for configuration in expanded.configurations]
    return [(*case.axes.values(), case.dtype, *case.scalars.values()) for case in found]


# ---- what a suite gives


def test_lists_expand_to_their_product(expand):
    entry = {
        "providers": ["liger", "huggingface"],
        "modes": ["forward", "full"],
        "dtypes": ["fp32", "bf16"],
        "axes": {"hidden": [8, 16, 24], "rows": 4},
    }
    found = expand({"rms_norm": entry}).configurations
    product = {
        (provider, mode, dtype, hidden)
        for provider in ("liger", "huggingface")
        for mode in ("forward", "full")
        for dtype in ("fp32", "bf16")
        for hidden in (8, 16, 24)
    }
    assert len(found) == 24
    assert {(c.provider, c.mode, c.case.dtype, c.case.axes["hidden"]) for c in found} == product
    assert {(c.kernel, c.protocol, c.device, c.case.axes["rows"]) for c in found} == {
        ("rms_norm", "monotonic", "cpu", 4)
    }


def test_axes_stand_in_the_order_of_the_kernel(expand):
    """The first one is the x of a CSV row."""
    found = expand({"rms_norm": {**RMS_NORM, "axes": {"hidden": 8, "rows": 4}}}).configurations[0]
    assert list(found.case.axes.items()) == [("rows", 4), ("hidden", 8)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [(64, 256, "fp32", 1e-6)]),
        ({"axes": {"rows": [1, 2], "hidden": [3, 4]}}, [(r, h, "fp32", 1e-6) for r in (1, 2) for h in (3, 4)]),
        ({"axes": {"rows": [1, 1], "hidden": 3}}, [(1, 3, "fp32", 1e-6)]),
        ({"scalars": {"eps": 1e-5}}, [(64, 256, "fp32", 1e-5)]),
        ({"scalars": {"eps": [1e-5, 1]}}, [(64, 256, "fp32", 1e-5), (64, 256, "fp32", 1)]),
        ({"scalars": {}}, [(64, 256, "fp32", 1e-6)]),
        ({"cases": [{"axes": {"rows": 1, "hidden": 2}}]}, [(64, 256, "fp32", 1e-6), (1, 2, "fp32", 1e-6)]),
        (
            {
                "axes": None,
                "scalars": {"eps": 1e-5},
                "cases": [
                    {"axes": {"rows": 1, "hidden": [2, 3]}},
                    {"axes": {"rows": 4, "hidden": 5}, "dtypes": ["bf16"], "scalars": {"eps": 1e-4}},
                ],
            },
            [(1, 2, "fp32", 1e-5), (1, 3, "fp32", 1e-5), (4, 5, "bf16", 1e-4)],
        ),
    ],
)
def test_cases(expand, changes, expected):
    entry = {key: value for key, value in {**RMS_NORM, **changes}.items() if value is not None}
    assert cases(expand({"rms_norm": entry})) == expected


def test_providers_that_the_device_does_not_run_are_left_out_and_said_so(expand):
    entry = {**RMS_NORM, "providers": ["torch_compile", "liger"], "modes": ["forward", "full"]}
    suite = {"rms_norm": entry, "softmax": {**entry, "providers": ["torch_compile"], "modes": ["full"]}}
    found = expand(suite)
    assert [c.provider for c in found.configurations] == ["liger", "liger"]
    assert len(found.left_out) == 3
    assert found.left_out_lines() == [
        "left out 3 configurations of torch_compile: compiled code is measured on GPUs only"
    ]
    assert expand({"softmax": suite["softmax"]}).left_out_lines() == [
        "left out 1 configuration of torch_compile: compiled code is measured on GPUs only"
    ]
    on_gpu = expand(suite, device="cuda")
    asked = [c for c in on_gpu.configurations if c.kernel in suite]
    assert len(asked) == 5
    assert on_gpu.left_out_lines() == []
    assert {(c.device, c.protocol) for c in asked} == {("cuda", "events")}


@pytest.mark.parametrize(
    ("protocols", "expected"),
    [
        ("graph", ["graph"]),
        (["events"], ["events"]),
        (["graph", "events"], ["graph", "events"]),
        (["do_bench", "graph", "events"], ["do_bench", "graph", "events"]),
    ],
)
def test_each_protocol_is_a_configuration_of_its_own(expand, protocols, expected):
    entry = {**RMS_NORM, "modes": ["forward", "full"]}
    found = expand({"rms_norm": entry}, device="cuda", protocol={"cuda": protocols, "cpu": "monotonic"})
    asked = [c for c in found.configurations if c.kernel == "rms_norm"]
    assert [(c.mode, c.protocol) for c in asked] == [(m, name) for m in ("forward", "full") for name in expected]
    assert len({c.path for c in asked}) == len(asked)


def test_a_sampling_is_that_of_the_config_where_the_protocol_adapts(expand):
    def samplings(**changes):
        sampling = {**SAMPLING, **changes}
        protocols = {"cuda": ["graph", "events", "do_bench"], "cpu": "monotonic"}
        found = expand({"rms_norm": RMS_NORM}, device="cuda", protocol=protocols, sampling=sampling)
        return {c.protocol: (c.sampling, c.path) for c in found.configurations if c.kernel == "rms_norm"}

    first, other = samplings(), samplings(precision=0.02)
    assert first["graph"][0] == first["events"][0] == Sampling(0.01, 1, 1000)
    assert other["graph"][0] == other["events"][0] == Sampling(0.02, 1, 1000)
    assert first["do_bench"] == other["do_bench"]
    assert first["do_bench"][0] is None
    assert first["graph"][1] != other["graph"][1]


def test_own_kernels_are_found(expand, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "grid_test_kernel.py").write_text((PACKAGE / "kernels" / "rms_norm.py").read_text())
    found = expand({"grid_test_kernel": RMS_NORM}, kernels=str(tmp_path)).configurations
    assert [c.kernel for c in found] == ["grid_test_kernel"]


@pytest.mark.parametrize("suite", ["smoke", "release"])
def test_a_suite_of_everything_has_every_provider(suite):
    found = grid.expand(CONFIG | {"suite": suite}, suites=ROOT / "config" / "suites")
    asked = {(c.kernel, c.provider) for c in [*found.configurations, *(c for c, _ in found.left_out)]}
    known = {(name, provider) for name, kernel in kernels.load_all().items() for provider in kernel.providers}
    assert asked == {pair for pair in known if pair[0] not in roofline.MEMORY.keys() | roofline.MATRIX.keys()}
    if suite == "smoke":
        assert {(c.mode, c.protocol) for c in found.configurations} == {("full", "monotonic")}


@pytest.mark.parametrize("suite", sorted(path.stem for path in (ROOT / "config" / "suites").glob("*.yaml")))
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_suite_of_the_project_expands(suite, device):
    assert grid.expand(CONFIG | {"suite": suite, "device": device}, suites=ROOT / "config" / "suites").configurations


def test_a_whole_number_with_a_point_is_an_integer(expand):
    sampling = SAMPLING | {"samples": 1000.0}
    assert [grid.job(c) for c in expand({"rms_norm": RMS_NORM}, sampling=sampling).configurations] == [
        grid.job(c) for c in expand({"rms_norm": RMS_NORM}).configurations
    ]
    assert grid.options(CONFIG | {"order_seed": 7.0}) == grid.options(CONFIG | {"order_seed": 7})


# ---- paths


def configuration(**changes) -> Configuration:
    values = {"kernel": "rms_norm", "provider": "liger", "mode": "full", "protocol": "events", "device": "cuda"}
    case = Case({"rows": 2, "hidden": 16}, "bf16", {"eps": 1e-6})
    return Configuration(**{**values, "case": case, "sampling": Sampling(**SAMPLING), **changes})


def test_the_path_is_readable_and_stable():
    """It names the files of results: another digest at its end would orphan all that was ever measured."""
    text = (
        '{"case":{"axes":{"hidden":16,"rows":2},"dtype":"bf16","scalars":{"eps":0.000001}},"device":"cuda",'
        '"kernel":"rms_norm","mode":"full","protocol":"events","provider":"liger",'
        '"sampling":{"precision":0.01,"samples":1000,"seconds":1}}'
    )
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    assert configuration().path == f"cuda/rms_norm/full/liger/hidden16-rows2-bf16-events-{name}"


def test_the_path_does_not_depend_on_the_order_of_axes():
    case = Case({"hidden": 16, "rows": 2}, "bf16", {"eps": 1e-6})
    assert configuration(case=case).path == configuration().path


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel": "softmax"},
        {"provider": "huggingface"},
        {"mode": "forward"},
        {"protocol": "graph"},
        {"device": "cpu"},
        {"sampling": None},
        {"sampling": Sampling(0.02, 1, 1000)},
        {"sampling": Sampling(0.01, 2, 1000)},
        {"sampling": Sampling(0.01, 1, 1001)},
        {"case": Case({"rows": 2, "hidden": 17}, "bf16", {"eps": 1e-6})},
        {"case": Case({"rows": 2, "hidden": 16}, "fp16", {"eps": 1e-6})},
        {"case": Case({"rows": 2, "hidden": 16}, "bf16", {"eps": 1e-5})},
        {"case": Case({"rows": 2, "hidden": 16}, "bf16")},
    ],
)
def test_every_part_of_a_configuration_is_in_its_path(changes):
    assert configuration(**changes).path != configuration().path


def test_the_path_of_many_axes_fits_into_a_file_system():
    case = Case({f"axis_with_a_long_name_{number}": 2**50 for number in range(20)}, "bf16")
    assert max(map(len, configuration(case=case).path.split("/"))) < 200


@pytest.mark.parametrize("sampling", [Sampling(**SAMPLING), None])
def test_a_configuration_survives_json(sampling):
    cell = configuration(sampling=sampling)
    again = Configuration.from_json(json.loads(json.dumps(cell.as_json())))
    assert again == cell
    assert list(again.case.axes) == ["rows", "hidden"]


# ---- the order of measuring


def ordered(seed: int, cells=SMOKE) -> list[Configuration]:
    drawn = grid.Grid(cells, [])
    places = drawn.priorities(seed)
    return [drawn.by_path[path] for path in sorted(places, key=places.get, reverse=True)]


def test_the_order_is_drawn_with_the_seed():
    assert ordered(1) == ordered(1) == ordered(1, SMOKE[::-1])
    assert ordered(1) != ordered(2) != ordered(0) != SMOKE
    assert sorted(c.path for c in ordered(1)) == sorted(c.path for c in SMOKE)


@pytest.mark.parametrize("seed", [0, 1, 2**53 - 1])
def test_small_cases_come_first_and_the_providers_of_one_follow_each_other(seed):
    found = ordered(seed)
    sizes = [math.prod(c.case.axes.values()) for c in found]
    assert sizes == sorted(sizes)
    cases = [(c.kernel, c.case.key) for c in found]
    assert len(list(itertools.groupby(cases))) == len(set(cases))


def test_an_order_favours_no_provider():
    """How often each of a case's three providers is the first, over 200 seeds."""
    cells = [c for c in SMOKE if c.kernel == "fused_linear_cross_entropy"]
    firsts = collections.Counter(ordered(seed, cells)[0].provider for seed in range(200))
    assert len(firsts) == 3
    assert min(firsts.values()) > 40  # of 67 expected; the standard deviation is 7


# ---- the device


@pytest.mark.parametrize(
    ("device", "gpus", "expected"),
    [
        ("auto", None, "cpu"),
        ("auto", 0, "cpu"),
        ("auto", 1, "cuda"),
        ("auto", 8, "cuda"),
        ("cpu", 8, "cpu"),
        ("cuda", None, "cuda"),
    ],
)
def test_auto_is_cuda_where_a_driver_finds_a_gpu(monkeypatch, expand, device, gpus, expected):
    def init():
        if gpus is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", init)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: gpus)
    assert {c.device for c in expand({"rms_norm": RMS_NORM}, device=device).configurations} == {expected}


# ---- what is wrong is said in one line


def refused(expand, entries: dict | str, changes: dict | None = None) -> str:
    with pytest.raises(KernelcatError) as caught:
        expand(entries, **(changes or {}))
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "config.yaml: colour: expected no such field"),
        ({"suite": "nightly"}, "config.yaml: suite: expected one of own, found 'nightly'"),
        (
            {"suite": "../own"},
            'config.yaml: suite: expected the name of a file in config/suites/, without .yaml, found "',
        ),
        ({"suite": 1}, "config.yaml: suite: expected the name of a file in config/suites/, without .yaml, found 1"),
        ({"device": "gpu"}, 'config.yaml: device: expected one of auto, cuda, cpu, found "gpu"'),
        (
            {"protocol": {"cuda": "events", "cpu": "events"}},
            "config.yaml: protocol.cpu: expected one of monotonic, found 'events'",
        ),
        (
            {"device": "cuda", "protocol": {"cuda": "monotonic", "cpu": "monotonic"}},
            "config.yaml: protocol.cuda: expected one of do_bench, events, graph, found 'monotonic'",
        ),
        (
            {"device": "cuda", "protocol": {"cuda": ["graph", "fast"], "cpu": "monotonic"}},
            "config.yaml: protocol.cuda: expected one of do_bench, events, graph, found 'fast'",
        ),
        (
            {"protocol": {"cpu": "monotonic"}},
            "config.yaml: protocol.cuda: expected the name of a protocol, or a list of several, found nothing",
        ),
        (
            {"protocol": {"cuda": [], "cpu": "monotonic"}},
            "config.yaml: protocol.cuda: expected the name of a protocol, or a list of several, found []",
        ),
        (
            {"protocol": {"cuda": ["graph", "graph"], "cpu": "monotonic"}},
            'config.yaml: protocol.cuda: expected a list without repetition, found ["graph", "graph"]',
        ),
        ({"protocol": {"cuda": [1], "cpu": "monotonic"}}, "config.yaml: protocol.cuda.0: expected text, found 1"),
        ({"protocol": "monotonic"}, 'config.yaml: protocol: expected an object, found "monotonic"'),
        ({"sampling": 100}, "config.yaml: sampling: expected an object, found 100"),
        ({"sampling": {**SAMPLING, "rounds": 3}}, "config.yaml: sampling.rounds: expected no such field"),
        (
            {"sampling": {"precision": 0.01, "seconds": 1}},
            "config.yaml: sampling.samples: expected an integer from 5 to",
        ),
        *(
            ({"sampling": {**SAMPLING, key: value}}, f"config.yaml: sampling.{key}: expected {expected}, found {found}")
            for key, value, expected, found in [
                ("precision", 0, "a number above 0 and below 1", "0"),
                ("precision", 1, "a number above 0 and below 1", "1"),
                ("precision", "1 %", "a number above 0 and below 1", '"1 %"'),
                ("seconds", 0, "a number above 0, at most 3600", "0"),
                ("seconds", -1, "a number above 0, at most 3600", "-1"),
                ("samples", 4, "an integer from 5 to 100000", "4"),
                ("samples", 10.5, "an integer from 5 to 100000", "10.5"),
                ("samples", True, "an integer from 5 to 100000", "true"),
            ]
        ),
        ({"order_seed": -1}, "config.yaml: order_seed: expected an integer of at least 0, found -1"),
        ({"order_seed": "x"}, 'config.yaml: order_seed: expected an integer of at least 0, found "x"'),
        ({"process": "cold"}, 'config.yaml: process: expected one of warm, fresh, found "cold"'),
        (
            {"compile_cache": ""},
            'config.yaml: compile_cache: expected a path without control characters and { } < >, found ""',
        ),
        (
            {"compile_cache": None},
            "config.yaml: compile_cache: expected a path without control characters and { } < >, found null",
        ),
        *(
            ({key: value}, f"config.yaml: {key}{name}: expected a path without control characters and {{ }} < >, found")
            for key, name in (("compile_cache", ""), ("baseline", ""), ("kernels", ""), ("imports", ".a"))
            for text in ("a\nb", "a\0b", "a\x1bb", "{name}.csv", "<results>/a", "x" * 4001)
            for value in [{"a": text} if name else text]
        ),
        ({"kernels": "x" * 300}, "config.yaml: kernels: expected a folder with kernel files, found 'xxx"),
        ({"suite": "x" * 300}, "config.yaml: suite: expected one of own, found 'xxx"),
        ({"imports": {"A b": "x.csv"}}, "config.yaml: imports.A b: expected a field name that is a name of a-z"),
        (
            {"kernels": "no_such_folder"},
            "config.yaml: kernels: expected a folder with kernel files, found 'no_such_folder'",
        ),
    ],
)
def test_faults_of_a_config(expand, changes, message):
    assert refused(expand, {"rms_norm": RMS_NORM}, changes).startswith(message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "rms_norm.colour: expected no such field"),
        (
            {"providers": ["ligr"]},
            "rms_norm.providers: expected some of liger, huggingface, torch_compile, found 'ligr'",
        ),
        ({"providers": "liger"}, 'rms_norm.providers: expected a list of providers, found "liger"'),
        ({"providers": []}, "rms_norm.providers: expected a list of providers, found []"),
        ({"modes": ["fwd"]}, 'rms_norm.modes.0: expected one of forward, backward, full, no-grad-forward, found "fwd"'),
        ({"dtypes": ["fp32", "fp64"]}, 'rms_norm.dtypes.1: expected one of bf16, fp16, fp32, found "fp64"'),
        ({"dtypes": None}, "rms_norm: expected dtypes, found none"),
        ({"axes": None}, "rms_norm: expected axes or cases, found neither"),
        ({"axes": {"rows": 64, "width": 2}}, "rms_norm.axes: expected rows, hidden, found rows, width"),
        ({"axes": {"rows": 64}}, "rms_norm.axes: expected rows, hidden, found rows"),
        ({"axes": {"rows": 64, "a\nb": 1}}, r"rms_norm.axes: expected rows, hidden, found rows, a\nb"),
        ({"axes": {**RMS_NORM["axes"], "x": 1}}, "rms_norm.axes: expected rows, hidden, found rows, hidden, x"),
        ({"scalars": {"epsilon": 1}}, "rms_norm.scalars: expected some of ['eps'], found ['epsilon']"),
        ({"scalars": {"eps": "tiny"}}, 'rms_norm.scalars.eps: expected finite numbers, found "tiny"'),
        ({"scalars": {"eps": True}}, "rms_norm.scalars.eps: expected finite numbers, found true"),
        ({"cases": []}, "rms_norm.cases: expected a list of cases, found []"),
        ({"cases": [{"axes": {"rows": 1}}]}, "rms_norm.cases.0.axes: expected rows, hidden, found rows"),
        (
            {"cases": [{"axes": {"rows": 1, "hidden": 0}}]},
            "rms_norm.cases.0.axes.hidden: expected integers > 0, found 0",
        ),
        (
            {"cases": [{"dtypes": ["bf16"]}]},
            "rms_norm.cases.0.axes: expected the sizes of the kernel's axes, found not",
        ),
    ],
)
def test_faults_of_a_suite(expand, tmp_path, changes, message):
    entry = {key: value for key, value in {**RMS_NORM, **changes}.items() if value is not None}
    assert refused(expand, {"softmax": RMS_NORM, "rms_norm": entry}).startswith(f"{tmp_path / 'own.yaml'}: {message}")


@pytest.mark.parametrize("sizes", [list(range(1, 10_001)), [1] * 10_000])
def test_a_grid_is_bounded(expand, tmp_path, sizes):
    """A few lines multiply to more than any memory holds."""
    entry = {**RMS_NORM, "axes": {"rows": sizes, "hidden": sizes}, "scalars": {"eps": sizes}}
    expected = f"rms_norm: expected a grid of at most {grid.MAX_CONFIGURATIONS} configurations, found more"
    assert refused(expand, {"rms_norm": entry}) == f"{tmp_path / 'own.yaml'}: {expected}"


@pytest.mark.parametrize("name", ["../x", "", "-x", "a\nb", "x" * 101, 5])
def test_a_provider_is_named_as_a_folder_can_be(expand, tmp_path, name):
    own = tmp_path / "kernels"
    own.mkdir()
    text = (kernels.FOLDER / "rms_norm.py").read_text()
    (own / "mine.py").write_text(f"{text}\nKERNEL.providers[{name!r}] = KERNEL.providers['liger']\n")
    said = refused(expand, {"mine": RMS_NORM}, {"kernels": str(own)})
    expected = "providers: expected names of at most 100 letters, digits and . _ - with a Provider each, found "
    assert said == f"{own / 'mine.py'}: {expected}{name!r}"


@pytest.mark.parametrize(
    ("size", "found"),
    [
        ("4k", '"4k"'),
        (0, "0"),
        (-1, "-1"),
        (True, "true"),
        (1.5, "1.5"),
        (None, "null"),
        ([], "[]"),
        ([1, 0], "[1, 0]"),
        ([[1]], "[[1]]"),
    ],
)
def test_a_size_is_a_positive_integer(expand, tmp_path, size, found):
    entry = {**RMS_NORM, "axes": {"rows": 64, "hidden": size}}
    expected = f"{tmp_path / 'own.yaml'}: rms_norm.axes.hidden: expected integers > 0, found {found}"
    assert refused(expand, {"rms_norm": entry}) == expected


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ({"rmsnorm": RMS_NORM}, "expected a kernel (attn_res, cross_entropy, "),
        ({"rope": {**ROPE, "axes": {**ROPE["axes"], "hidden": 2}}}, "rope.axes: {'seq': 4, 'hidden': 2, 'q_heads': 4"),
        (
            {"mhc_llama_like_lm": RMS_NORM},
            "mhc_llama_like_lm: expected a kernel with providers, found one that is only imported",
        ),
        ({}, "top level: expected "),
        ("- rms_norm", "top level: expected a suite, found "),
        ("rms_norm:", "rms_norm: expected what to measure of a kernel: providers, modes, dtypes and axes or cases, fo"),
        ("rms_norm: {}\nrms_norm: {}", 'line 2, column 1: expected each key once, found "rms_norm" twice'),
        ("rms_norm: [", "line 1, column "),
        ("", "expected a JSON or YAML document, found an empty file"),
    ],
)
def test_faults_of_a_suite_as_a_whole(expand, tmp_path, suite, message):
    assert refused(expand, suite).startswith(f"{tmp_path / 'own.yaml'}: {message}")


def test_a_shape_that_cannot_be_names_the_tensor(expand):
    line = refused(expand, {"rope": {**ROPE, "axes": {**ROPE["axes"], "hidden": 2}}})
    assert line.endswith("q: expected dimensions of at least 1, found [1, 4, 4, 0]")


# ---- what a job depends on

VERSIONS = {"torch": "1", "triton": "2", "liger-kernel": "3", "transformers": "4"}

MEASURING = [
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
]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package that jobs look at, with invented versions of the packages."""
    copy = tmp_path / "kernelcat"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(grid, "__file__", str(copy / "grid.py"))
    monkeypatch.setattr(kernels, "FOLDER", copy / "kernels")
    monkeypatch.setattr(grid.environment, "version", VERSIONS.get)
    return copy


def jobs() -> dict[tuple, str]:
    """The jobs of the smoke suite as a new process would compute them."""
    grid.conditions.cache_clear()
    grid._measuring_code.cache_clear()
    grid._file_digest.cache_clear()
    return {(c.kernel, c.provider, c.mode): grid.job(c) for c in SMOKE}


def changed(before: dict, after: dict) -> set[tuple]:
    """Kernel and provider of each job that is another one now; all modes change together."""
    different = {key for key in before if before[key] != after[key]}
    pairs = {key[:2] for key in different}
    assert len(different) == len(pairs)
    return pairs


ALL = {(c.kernel, c.provider) for c in SMOKE}


def test_a_job_is_the_same_each_time(package):
    before = jobs()
    assert jobs() == before
    assert len(set(before.values())) == len(SMOKE)


def test_a_job_says_its_configuration():
    for c in SMOKE:
        assert Configuration.from_json(json.loads(grid.job(c))["configuration"]) == c


def test_a_job_keeps_the_order_of_axes():
    """The first one is the x of a CSV row, and what is measured is what the job's text says."""
    for c in SMOKE:
        again = Configuration.from_json(json.loads(grid.job(c))["configuration"])
        assert list(again.case.axes) == list(c.case.axes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import torch\n", "import torch  # the framework\n"),
        ("\n\nKERNEL", "\n\n# What is known:\n\n\n\nKERNEL"),
        ("KERNEL = Kernel(\n", "KERNEL = Kernel(\n    # the title\n\n"),
        ("    import torch\n", "        # deeper\n    import torch\n# flat\n"),
        ('"""RMSNorm', '# -*- coding: utf-8 -*-\n"""RMSNorm'),
    ],
)
def test_comments_and_blank_lines_change_no_job(package, old, new):
    file, before = package / "kernels" / "rms_norm.py", jobs()
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    assert changed(before, jobs()) == set()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.square()", "x.abs()"),
        ('"eps": 1e-6', '"eps": 1e-5'),
        ("    layer.weight = weight\n", "    if layer:\n        layer.weight = weight\n"),
        ('title="RMSNorm"', 'title="RMS # Norm"'),
    ],
)
def test_code_of_a_kernel_changes_its_jobs_alone(package, old, new):
    file, before = package / "kernels" / "rms_norm.py", jobs()
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    assert changed(before, jobs()) == {("rms_norm", "liger"), ("rms_norm", "huggingface")}


@pytest.mark.parametrize("module", MEASURING)
def test_code_that_every_measurement_runs_through_changes_all_jobs(package, module):
    before = jobs()
    with (package / f"{module}.py").open("a") as file:
        file.write("\nCHANGED = True\n")
    assert changed(before, jobs()) == ALL


@pytest.mark.parametrize("module", ["catalog", "cli", "importing", "documents"])
def test_code_that_no_measurement_runs_through_changes_no_job(package, module):
    before = jobs()
    with (package / f"{module}.py").open("a") as file:
        file.write("\nCHANGED = True\n")
    assert changed(before, jobs()) == set()


def test_a_helper_of_kernel_files_changes_the_jobs_of_its_folder(package):
    before = jobs()
    (package / "kernels" / "_shared.py").write_text("CHANGED = True")
    assert changed(before, jobs()) == ALL


@pytest.mark.parametrize(
    ("upgraded", "providers"),
    [
        ("liger-kernel", ("liger",)),
        ("triton", ("liger",)),
        ("transformers", ("huggingface",)),
        ("torch", ("liger", "huggingface", "torch", "pytorch")),
        ("numpy", ()),
    ],
)
def test_an_upgrade_changes_the_jobs_of_those_who_use_it(package, monkeypatch, upgraded, providers):
    before = jobs()
    monkeypatch.setattr(grid.environment, "version", (VERSIONS | {upgraded: "9"}).get)
    assert changed(before, jobs()) == {pair for pair in ALL if pair[1].startswith(providers)}


def test_a_package_that_is_not_installed_is_a_version_too(package, monkeypatch):
    before = jobs()
    monkeypatch.setattr(grid.environment, "version", {**VERSIONS, "liger-kernel": None}.get)
    assert changed(before, jobs()) == {pair for pair in ALL if pair[1].startswith("liger")}


def test_jobs_of_own_kernels_depend_on_their_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "grid_test_job.py"
    file.write_text((PACKAGE / "kernels" / "rms_norm.py").read_text())
    cell = configuration(kernel="grid_test_job", device="cpu", protocol="monotonic")

    def job():
        grid.conditions.cache_clear()
        grid._measuring_code.cache_clear()
        grid._file_digest.cache_clear()
        return grid.job(cell, str(tmp_path))

    found = [job()]
    assert json.loads(found[0])["kernels"] == str(tmp_path)
    (tmp_path / "_helper.py").write_text("A = 1")
    found.append(job())
    (tmp_path / "_helper.py").write_text("A = 2")
    found.append(job())
    file.write_text(file.read_text() + "\nA = 3\n")
    found.append(job())
    assert len(set(found)) == 4


@pytest.mark.parametrize("key", sorted(SAMPLING))
def test_another_sampling_is_another_job(key):
    cell = configuration(device="cpu", protocol="monotonic")
    other = Sampling(**{**SAMPLING, key: SAMPLING[key] / 2})
    assert grid.job(configuration(device="cpu", protocol="monotonic", sampling=other)) != grid.job(cell)


@pytest.mark.parametrize(
    "changes",
    [{"order_seed": 1}, {"process": "fresh"}, {"compile_cache": "elsewhere"}, {"after_out_of_memory": "measure"}],
)
def test_how_jobs_run_changes_no_job(expand, changes):
    before, after = (
        [grid.job(cell) for cell in expand({"rms_norm": RMS_NORM}, **how).configurations] for how in ({}, changes)
    )
    assert before == after
    assert grid.options(CONFIG | changes) != grid.options(CONFIG)


def test_a_named_gpu_model_changes_the_folder_and_nothing_that_is_measured(expand):
    plain, named = (
        expand({"rms_norm": RMS_NORM}, device="cuda", **changes) for changes in ({}, {"gpu": "NVIDIA A100-SXM4"})
    )
    assert [grid.job(cell) for cell in named.configurations] == [grid.job(cell) for cell in plain.configurations]
    assert list(named.by_path) == [path.replace("cuda/", "cuda-nvidia-a100-sxm4/", 1) for path in plain.by_path]
    assert list(named.priorities(3).values()) == list(plain.priorities(3).values())
    assert shlex.split(grid.options(CONFIG | {"gpu": "NVIDIA A100"}))[-1] == "--gpu=NVIDIA A100"


def test_a_path_outside_of_the_suite_is_named(expand):
    with pytest.raises(KernelcatError, match="^cpu/x: expected a configuration of the suite"):
        expand({"rms_norm": RMS_NORM}).at("cpu/x")


def test_a_named_gpu_model_is_no_cpu(expand):
    with pytest.raises(KernelcatError, match="gpu: expected none where the CPU is measured, found 'H200'"):
        expand({"rms_norm": RMS_NORM}, gpu="H200", device="cpu")


def test_options_are_one_text_for_the_shell():
    """Each name with its value in one word: a value may begin with a dash."""
    text = grid.options(CONFIG | {"compile_cache": "-my cache; rm *", "order_seed": 7})
    options = ["--process=warm", "--compile-cache=-my cache; rm *", "--order-seed=7", "--after-out-of-memory=skip"]
    assert shlex.split(text) == options


# ---- what expanding costs


def test_the_grid_and_the_catalog_import_nothing_heavy():
    """Snakemake computes the grid and the jobs anew in every process of a cluster."""
    program = (
        "import sys, kernelcat.catalog, kernelcat.grid as grid\n"
        f"config = {CONFIG | {'suite': 'smoke'}!r}\n"
        "found = grid.expand(config, suites=sys.argv[1]).configurations\n"
        "print(len([grid.job(configuration) for configuration in found]), *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, ROOT / "config" / "suites"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
    )
    assert done.returncode == 0, done.stderr
    count, *modules = done.stdout.split()
    assert count == str(len(SMOKE))
    assert "kernelcat.grid" in modules
    heavy = re.compile(r"(torch|triton|transformers|pandas|numpy|liger_kernel|jsonschema|snakemake)\b")
    assert [name for name in modules if heavy.match(name)] == []
