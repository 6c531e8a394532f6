"""Inputs of a case, made from a seed, and the comparison of a provider's results with the reference.

The reference runs in fp64 for fp32 cases and in fp32 for bf16 and fp16 ones. A result agrees with it when

- its mean absolute error is at most T · mean|reference|, and
- no element's error exceeds E · max(|reference element|, mean|reference|, mean|reference| of its last axis),

with T = 1e-5 (fp32), 2e-3 (fp16), 1.6e-2 (bf16): about four units in the last place of the 16-bit types, and what fp32
sums of some thousand terms lose; E = 1e-3, 6e-2, 0.5: what sums that are accumulated in the dtype lose at the worst of
some hundred million elements. The mean bounds a systematic error, the second rule a local one; the mean, unlike the
root mean square, is not carried by a few large elements (the target's entry in a cross-entropy gradient). The last
axis counts because an element may be a small difference of large terms: those that its neighbours were added up from.
Where the function has kinks (Kernel.kinks), K = 1e-4 of a gradient's elements may differ: on which side of a kink an
input lies is for rounding to decide.
An error below the dtype's smallest positive number does not count: no result in that dtype can avoid it.
"""

from dataclasses import dataclass

from kernelcat.kernel import Case, Kernel, as_tuple, differentiable

COMPARATOR = "mean_and_elementwise"

MEAN_TOLERANCE = {"fp32": 1e-5, "fp16": 2e-3, "bf16": 1.6e-2}
ELEMENT_TOLERANCE = {"fp32": 1e-3, "fp16": 6e-2, "bf16": 0.5}
KINKED_SHARE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """How far a set of tensors is from the reference.

    Relative errors are relative to the larger of |reference| and the two means.

    `status` is "passed" or one of the incorrect_… statuses of a BenchmarkRun; `reason` says what differs. Where tensors
    cannot be subtracted from each other there are no errors.
    """

    status: str
    reason: str = ""
    maximum_absolute_error: float | None = None
    maximum_relative_error: float | None = None
    matched_ratio: float | None = None


def torch_dtype(token: str):
    """The torch dtype of a dtype token."""
    import torch

    return {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp32": torch.float32,
        "fp64": torch.float64,
        "int64": torch.int64,
        "int32": torch.int32,
        "bool": torch.bool,
    }[token]


def make_inputs(kernel: Kernel, case: Case, device: str, seed: int) -> dict:
    """The input tensors of `case` by name: the same values for each call with one seed on one kind of device.

    Floats that have gradients are `torch.nn.Parameter`s: they collect them, and fit into modules.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)
    axes = kernel.all_axes(case.axes)
    inputs = {}
    for name, shape in kernel.shapes(kernel.inputs, case.axes).items():
        spec = kernel.inputs[name]
        dtype = torch_dtype(kernel.tensor_dtype(name, case.dtype))
        order = spec.physical or tuple(range(len(shape)))
        stored = [shape[dimension] for dimension in order]
        back = [order.index(dimension) for dimension in range(len(shape))]
        if dtype.is_floating_point:
            values = torch.randn(stored, dtype=dtype, device=device, generator=generator)
            if spec.fan_in:
                values /= axes[spec.fan_in] ** 0.5
            values = values.permute(back)
        else:
            high = axes[spec.below] if spec.below else 2
            values = torch.randint(high, stored, dtype=dtype, device=device, generator=generator).permute(back)
        if spec.make:
            values = spec.make(values)
        inputs[name] = torch.nn.Parameter(values) if spec.differentiable else values
    return inputs


def make_upstream(outputs: tuple, dtype: str, seed: int) -> tuple:
    """The upstream gradient of each differentiable output: normal, rounded to the case's `dtype`, in the output's own
    shape and dtype."""
    import torch

    generator = torch.Generator(device=outputs[0].device).manual_seed(seed + 1)
    return tuple(
        torch.randn(output.shape, dtype=torch_dtype(dtype), device=output.device, generator=generator).to(output.dtype)
        for output in differentiable(outputs)
    )


def reference_results(kernel: Kernel, case: Case, device: str, seed: int, gradients: bool) -> dict:
    """Outputs, and with `gradients` also "gradient of NAME" for each float input, in the reference's precision.

    Raises ValueError when the reference itself has the wrong shape or is not finite.
    """
    import torch

    precise = torch.float64 if case.dtype == "fp32" else torch.float32
    inputs = {
        name: value.detach().to(precise).requires_grad_(gradients and value.requires_grad)
        if value.is_floating_point()
        else value
        for name, value in make_inputs(kernel, case, device, seed).items()
    }
    with torch.set_grad_enabled(gradients):
        outputs = as_tuple(kernel.reference(**inputs, **kernel.keywords(case)))
    expected = kernel.shapes(kernel.outputs, case.axes)
    if [_shape(output) for output in outputs] != list(expected.values()):
        raise ValueError(
            f"the reference gives shapes {[_shape(o) for o in outputs]}, expected {list(expected.values())}"
        )
    results = dict(zip(kernel.outputs, outputs, strict=True))
    if gradients:
        torch.autograd.backward(differentiable(outputs), make_upstream(outputs, case.dtype, seed))
        results |= {f"gradient of {name}": value.grad for name, value in inputs.items() if value.requires_grad}
    for name, value in results.items():
        if value is None:
            raise ValueError(f"the reference's {name} does not exist: no output depends on it")
        if not bool(torch.isfinite(value).all()):
            raise ValueError(f"the reference's {name} is not finite")
    return {name: value.detach() for name, value in results.items()}


def output_fault(kernel: Kernel, outputs: tuple) -> str | None:
    """What is wrong with the number or type of a provider's outputs, None when nothing is."""
    import torch

    if len(outputs) == len(kernel.outputs) and all(isinstance(output, torch.Tensor) for output in outputs):
        return None
    found = ", ".join("a tensor" if isinstance(output, torch.Tensor) else type(output).__name__ for output in outputs)
    expected = f"{len(kernel.outputs)} tensor{'' if len(kernel.outputs) == 1 else 's'} ({', '.join(kernel.outputs)})"
    return f"expected {expected}, found {found or 'nothing'}"


