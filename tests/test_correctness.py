"""Measuring: wrong results are told from right ones, statistics are right, whatever a provider does is a result."""

import hashlib
import json
import math
import sys
import time

import numpy
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcat import correctness, kernels, measure, samples, timing
from kernelcat.correctness import compare, make_inputs
from kernelcat.errors import KernelcatError
from kernelcat.grid import Configuration
from kernelcat.kernel import Case, Kernel, tensor

LARGEST = sys.float_info.max

# ---- comparing

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def reference(seed: int = 0) -> torch.Tensor:
    return torch.randn(8, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def compared(found: torch.Tensor, expected: torch.Tensor, dtype: str) -> correctness.Comparison:
    return compare({"y": found}, {"y": expected}, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_result_rounded_to_the_dtype_passes(dtype):
    found = compared(reference().to(DTYPES[dtype]), reference(), dtype)
    assert (found.status, found.reason, found.matched_ratio) == ("passed", "", 1.0)
    assert 0 < found.maximum_absolute_error < 0.02


@pytest.mark.parametrize(
    ("case", "result", "status"),
    [
        ("fp32", "fp32", "passed"),
        ("bf16", "bf16", "passed"),
        ("bf16", "fp32", "passed"),  # a loss of bf16 logits is fp32
        ("fp16", "fp32", "passed"),
        ("fp32", "bf16", "incorrect_dtype"),
        ("fp32", "fp16", "incorrect_dtype"),
        ("bf16", "fp16", "incorrect_dtype"),
        ("fp16", "bf16", "incorrect_dtype"),
    ],
)
def test_results_may_be_wider_than_the_case_and_never_narrower(case, result, status):
    assert compared(torch.ones(4, dtype=DTYPES[result]), torch.ones(4), case).status == status


def test_fp64_is_no_dtype_of_a_result():
    found = compared(torch.ones(4, dtype=torch.float64), torch.ones(4), "fp32")
    assert (found.status, found.reason) == ("incorrect_dtype", "y: expected torch.float32, found torch.float64")


@pytest.mark.parametrize("shape", [(16, 8), (8, 16, 1), (128,), (8, 1), ()])
def test_another_shape_fails(shape):
    found = compared(torch.ones(shape), torch.ones(8, 16), "fp32")
    assert found.status == "incorrect_shape"
    assert found.reason == f"y: expected shape [8, 16], found {list(shape) or [1]}"


@pytest.mark.parametrize(("found", "expected"), [((), (1,)), ((1,), ())])
def test_a_loss_without_dimensions_is_one_of_shape_1(found, expected):
    assert compared(torch.ones(found), torch.ones(expected), "fp32").status == "passed"
    assert compared(torch.zeros(found), torch.ones(expected), "fp32").status == "incorrect_numerical"


@pytest.mark.parametrize("results", [{"y": torch.ones(3)}, {"y": torch.ones(3), "gradient of x": None}])
def test_a_missing_gradient_fails(results):
    found = compare(results, {"y": torch.ones(3), "gradient of x": torch.ones(3)}, "fp32")
    assert (found.status, found.reason) == ("incorrect_shape", "gradient of x is missing")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_value_that_is_not_finite_fails(dtype, value):
    found = reference().to(DTYPES[dtype])
    found[3, 5] = value
    comparison = compared(found, reference(), dtype)
    assert comparison.status == "incorrect_numerical"
    assert comparison.matched_ratio == 127 / 128
    assert (comparison.maximum_absolute_error, comparison.maximum_relative_error) == (LARGEST, LARGEST)
    json.dumps(vars(comparison), allow_nan=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spoil", [lambda row: row * 0, lambda row: -row, lambda row: row * 2])
def test_one_bad_row_among_many_fails(dtype, spoil):
    expected = reference().repeat(1000, 1).sign()  # 8,000 rows; the mean alone would not see one of them
    found = expected.clone()
    found[5] = spoil(found[5])
    comparison = compared(found.to(DTYPES[dtype]), expected, dtype)
    assert comparison.status == "incorrect_numerical"
    assert comparison.matched_ratio == 1 - 16 / 128_000


@pytest.mark.parametrize(
    ("dtype", "factor", "status"),
    [
        ("fp32", 1 + 2e-6, "passed"),
        ("fp32", 1 + 5e-5, "incorrect_numerical"),
        ("fp32", 1 - 5e-5, "incorrect_numerical"),
        ("fp16", 1 + 1e-3, "passed"),
        ("fp16", 1 + 5e-3, "incorrect_numerical"),
        ("bf16", 1 + 5e-3, "passed"),
        ("bf16", 1 + 3e-2, "incorrect_numerical"),
        ("bf16", 1 - 3e-2, "incorrect_numerical"),
    ],
)
def test_a_small_systematic_error_fails(dtype, factor, status):
    """Each element alone is near enough."""
    found = compared((reference() * factor).to(DTYPES[dtype]), reference(), dtype)
    assert found.status == status
    assert found.matched_ratio == 1.0


@pytest.mark.parametrize(("dtype", "smallest"), [("fp16", 2.0**-24), ("bf16", 2.0**-133), ("fp32", 2.0**-149)])
def test_errors_below_the_smallest_positive_number_do_not_count(dtype, smallest):
    expected = torch.full((8,), 0.4 * smallest, dtype=torch.float64)
    assert compared(torch.zeros(8, dtype=DTYPES[dtype]), expected, dtype).status == "passed"
    expected = torch.full((8,), 100 * smallest, dtype=torch.float64)
    assert compared(torch.zeros(8, dtype=DTYPES[dtype]), expected, dtype).status == "incorrect_numerical"


@pytest.mark.parametrize(("value", "status"), [(0.0, "passed"), (1e-3, "incorrect_numerical")])
def test_a_reference_of_zeros(value, status):
    assert compared(torch.full((8,), value), torch.zeros(8, dtype=torch.float64), "fp32").status == status


def test_the_errors_are_those_of_the_worst_element_of_all_tensors():
    expected = {"y": torch.tensor([1.0, 1.0, 4.0, 2.0]), "gradient of x": torch.tensor([8.0, 8.0])}
    found = {"y": torch.tensor([1.0, 1.5, 4.0, 2.0]), "gradient of x": torch.tensor([8.0, 7.0])}
    comparison = compare(found, expected, "fp32")
    assert comparison.status == "incorrect_numerical"
    assert comparison.maximum_absolute_error == pytest.approx(1.0)
    assert comparison.maximum_relative_error == pytest.approx(0.5 / 2)  # the mean of y is 2
    assert comparison.matched_ratio == 4 / 6
    assert "y: " in comparison.reason and "gradient of x: " in comparison.reason


def test_what_is_compared_stays_as_it_is():
    found, expected = reference().float(), reference()
    compared(found, expected, "fp32")
    assert torch.equal(found, reference().float())
    assert torch.equal(expected, reference())


# ---- inputs

ROPE = kernels.load(kernels.files()["rope"])
LOSS = kernels.load(kernels.files()["fused_linear_cross_entropy"])
LOSS_CASE = Case({"tokens": 64, "hidden": 256, "vocab": 50}, "bf16")


def test_inputs_are_the_same_for_one_seed_and_others_for_another():
    first, second, other = (make_inputs(LOSS, LOSS_CASE, "cpu", seed) for seed in (1, 1, 2))
    assert first.keys() == {"x", "weight", "target"}
    for name in first:
        assert torch.equal(first[name], second[name])
        assert not torch.equal(first[name], other[name])


def test_inputs_are_as_the_kernel_says():
    inputs = make_inputs(LOSS, LOSS_CASE, "cpu", 1)
    assert [(value.dtype, tuple(value.shape)) for value in inputs.values()] == [
        (torch.bfloat16, (64, 256)),
        (torch.bfloat16, (50, 256)),
        (torch.int64, (64,)),
    ]
    assert inputs["x"].detach().float().std() == pytest.approx(1, rel=0.05)
    assert inputs["weight"].detach().float().std() == pytest.approx(1 / 16, rel=0.05)
    assert 0 <= inputs["target"].min() and 40 < inputs["target"].max() < 50
    assert [isinstance(value, torch.nn.Parameter) for value in inputs.values()] == [True, True, False]


def test_inputs_lie_in_memory_as_models_hold_them():
    q = make_inputs(ROPE, Case({"seq": 5, "hidden": 24, "q_heads": 3, "kv_heads": 1}, "fp32"), "cpu", 1)["q"]
    assert q.shape == (1, 3, 5, 8)
    assert q.transpose(1, 2).is_contiguous()


def double(compute, shape: str = "rows hidden") -> Kernel:
    return Kernel(
        title="Double",
        slug="double",
        family="double",
        axes=("rows", "hidden"),
        inputs={"x": tensor("rows hidden")},
        outputs={"y": tensor(shape)},
        reference=compute,
        providers={},
    )


@pytest.mark.parametrize(
    ("dtype", "precise"), [("fp32", torch.float64), ("bf16", torch.float32), ("fp16", torch.float32)]
)
def test_the_reference_is_more_precise_than_the_case(dtype, precise):
    case = Case({"rows": 2, "hidden": 3}, dtype)
    found = correctness.reference_results(double(lambda x: 2 * x), case, "cpu", 1, gradients=True)
    assert {name: value.dtype for name, value in found.items()} == {"y": precise, "gradient of x": precise}
    x = make_inputs(double(None), case, "cpu", 1)["x"]
    assert torch.equal(found["y"], 2 * x.detach().to(precise))
    upstream = correctness.make_upstream((found["y"],), dtype, 1)[0]
    assert torch.equal(upstream, upstream.to(DTYPES[dtype]).to(precise))  # what the provider gets, too
    assert torch.equal(found["gradient of x"], 2 * upstream)


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda x: x.sum(0), r"the reference gives shapes \[\(3,\)\], expected \[\(2, 3\)\]"),
        (lambda x: (x, x), "the reference gives shapes"),
        (lambda x: x / 0, "the reference's y is not finite"),
        (lambda x: (x * 0).sqrt() + x, "the reference's gradient of x is not finite"),
        (lambda x: torch.ones(2, 3, requires_grad=True) * 2, "gradient of x does not exist: no output depends on it"),
    ],
)
def test_a_reference_that_cannot_be_right_is_refused(compute, message):
    with pytest.raises(ValueError, match=message):
        correctness.reference_results(double(compute), Case({"rows": 2, "hidden": 3}, "fp32"), "cpu", 1, gradients=True)


