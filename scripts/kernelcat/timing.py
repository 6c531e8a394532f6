"""Protocols: how a pass is timed, and the loops that do it.

A sample is one pass. Before each one, outside the timed window, gradients are dropped, inputs that the kernel writes
into are restored, and for `backward` the forward pass is run again: Liger's backward kernels write into what they were
given, so a graph that is walked twice works on other numbers the second time. The protocol `do_bench` does none of this
but dropping gradients, as the Liger suite does none of it.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

from kernelcat.kernel import differentiable

L2_FLUSH_BYTES = 256 * 2**20
"""What is cleared between samples, so that inputs come from memory: more than the L2 cache of any GPU."""


@dataclass(frozen=True)
class Protocol:
    """How a pass is timed on one kind of device. Durations in nanoseconds.

    Warm-up: at least `warmup_iterations` passes and `warmup_ns`. Then as many samples as fit into `sampling_ns`, but
    at least `minimum_samples` and at most `maximum_samples`. `fresh` says that each sample finds what the first one
    found.
    """

    name: str
    device: str
    timer: str
    clock_text: str
    warmup_iterations: int
    warmup_ns: int
    sampling_ns: int
    minimum_samples: int
    maximum_samples: int
    fresh: bool = True

    def spec(self, mode: str, comparator: str) -> dict:
        """The spec of the BenchmarkProtocol for `mode`."""
        return {
            "harness": {"name": "kernelcat"},
            "measurement": {
                "timer": self.timer,
                "synchronization": "after_all_samples" if self.device == "cuda" else "none",
                "compileIncluded": False,
                "setupIncluded": False,
                "warmupIterations": self.warmup_iterations,
                "warmupDuration": self.warmup_ns,
                "inputRegeneration": "restored_when_written" if self.fresh else "none",
                "outlierPolicy": "none",
                "primaryStatistic": "median",
            },
            "correctness": {"reference": "higher_precision_torch", "comparator": comparator},
            "comparability": {"family": f"kernelcat_{self.name}", "notes": " ".join(self._notes(mode))},
        }

    def _notes(self, mode: str) -> list[str]:
        walked = [_FRESH if self.fresh else _AGAIN] if mode == "backward" else []
        return [_TIMED[mode], *walked, self.clock_text]


_TIMED = {
    "forward": "Timed: the forward pass with gradients enabled.",
    "backward": "Timed: the backward pass alone, to all float inputs, given a random upstream gradient.",
    "full": "Timed: the forward pass and the backward pass to all float inputs, given a random upstream gradient made "
    "outside the timed window.",
}

_FRESH = "Each sample follows a fresh forward pass that is not timed."
_AGAIN = "All samples walk the graph of one forward pass, whatever the kernel writes into it."

PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            name="events",
            device="cuda",
            timer="cuda_events",
            clock_text="Eager call between two device events; 256 MiB cleared before each sample to empty the L2 "
            "cache; gradients start empty; samples for 1 s, at least 20 and at most 500.",
            warmup_iterations=3,
            warmup_ns=200_000_000,
            sampling_ns=1_000_000_000,
            minimum_samples=20,
            maximum_samples=500,
        ),
        Protocol(
            name="do_bench",
            device="cuda",
            timer="cuda_events",
            clock_text="triton.testing.do_bench with warmup=25 and rep=500: eager call between two device events; "
            "256 MiB cleared before each sample; gradients of the inputs start empty, nothing else is restored.",
            warmup_iterations=1,
            warmup_ns=25_000_000,
            sampling_ns=500_000_000,
            minimum_samples=1,
            maximum_samples=2**31,
            fresh=False,
        ),
        Protocol(
            name="monotonic",
            device="cpu",
            timer="monotonic_clock",
            clock_text="Call between two readings of the monotonic clock on the CPU; Triton kernels run in Triton's "
            "interpreter, so their times say nothing about a GPU; caches are not cleared; gradients start empty; "
            "samples for 0.2 s, at least 5 and at most 100.",
            warmup_iterations=2,
            warmup_ns=0,
            sampling_ns=200_000_000,
            minimum_samples=5,
            maximum_samples=100,
        ),
    )
}


@dataclass(frozen=True)
class Pass:
    """One pass to be timed: `run` is inside the timed window, `prepare` before it, outside. `leaves` are the tensors
    that collect gradients."""

    prepare: Callable[[], None]
    run: Callable[[], None]
    leaves: tuple = ()


def make_pass(call: Callable, inputs: dict, upstream: tuple, mode: str, pristine: dict, fresh: bool = True) -> Pass:
    """The pass of `mode` over a provider's `call`.

    `upstream` are the outputs' gradients, `pristine` holds the values of those inputs that the kernel writes into.
    Where `fresh` is false, `prepare` drops gradients only, and `backward` walks one graph again and again.
    """
    import torch

    held: dict[str, tuple] = {"upstream": upstream}
    leaves = tuple(value for value in inputs.values() if value.requires_grad)
    if mode == "backward" and not fresh:
        held["outputs"] = differentiable(call())

    def drop_gradients():
        for value in leaves:
            value.grad = None

    def prepare():
        held.clear()
        with torch.no_grad():
            for name, value in pristine.items():
                inputs[name].copy_(value)
        drop_gradients()
        if mode != "forward":
            held["upstream"] = tuple(gradient.clone() for gradient in upstream)
        if mode == "backward":
            held["outputs"] = differentiable(call())

    def forward():
        held["outputs"] = call()

    def backward():
        torch.autograd.backward(held["outputs"], held["upstream"], retain_graph=not fresh)

    def full():
        torch.autograd.backward(differentiable(call()), held["upstream"])

    run = {"forward": forward, "backward": backward, "full": full}[mode]
    return Pass(prepare if fresh else drop_gradients, run, leaves)


def sample(protocol: Protocol, timed: Pass) -> list[float]:
    """Latency samples in milliseconds, in the order in which they were taken. Their number follows from the fastest
    pass of the warm-up."""
    if protocol.name == "do_bench":
        from triton.testing import do_bench

        warmup_ms, sampling_ms = protocol.warmup_ns // 10**6, protocol.sampling_ns // 10**6
        return do_bench(timed.run, warmup_ms, sampling_ms, grad_to_none=timed.leaves, return_mode="all")
    take = _take_cuda if protocol.device == "cuda" else _take_cpu
    durations: list[int] = []
    while len(durations) < protocol.warmup_iterations or sum(durations) < protocol.warmup_ns:
        start = time.monotonic_ns()
        take(timed, 1)
        durations.append(time.monotonic_ns() - start)
    wanted = protocol.sampling_ns // max(1, min(durations))
    gc.collect()
    gc.disable()
    try:
        return take(timed, min(max(wanted, protocol.minimum_samples), protocol.maximum_samples))
    finally:
        gc.enable()


def peak_memory_bytes(timed: Pass) -> int:
    """The peak of device memory allocated during one pass, everything that is alive included (CUDA only)."""
    import torch

    timed.prepare()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    timed.run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def _take_cuda(timed: Pass, count: int) -> list[float]:
    """The device is waited for once, after the last sample: while it is busy, the host runs ahead of it."""
    import torch

    flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.int8, device="cuda")
    pairs = []
    for _ in range(count):
        timed.prepare()
        flush.zero_()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        timed.run()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairs]


def _take_cpu(timed: Pass, count: int) -> list[float]:
    samples = []
    for _ in range(count):
        timed.prepare()
        start = time.perf_counter_ns()
        timed.run()
        samples.append((time.perf_counter_ns() - start) / 1e6)
    return samples
