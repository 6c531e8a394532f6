"""What a kernel file says: the operation, how its inputs are made, a reference, the providers, the CSV dialects.

A kernel file binds `KERNEL = Kernel(...)`; its name is the kernel's name. It imports torch inside its functions only,
because the workflow reads every kernel file each time it is parsed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from kernelcat import environment, identity
from kernelcat.dialect import Dialect
from kernelcat.errors import KernelcatError
from kernelcat.libraries import TORCH_COMPILE, Library

TORCH_NAMES = {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}
"""The dtypes a case may have, and how the Liger suite writes them."""

MODES = {
    "forward": "forward pass",
    "backward": "backward pass",
    "full": "forward and backward pass",
    "no-grad-forward": "forward pass without gradients",
}
"""What is timed, and how titles call it."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument or result.

    `shape` holds axis names and integers; `dtype` is a dtype token, or "float" for the dtype of the case.
    Inputs are made on the device from a seed: floats are normal with standard deviation 1, or 1/sqrt(fan_in) where
    `fan_in` names an axis (the scale of a linear layer's weight); integers are uniform in [0, `below`), an axis.
    `physical` is the order of the dimensions in memory, for inputs that models hold transposed. `make(values)` turns
    what was drawn so into what the operation expects, log-probabilities for instance, in its dtype and shape.
    `gradient` says whether a backward pass computes the gradient of this float input.
    """

    shape: tuple[int | str, ...]
    dtype: str = "float"
    fan_in: str | None = None
    below: str | None = None
    physical: tuple[int, ...] | None = None
    make: Callable | None = None
    gradient: bool = True

    @property
    def differentiable(self) -> bool:
        """Whether a backward pass gives it a gradient."""
        return self.gradient and not self.dtype.startswith(("int", "bool"))


def tensor(shape: str, dtype: str = "float", **how) -> Tensor:
    """A Tensor from a shape written as in "rows hidden" or "1 q_heads seq head_dim"."""
    dimensions = tuple(int(part) if part.isdigit() else part for part in shape.split())
    return Tensor(dimensions, dtype, **how)


@dataclass(frozen=True)
class Provider:
    """One implementation of the operation.

    `prepare(**inputs, **scalars)` gets the input tensors (floats are `torch.nn.Parameter`s, so a module's weights can
    be bound to them) and returns a callable without arguments that computes the outputs: a tensor, or a tuple in the
    order of the operation's outputs. Only that callable is timed.
    `symbol` is "module.path:Name" of what is measured; for code of the kernel file itself it may be left out.
    `interface` says how the symbol is called: two providers of a kernel that share a symbol must differ in it.
    `library` is None for code that belongs to no published project. `not_on` says why it does not run on a kind of
    device. `requires` are pip packages beyond the library's that it cannot run without. `gradients_in_forward` says
    that the forward pass computes the gradients as well: its time alone does not compare with others'.
    """

    prepare: Callable
    library: Library | None = None
    symbol: str | None = None
    interface: str | None = None
    language: str = "python"
    not_on: dict[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    gradients_in_forward: bool = False

    @property
    def packages(self) -> tuple[str, ...]:
        """The pip packages whose versions change what is measured."""
        if self.library:
            return self.library.packages
        return ("torch", "triton") if self.language == "triton" else ("torch",)

    def unavailable(self, device: str) -> str | None:
        """Why it cannot be measured on "cuda" or "cpu" here, None when it can."""
        library = (self.library.package,) if self.library else ()
        missing = [package for package in (*library, *self.requires) if environment.version(package) is None]
        if missing:
            return f"it needs the package {missing[0]}, which is not installed"
        return self.not_on.get(device)


def as_tuple(outputs) -> tuple:
    """What a provider's callable or a reference returned, as a tuple of tensors."""
    return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)


def differentiable(outputs) -> tuple:
    """Those of the outputs that gradients flow from: integers have none."""
    return tuple(output for output in as_tuple(outputs) if output.is_floating_point())