# ---- statistics

times = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60)


@settings(deadline=None)
@given(times, st.floats(0, 1))
def test_quantiles_are_numpy_s(values, q):
    ordered = sorted(values)
    assert samples.quantile(ordered, q) == pytest.approx(numpy.quantile(ordered, q), rel=1e-12)


@settings(deadline=None)
@given(times)
def test_the_summary_is_numpy_s(values):
    median = numpy.median(values)
    assert samples.summary(values) == pytest.approx(
        {
            "median": median,
            "mean": numpy.mean(values),
            "p05": numpy.quantile(values, 0.05),
            "p20": numpy.quantile(values, 0.2),
            "p80": numpy.quantile(values, 0.8),
            "p95": numpy.quantile(values, 0.95),
            "minimum": min(values),
            "maximum": max(values),
            "mad": numpy.median(numpy.abs(numpy.array(values) - median)),
        },
        rel=1e-9,
        abs=1e-12,
    )


def test_the_summary_of_known_samples():
    assert samples.summary([4.0, 1.0, 2.0, 3.0, 10.0]) == pytest.approx(
        {
            "median": 3,
            "mean": 4,
            "p05": 1.2,
            "p20": 1.8,
            "p80": 5.2,
            "p95": 8.8,
            "minimum": 1,
            "maximum": 10,
            "mad": 1,
        }
    )


