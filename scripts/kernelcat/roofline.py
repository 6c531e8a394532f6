"""What a pass must move and compute at least, and how close to the device's limits it comes (the roofline model:
Williams, Waterman, Patterson, Communications of the ACM 52(4), 2009).

The limits are measured, once for each device and its settings, by calibration runs: kernels like any other, at sizes
that fill a GPU. On a CPU there are none: its caches are not cleared between samples.
"""

import math
from dataclasses import dataclass, field

from kernelcat import identity
from kernelcat.kernel import Case, Kernel, Tensor

MEMORY = {
    "memory_copy": {"elements": 2**28},
    "memory_read": {"rows": 2**13, "columns": 2**15},
    "memory_triad": {"elements": 2**28},
}
"""The kernels whose best bandwidth is the memory's, at 1 GiB a tensor of fp32."""

MATRIX = {"matmul": {"rows": 8192, "inner": 8192, "columns": 8192}}
"""The kernel whose rate is that of the matrix units, for each dtype."""

PROTOCOL, PROVIDER, MODE = "events", "torch", "forward"
"""How calibration runs are measured. Copies are slower inside a CUDA graph, where the copy engine makes them."""

TOLERANCE = 1.05
"""What is above the limit by more than this is not so fast: it does less than it should, or was measured wrongly."""

_SIZES = {"bf16": 2, "fp16": 2, "fp32": 4, "int64": 8, "int32": 4, "bool": 1}


def calibration(dtypes: set[str]) -> list[tuple[str, Case]]:
    """The kernels and cases that calibrate a GPU for work in these dtypes."""
    memory = [(name, Case(axes, "fp32")) for name, axes in MEMORY.items()]
    return memory + [(name, Case(axes, dtype)) for name, axes in MATRIX.items() for dtype in sorted(dtypes)]


def traffic_bytes(kernel: Kernel, case: Case, mode: str) -> int:
    """The bytes that a pass moves at least: `forward` reads each input and writes each output once; `backward` reads
    each input and upstream gradient and writes each gradient once; `full` does both, the inputs read once. Where an
    operation needs less, its `moves` says so."""
    if mode in kernel.moves:
        axes = kernel.all_axes(case.axes) | {"size": _SIZES[case.dtype]}
        return identity.evaluate(kernel.moves[mode], axes)

    def size(tensors: dict[str, Tensor]) -> int:
        shapes = kernel.shapes(tensors, case.axes)
        return sum(
            math.prod(shapes[name]) * _SIZES[case.dtype if spec.dtype == "float" else spec.dtype]
            for name, spec in tensors.items()
        )

    inputs, outputs = size(kernel.inputs), size(kernel.outputs)
    gradients = size({name: spec for name, spec in kernel.inputs.items() if spec.differentiable})
    return {
        "forward": inputs + outputs,
        "backward": inputs + outputs + gradients,
        "full": inputs + 2 * outputs + gradients,
        "no-grad-forward": inputs + outputs,
    }[mode]


def operations(kernel: Kernel, case: Case, mode: str) -> int | None:
    """The floating-point operations of a pass, None where the kernel does not say."""
    if kernel.flops is None:
        return None
    axes = kernel.all_axes(case.axes)
    forward = identity.evaluate(kernel.flops, axes)
    backward = identity.evaluate(kernel.backward_flops, axes) if kernel.backward_flops else 2 * forward
    return {"forward": forward, "backward": backward, "full": forward + backward, "no-grad-forward": forward}[mode]


@dataclass
class Limits:
    """What one device can do at best, as far as it was calibrated."""

    bytes_per_second: float | None = None
    flops_per_second: dict[str, float] = field(default_factory=dict)  # by dtype

    def add(self, name: str, kernel: Kernel, case: Case, seconds: float) -> None:
        """Counts a calibration run of the kernel `name`."""
        if name in MEMORY:
            self.bytes_per_second = max(self.bytes_per_second or 0.0, traffic_bytes(kernel, case, MODE) / seconds)
        else:
            self.flops_per_second[case.dtype] = operations(kernel, case, MODE) / seconds

    def attainable_seconds(self, kernel: Kernel, case: Case, mode: str) -> float | None:
        """The least time that the device could take for a pass, None where a limit that counts is not known."""
        if self.bytes_per_second is None:
            return None
        moving = traffic_bytes(kernel, case, mode) / self.bytes_per_second
        count, rate = operations(kernel, case, mode), self.flops_per_second.get(case.dtype)
        if count is None or rate is None:
            return moving
        return max(moving, count / rate)


def is_calibration(kernel: str, case: Case) -> bool:
    """Whether a run of the kernel `kernel` calibrates its device."""
    return {**MEMORY, **MATRIX}.get(kernel) == case.axes