def torch_compile(prepare: Callable, symbol: str) -> Provider:
    """The provider that runs another one's code, `prepare` of `symbol`, through torch.compile. GPUs only: on a CPU
    the comparison with interpreted kernels would say nothing."""

    reason = "compiled code is measured on GPUs only"

    def prepare_compiled(**arguments):
        import torch

        return torch.compile(prepare(**arguments), dynamic=False)

    return Provider(prepare_compiled, TORCH_COMPILE, symbol, interface="torch.compile", not_on={"cpu": reason})


@dataclass(frozen=True)
class Case:
    """One concrete shape: the axes' values, the dtype of the "float" tensors, the scalars."""

    axes: dict[str, int]
    dtype: str
    scalars: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """As in "hidden1024-rows2048-bf16"."""
        return identity.case_key(self.axes, self.dtype)


@dataclass(frozen=True)
class Kernel:
    """An operation and everything that is known about running it.

    `axes` are the names a case gives values to; the first one is the x of a CSV row. `derived` axes are expressions
    over them. `operation_axes`, where given, are those of `axes` that the published operation lists. `also` are other
    names that benchmark CSVs have for the kernel. `scalars` holds the default of each scalar argument. `flops` is an
    expression over all axes: the floating-point operations of the forward pass that cannot be saved; `backward_flops`
    those of the backward pass, where they are not twice as many, as a matrix product's are. `moves` holds
    expressions for the bytes that a mode moves at least where it is not every input and output once; `size` in them is
    that of an element of the case's dtype. `expression` says what is computed, for a kernel whose operation, as it is
    published, is that of another one as well: measured operations hold it, imported ones do not.
    `arguments` are axes that no shape tells: the reference and `prepare` get their values as they get the scalars'.
    `reference(**inputs, **scalars)` computes the outputs with plain differentiable torch operations in whatever dtype
    its inputs have; `kinks` says that its gradients jump at some inputs. A kernel without reference and providers can
    be imported, but not measured.
    """

    title: str
    slug: str
    family: str
    axes: tuple[str, ...]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    reference: Callable | None = None
    providers: dict[str, Provider] = field(default_factory=dict)
    derived: dict[str, str] = field(default_factory=dict)
    operation_axes: tuple[str, ...] | None = None
    scalars: dict[str, float] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    flops: str | None = None
    backward_flops: str | None = None
    moves: dict[str, str] = field(default_factory=dict)
    expression: str | None = None
    kinks: bool = False
    dialects: tuple[Dialect, ...] = ()
    also: tuple[str, ...] = ()

    def all_axes(self, axes: dict[str, int]) -> dict[str, int]:
        """The case's axes with the derived ones. Raises KernelcatError when an expression cannot be evaluated."""
        return axes | {name: identity.evaluate(expression, axes) for name, expression in self.derived.items()}

    def keywords(self, case: Case) -> dict[str, float]:
        """What the reference and `prepare` are given beside the input tensors."""
        axes = self.all_axes(case.axes)
        return case.scalars | {name: axes[name] for name in self.arguments}

    def shapes(self, tensors: dict[str, Tensor], axes: dict[str, int]) -> dict[str, tuple[int, ...]]:
        """The concrete shape of each of `tensors`. Raises KernelcatError when a dimension is below 1."""
        values = self.all_axes(axes)
        shapes = {}
        for name, spec in tensors.items():
            shapes[name] = tuple(part if isinstance(part, int) else values[part] for part in spec.shape)
            if any(size < 1 for size in shapes[name]):
                raise KernelcatError(f"{name}: expected dimensions of at least 1, found {list(shapes[name])}")
        return shapes

    def tensor_dtype(self, name: str, dtype: str) -> str:
        """The dtype token of the input `name` in a case of `dtype`."""
        spec = self.inputs[name]
        return dtype if spec.dtype == "float" else spec.dtype