def test_the_interval_of_the_median_holds_it_in_95_of_100_cases():
    """The number of samples below the true median is binomial: the exact probability, for every count of samples."""
    for count in range(6, 501):
        low, high = samples.median_interval([float(rank) for rank in range(1, count + 1)])
        covered = sum(math.comb(count, below) for below in range(int(low), int(high))) / 2**count
        assert covered >= 0.95, count
        assert covered < (0.98 if count > 60 else 1), count


@pytest.mark.parametrize(("count", "ranks"), [(1, (1, 1)), (5, (1, 5)), (100, (40, 61))])
def test_the_ranks_of_the_interval(count, ranks):
    assert samples.median_interval(list(range(1, count + 1))) == ranks


# ---- passes


class Scaled(torch.autograd.Function):
    """y = x · weight, with the manners of real kernels: the forward pass writes into x, the backward pass into its
    upstream gradient."""

    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x.clone(), weight)
        y = x * weight
        with torch.no_grad():
            x.mul_(3)
        return y

    @staticmethod
    def backward(context, upstream):
        x, weight = context.saved_tensors
        gradients = upstream * weight, upstream * x
        upstream.mul_(5)
        return gradients


class Scene:
    """A pass over Scaled, with the number of its forward passes."""

    def __init__(self, mode: str):
        self.x = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        self.weight = torch.nn.Parameter(torch.tensor([4.0, 5.0]))
        self.upstream = torch.tensor([1.0, 10.0])
        self.calls = 0
        pristine = {"x": self.x.detach().clone()}
        inputs = {"x": self.x, "weight": self.weight, "target": torch.tensor([1])}
        self.timed = timing.make_pass(self.call, inputs, (self.upstream,), mode, pristine)

    def call(self):
        self.calls += 1
        return Scaled.apply(self.x, self.weight)