def provider_results(kernel: Kernel, outputs: tuple, inputs: dict, gradients: bool) -> dict:
    """The provider's tensors under the names that `reference_results` uses; no outputs where none are given."""
    results = dict(zip(kernel.outputs, outputs, strict=False))
    if gradients:
        results |= {f"gradient of {name}": value.grad for name, value in inputs.items() if value.requires_grad}
    return results


def compare(results: dict, reference: dict, dtype: str, kinks: bool = False) -> Comparison:
    """The worst over all tensors. Outputs may be wider than `dtype` (fp32 losses of bf16 logits), never narrower.
    `kinks` says that the function has kinks."""
    import torch

    mean_tolerance, element_tolerance = MEAN_TOLERANCE[dtype], ELEMENT_TOLERANCE[dtype]
    information = torch.finfo(torch_dtype(dtype))
    smallest = information.smallest_normal * information.eps
    worst_absolute = worst_relative = 0.0
    matched = total = 0
    reasons = []
    for name, expected in reference.items():
        found = results.get(name)
        if found is None:
            return Comparison("incorrect_shape", f"{name} is missing")
        if _shape(found) != _shape(expected):
            return Comparison(
                "incorrect_shape", f"{name}: expected shape {list(_shape(expected))}, found {list(_shape(found))}"
            )
        allowed = (torch_dtype(dtype), torch.float32) if expected.is_floating_point() else (expected.dtype,)
        if found.dtype not in allowed:
            return Comparison("incorrect_dtype", f"{name}: expected {allowed[0]}, found {found.dtype}")
        if not expected.is_floating_point():
            found, expected = found.double(), expected.double()
        expected = expected.reshape(_shape(expected))
        difference = (found.detach().to(expected.dtype).reshape(expected.shape) - expected).abs_()
        error = difference.sub_(smallest).clamp_(min=0)
        mean = expected.abs().mean()
        scale = expected.abs()
        smallest_scale = scale.mean(-1, keepdim=True).clamp_(min=mean).clamp_(min=torch.finfo(torch.float32).tiny)
        scale = torch.maximum(scale, smallest_scale, out=scale)
        relative = error / scale
        # written so that a NaN counts as a mismatch
        within = relative <= element_tolerance
        matched += int(within.sum())
        total += within.numel()
        worst_absolute = max(worst_absolute, _finite(error.max()))
        worst_relative = max(worst_relative, _finite(relative.max()))
        kinked = KINKED_SHARE if kinks and name.startswith("gradient") else 0
        mean_error = float(error.mean() / mean) if float(mean) else float(error.mean())
        if not mean_error <= mean_tolerance:
            reasons.append(f"{name}: mean error {mean_error:.3g} of the mean, at most {mean_tolerance:g} allowed")
        elif (bad := within.numel() - int(within.sum())) > kinked * within.numel():
            reasons.append(f"{name}: {bad} of {within.numel()} elements differ by more than {element_tolerance:g}")
    return Comparison(
        "incorrect_numerical" if reasons else "passed",
        "; ".join(reasons),
        worst_absolute,
        worst_relative,
        matched / total if total else 1.0,
    )


def _shape(tensor) -> tuple[int, ...]:
    """A loss without dimensions counts as the published shape [1]."""
    return tuple(tensor.shape) or (1,)


def _finite(value) -> float:
    """NaN and infinity as the largest double: documents hold finite numbers only."""
    number = float(value)
    return number if number <= 1.7976931348623157e308 else 1.7976931348623157e308
