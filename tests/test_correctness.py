"""Correctness: wrong results are told from right ones, inputs are those of the seed, a wrong reference is refused."""

import json
import math
import sys

import pytest
import torch

from kernelcat import correctness, kernels
from kernelcat.correctness import compare, make_inputs
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


def test_a_small_difference_of_large_terms_counts_as_they_do():
    """The gradient of an LM head's row that two tokens share, among the rows of tokens that are nobody's target."""
    expected = torch.full((1000, 64), 1e-4)
    expected[7] = 1.0
    expected[7, 3] = 1e-3
    found = expected.clone()
    found[7, 3] = 9e-3
    assert compared(found.bfloat16(), expected, "bf16").status == "passed"
    found[8, 3] = 9e-3
    assert compared(found.bfloat16(), expected, "bf16").reason == "y: 1 of 64000 elements differ by more than 0.5"


@pytest.mark.parametrize(
    ("name", "kinks", "wrong", "status"),
    [
        ("gradient of x", True, [1.0] * 6, "passed"),
        ("gradient of x", True, [1.0] * 7, "incorrect_numerical"),
        ("gradient of x", True, [math.nan], "incorrect_numerical"),
        ("gradient of x", False, [1.0], "incorrect_numerical"),
        ("y", True, [1.0], "incorrect_numerical"),
    ],
)
def test_gradients_may_differ_in_a_few_elements_where_the_function_has_kinks(name, kinks, wrong, status):
    expected = torch.ones(1000, 64)
    found = expected.clone()
    found.view(-1)[: len(wrong)] += torch.tensor(wrong)
    comparison = compare({name: found.bfloat16()}, {name: expected}, "bf16", kinks)
    assert comparison.status == status
    assert comparison.matched_ratio == 1 - len(wrong) / 64000


@pytest.mark.parametrize("shape", [(16, 8), (8, 16, 1), (128,), (8, 1), ()])
def test_another_shape_fails(shape):
    found = compared(torch.ones(shape), torch.ones(8, 16), "fp32")
    assert found.status == "incorrect_shape"
    assert found.reason == f"y: expected shape [8, 16], found {list(shape) or [1]}"
    assert (found.maximum_absolute_error, found.maximum_relative_error, found.matched_ratio) == (None, None, None)


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