@pytest.mark.parametrize(("mode", "prepared", "run"), [("forward", 0, 1), ("backward", 1, 0), ("full", 0, 1)])
def test_a_backward_pass_is_timed_without_its_forward_pass(mode, prepared, run):
    scene = Scene(mode)
    for number in range(3):
        scene.timed.prepare()
        assert scene.calls == number * (prepared + run) + prepared
        scene.timed.run()
        assert scene.calls == (number + 1) * (prepared + run)


@pytest.mark.parametrize("mode", ["backward", "full"])
def test_every_sample_works_on_the_same_numbers(mode):
    scene = Scene(mode)
    for _ in range(3):
        scene.timed.prepare()
        assert (scene.x.grad, scene.weight.grad) == (None, None)
        scene.timed.run()
        assert scene.x.grad.tolist() == [4, 50]
        assert scene.weight.grad.tolist() == [1, 20]
        assert scene.upstream.tolist() == [1, 10]


@pytest.mark.parametrize(("mode", "prepared"), [("forward", [1, 2]), ("full", [1, 2]), ("backward", [3, 6])])
def test_inputs_that_were_written_into_are_restored(mode, prepared):
    scene = Scene(mode)
    for _ in range(3):
        scene.timed.prepare()
        assert scene.x.tolist() == prepared  # the forward pass before a backward one writes once
        scene.timed.run()
        assert scene.x.tolist() == [3, 6]


def test_a_forward_pass_collects_no_gradient():
    scene = Scene("forward")
    scene.timed.prepare()
    scene.timed.run()
    assert (scene.x.grad, scene.weight.grad) == (None, None)


def protocol(**changes) -> timing.Protocol:
    values = {"warmup_iterations": 2, "warmup_ns": 0, "sampling_ns": 0, "minimum_samples": 5, "maximum_samples": 50}
    return timing.Protocol("any", "cpu", "monotonic_clock", "", **{**values, **changes})


def counted(prepare_s: float = 0, run_s: float = 0) -> tuple[timing.Pass, list[str]]:
    order: list[str] = []

    def step(name, seconds):
        order.append(name)
        time.sleep(seconds)

    return timing.Pass(lambda: step("prepare", prepare_s), lambda: step("run", run_s)), order


@pytest.mark.parametrize(
    ("changes", "warmups", "count"),
    [
        ({}, 2, 5),
        ({"minimum_samples": 1}, 2, 1),
        ({"warmup_iterations": 0}, 1, 5),
        ({"sampling_ns": 10**15}, 2, 50),
        ({"sampling_ns": 10**15, "maximum_samples": 7}, 2, 7),
    ],
)
def test_samples_are_as_many_as_the_protocol_says(changes, warmups, count):
    timed, order = counted()
    if not changes.get("warmup_iterations", 2):
        changes = {**changes, "warmup_ns": 1}
    assert len(timing.sample(protocol(**changes), timed)) == count
    assert order == ["prepare", "run"] * (warmups + count)


def test_the_warm_up_lasts_as_long_as_the_protocol_says():
    timed, order = counted(run_s=0.01)
    timing.sample(protocol(warmup_iterations=1, warmup_ns=60_000_000, minimum_samples=1), timed)
    assert 1 < order.count("run") - 1 <= 6


def test_preparing_is_not_timed():
    timed, _ = counted(prepare_s=0.02, run_s=0.005)
    assert 5 <= min(timing.sample(protocol(), timed)) < 20


@pytest.mark.parametrize("found", timing.PROTOCOLS.values(), ids=timing.PROTOCOLS)
def test_protocols_say_what_they_do(found):
    assert timing.PROTOCOLS[found.name] is found
    assert found.device in ("cuda", "cpu")
    assert 1 <= found.minimum_samples <= found.maximum_samples
    for mode in ("forward", "backward", "full"):
        spec = found.spec(mode, "any")
        assert spec["measurement"]["warmupIterations"] == found.warmup_iterations
        assert len(spec["comparability"]["notes"]) <= 1000
        limits = f"at least {found.minimum_samples} and at most {found.maximum_samples}" if found.fresh else "rep=500"
        assert limits in spec["comparability"]["notes"]


# ---- one configuration, end to end

KERNEL_FILE = """
import os
import subprocess
import time

from kernelcat.kernel import Kernel, Provider, tensor


def broken(x):
    raise RuntimeError(f"cannot open {os.path.abspath(__file__)!r}\\nsecond line")


def killed(x):
    os.kill(os.getpid(), 9)


def exhausted(x):
    raise MemoryError("no memory left")


def endless(x):
    subprocess.Popen(["sleep", "601.5"])
    time.sleep(600)


def silent(x):
    os.closerange(3, 100)
    time.sleep(600)


def kept(x):
    y = x + x
    return lambda: y


def provider(compute):
    return Provider(lambda x: lambda: compute(x))


def reference(x):
    return REFERENCE


KERNEL = Kernel(
    title="Double",
    slug="double",
    family="double",
    axes=("rows", "hidden"),
    inputs={"x": tensor("rows hidden")},
    outputs={"y": tensor("rows hidden")},
    reference=reference,
    providers={
        "right": provider(lambda x: x + x),
        "wrong": provider(lambda x: x * 2.001),
        "transposed": provider(lambda x: (x + x).T),
        "broken": provider(broken),
        "killed": provider(killed),
        "exhausted": provider(exhausted),
        "endless": provider(endless),
        "silent": provider(silent),
        "kept": Provider(kept),
        "generous": provider(lambda x: (x + x, x)),
        "empty": provider(lambda x: None),
    },
)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("own_kernels")
    (path / "double.py").write_text(KERNEL_FILE.replace("REFERENCE", "2 * x"))
    (path / "unsure.py").write_text(KERNEL_FILE.replace("REFERENCE", "1 / 0"))
    return path


def measured(folder, provider: str, kernel: str = "double", seconds: float = 120) -> dict:
    case = Case({"rows": 4, "hidden": 8}, "fp32")
    return measure.measure(Configuration(kernel, provider, "full", case, "monotonic", "cpu"), str(folder), seconds)


@pytest.fixture(scope="module")
def passed(folder) -> dict:
    """The record of a provider that is right, with the seconds that it took."""
    start = time.monotonic()
    return measured(folder, "right") | {"seconds": time.monotonic() - start}


def test_a_right_provider_passes(passed, folder):
    assert (passed["status"], passed["reason"]) == ("passed", "")
    assert 5 <= len(passed["samplesMs"]) <= 100
    assert min(passed["samplesMs"]) > 0
    assert passed["correctness"]["matchedRatio"] == 1
    assert passed["correctness"]["maximumAbsoluteError"] < 1e-6
    data = (folder / "double.py").read_bytes()
    assert passed["source"] == {
        "contentDigest": f"sha256:{hashlib.sha256(data).hexdigest()}",
        "fileName": "double.py",
        "sizeBytes": len(data),
    }
    assert passed["versions"].keys() == {"torch", "liger-kernel"}
    assert passed["environment"]["software"]["framework"] == {"name": "torch", "version": torch.__version__}
    assert Configuration.from_json(passed["configuration"]).provider == "right"
    assert "peakMemoryBytes" not in passed
    json.dumps(passed, allow_nan=False)


def test_what_passed_is_a_row_of_the_csv(passed):
    (row,) = measure.rows(passed)
    assert (row.kernel_name, row.kernel_provider, row.kernel_operation_mode) == ("double", "right", "full")
    assert (row.metric_name, row.metric_unit) == ("speed", "ms")
    assert (row.x_name, row.x_value) == ("rows", "4")
    assert json.loads(row.extra_benchmark_config_str) == {"hidden": 8, "dtype": "torch.float32"}
    quantiles = [float(value) for value in (row.y_value_50, row.y_value_20, row.y_value_80)]
    assert quantiles == pytest.approx(numpy.quantile(passed["samplesMs"], [0.5, 0.2, 0.8]).tolist())
    assert row.timestamp == passed["observedAt"][:19].replace("T", " ")


@pytest.mark.parametrize(
    ("provider", "status", "reason"),
    [
        (
            "wrong",
            "incorrect_numerical",
            "y: mean error 0.0005 of the mean, at most 1e-05 allowed; gradient of x: ",
        ),
        ("transposed", "incorrect_shape", "y: expected shape [4, 8], found [8, 4]"),
        ("broken", "runtime_error", "RuntimeError: cannot open 'double.py'"),
        ("killed", "runtime_error", "the measuring process was ended by signal 9"),
        ("exhausted", "resource_exceeded", "MemoryError: no memory left"),
        ("kept", "incorrect_numerical", "y: mean error "),
        ("generous", "incorrect_shape", "expected 1 tensor (y), found a tensor, a tensor"),
        ("empty", "incorrect_shape", "expected 1 tensor (y), found NoneType"),
    ],
)
def test_whatever_a_provider_does_is_a_result(folder, provider, status, reason):
    record = measured(folder, provider)
    assert record["status"] == status
    assert record["reason"].startswith(reason)
    assert len(record["reason"].splitlines()) == 1
    assert str(folder) not in json.dumps(record)
    assert "samplesMs" not in record
    assert record["environment"]["hardware"]["product"] == record["device"]
    assert measure.rows(record) == []


@pytest.mark.parametrize("provider", ["endless", "silent"])
def test_a_provider_that_never_returns_is_ended(folder, passed, provider):
    seconds = round(2 * passed["seconds"] + 3)
    start = time.monotonic()
    record = measured(folder, provider, seconds=seconds)
    assert not any(process.info["cmdline"] == ["sleep", "601.5"] for process in psutil.process_iter(["cmdline"]))
    assert (record["status"], record["reason"]) == ("timeout", f"took longer than {seconds} s")
    assert seconds <= time.monotonic() - start < seconds + 20
    assert record["observedAt"].endswith("Z")


def test_a_reference_that_raises_is_no_fault_of_the_provider(folder):
    record = measured(folder, "right", kernel="unsure")
    assert (record["status"], record["reason"]) == ("invalid_reference", "ZeroDivisionError: division by zero")


def test_a_machine_too_slow_to_begin_is_no_result(folder):
    with pytest.raises(KernelcatError, match="took longer than 0 s before the device could be described") as caught:
        measured(folder, "right", seconds=0)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "ValueError"),
        ("one\ntwo", "ValueError: one"),
        ("\n \n  late", "ValueError: late"),
        ("no '/usr/lib/x.so' here", "ValueError: no 'x.so' here"),
        ("/tmp/a/b.cu(3): error: /tmp/a/c.h", "ValueError: b.cu(3): error: c.h"),
        ("a/b is a ratio, ../x a path", "ValueError: a/b is a ratio, ../x a path"),
        ("x" * 400, "ValueError: " + "x" * 288),
    ],
)
def test_a_reason_is_one_line_without_folders(text, line):
    assert measure._first_line(ValueError(text)) == line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no folder '/home/alice'", "no folder '…'"),
        ("gcc -I/home/alice/include x.c", "gcc -I… x.c"),
        ("in /home/alice", "in …"),
        ("/scratch/alice/run/kernel.py, line 3", "kernel.py, line 3"),
        ('cannot open "/data/alice and bob/x.cu"', 'cannot open "x.cu"'),
        ("~alice/x", "…"),
        ("expected forward/backward, found 1/2", "expected forward/backward, found 1/2"),
        ("\x1b[31mred", "\\u001b[31mred"),
    ],
)
def test_a_reason_names_no_folder_and_no_user(text, said):
    assert measure._first_line(ValueError(text)) == f"ValueError: {said}"
