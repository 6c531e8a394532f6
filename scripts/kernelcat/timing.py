"""Protocols: how a pass is timed, and the loops that do it.

A sample is one pass. Before each one, outside the timed window, gradients are dropped, inputs that the kernel writes
into and the upstream gradient are restored, and for `backward` the forward pass is run again: Liger's backward kernels
write into what they were given, so a graph that is walked twice works on other numbers the second time. The protocol
`do_bench` does none of this but dropping gradients, as the Liger suite does none of it.
"""

import gc
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from kernelcat import samples as statistics
from kernelcat.kernel import as_tuple, differentiable

L2_FLUSH_BYTES = 256 * 2**20
"""What is cleared between samples, so that inputs come from memory: more than the L2 cache of any GPU."""

ENOUGH, FEW, FEWEST = 100, 20, 5
"""How many samples are taken where the time limit allows it, below how many a run is degenerate, and how many are taken
whatever the time limit says."""

WARM_UP_PASSES, WARM_UP_SECONDS = 3, 0.05

LEAD_IN_PASSES, LEAD_IN_SECONDS = 20, 0.002
"""With how many passes, or for how long, a batch begins that are not samples: after a pause a GPU's first passes are up
to 10 % faster than those that follow."""

CYCLES_PER_SECOND = 2e9
"""Of a GPU's multiprocessors: a rate that none exceeds by much."""

DO_BENCH_WARM_UP_MS, DO_BENCH_SAMPLING_MS = 25, 500


@dataclass(frozen=True)
class Sampling:
    """When there are samples enough: when the half width of the median's 95 % confidence interval is at most
    `precision` of the median, or after `seconds`, or at `samples` of them."""

    precision: float
    seconds: float
    samples: int

    def text(self) -> str:
        return (
            f"Samples until the 95 % confidence interval of the median is within ±{self.precision * 100:g} % and there "
            f"are {ENOUGH}, at most {self.samples} or for {self.seconds:g} s, but {FEWEST} in any case."
        )


@dataclass(frozen=True)
class Protocol:
    """How a pass is timed on one kind of device.

    `adaptive` says that a Sampling decides about the number of samples, `fresh` that each sample finds what the first
    one found, `eager` that the host launches the pass anew for each sample on the GPU, `captured` that it replays a
    CUDA graph instead.
    """

    name: str
    device: str
    timer: str
    clock_text: str
    warmup_iterations: int = WARM_UP_PASSES
    warmup_ns: int = int(WARM_UP_SECONDS * 1e9)
    adaptive: bool = True
    fresh: bool = True
    eager: bool = False
    captured: bool = False

    def spec(self, mode: str, comparator: str, sampling: Sampling | None) -> dict:
        """The spec of the BenchmarkProtocol for `mode`."""
        walked = [_FRESH if self.fresh else _AGAIN] if mode == "backward" else []
        state = [_RESTORED] if self.fresh else []
        notes = [_TIMED[mode], *walked, self.clock_text, *state, *([sampling.text()] if sampling else [])]
        return {
            "harness": {"name": "kernelcat"},
            "measurement": {
                "timer": self.timer,
                "synchronization": "after_batches_of_samples" if self.device == "cuda" else "none",
                "compileIncluded": False,
                "setupIncluded": False,
                "warmupIterations": self.warmup_iterations,
                "warmupDuration": self.warmup_ns,
                "inputRegeneration": "restored_when_written" if self.fresh else "none",
                "outlierPolicy": "none",
                "primaryStatistic": "median",
            },
            "correctness": {"reference": "higher_precision_torch", "comparator": comparator},
            "comparability": {"family": f"kernelcat_{self.name}", "notes": " ".join(notes)},
        }


_TIMED = {
    "forward": "Timed: the forward pass with gradients enabled.",
    "backward": "Timed: the backward pass alone, to all float inputs, given a random upstream gradient.",
    "full": "Timed: the forward pass and the backward pass to all float inputs, given a random upstream gradient made "
    "outside the timed window.",
    "no-grad-forward": "Timed: the forward pass under torch.no_grad.",
}

_FRESH = "Each sample follows a fresh forward pass that is not timed."
_AGAIN = "All samples walk the graph of one forward pass, whatever the kernel writes into it."
_RESTORED = "Before each sample, not timed: gradients dropped, upstream gradients and written inputs restored."

PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            name="events",
            device="cuda",
            timer="cuda_events",
            clock_text="Eager call between two device events, what a user of the module feels: where launching takes "
            "the host longer than running takes the device, that is what it measures. 256 MiB cleared before each "
            "sample to empty the L2 cache.",
            eager=True,
        ),
        Protocol(
            name="graph",
            device="cuda",
            timer="cuda_events",
            clock_text="Replay of a CUDA graph of the pass between two device events: the device's own time, without "
            "the host's launches. 256 MiB cleared before each sample to empty the L2 cache.",
            captured=True,
        ),
        Protocol(
            name="do_bench",
            device="cuda",
            timer="cuda_events",
            clock_text=f"triton.testing.do_bench with warmup={DO_BENCH_WARM_UP_MS} and rep={DO_BENCH_SAMPLING_MS}: "
            "eager call between two device events; 256 MiB cleared before each sample; gradients of the inputs start "
            "empty, nothing else is restored.",
            warmup_iterations=1,
            warmup_ns=DO_BENCH_WARM_UP_MS * 10**6,
            adaptive=False,
            fresh=False,
            eager=True,
        ),
        Protocol(
            name="monotonic",
            device="cpu",
            timer="monotonic_clock",
            clock_text="Call between two readings of the monotonic clock on the CPU; Triton kernels run in Triton's "
            "interpreter, so their times say nothing about a GPU; caches are not cleared.",
        ),
    )
}


@dataclass(frozen=True)
class Pass:
    """One pass to be timed: `run` is inside the timed window, `prepare` before it, outside. `outputs` gives what the
    last forward pass returned, `leaves` are the tensors that collect gradients."""

    prepare: Callable[[], None]
    run: Callable[[], None]
    outputs: Callable[[], tuple] = tuple
    leaves: tuple = ()


class NotCapturable(RuntimeError):
    """A CUDA graph cannot capture the pass: it waits for the device, for instance."""


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
        if mode in ("backward", "full"):
            held["upstream"] = tuple(gradient.clone() for gradient in upstream)
        if mode == "backward":
            held["outputs"] = differentiable(call())

    def forward():
        held["outputs"] = call()

    def no_grad_forward():
        with torch.no_grad():
            held["outputs"] = call()

    def backward():
        torch.autograd.backward(held["outputs"], held["upstream"], retain_graph=not fresh)

    def full():
        torch.autograd.backward(differentiable(call()), held["upstream"])

    run = {"forward": forward, "backward": backward, "full": full, "no-grad-forward": no_grad_forward}[mode]
    return Pass(prepare if fresh else drop_gradients, run, lambda: as_tuple(held["outputs"]), leaves)


def captured(timed: Pass) -> Pass:
    """The pass as two CUDA graphs, one that prepares and one that runs, in memory that both share.

    What is captured works on the same inputs and upstream gradients each time, and writes outputs and gradients into
    the same memory. Raises NotCapturable.
    """
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # libraries make their work space for a stream when they first meet it
        timed.prepare()
        timed.run()
    torch.cuda.synchronize()
    preparing, running = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The CUDA Graph is empty")  # a forward pass may need no preparation
            with torch.cuda.graph(preparing, stream=stream):
                timed.prepare()
            with torch.cuda.graph(running, pool=preparing.pool(), stream=stream):
                timed.run()
    except Exception as error:
        first = error
        while first.__context__:  # what ended the capture; leaving it fails as well
            first = first.__context__
        text = str(first).strip().partition("\n")[0]
        raise NotCapturable(f"a CUDA graph cannot capture this pass: {text}") from error
    return Pass(preparing.replay, running.replay, timed.outputs, timed.leaves)


def sample(protocol: Protocol, sampling: Sampling | None, timed: Pass) -> list[float]:
    """Latency samples in milliseconds, in the order in which they were taken, after a warm-up.

    `sampling` is None for protocols that are not adaptive.
    """
    if not protocol.adaptive:
        from triton.testing import do_bench

        return do_bench(
            timed.run, DO_BENCH_WARM_UP_MS, DO_BENCH_SAMPLING_MS, grad_to_none=timed.leaves, return_mode="all"
        )
    take = _cuda_samples(timed) if protocol.device == "cuda" else _cpu_samples(timed)
    gc.collect()
    gc.disable()
    try:
        return _sample(take, sampling, _warm_up(take))
    finally:
        gc.enable()


def _warm_up(take: Callable[[int, int], list[float]]) -> float:
    """The wall time of one pass in seconds, of the fastest in the warm-up."""
    count, fastest, start = 0, float("inf"), time.monotonic()
    while count < WARM_UP_PASSES or time.monotonic() - start < WARM_UP_SECONDS:
        began = time.monotonic()
        take(1, 0)
        fastest = min(fastest, time.monotonic() - began)
        count += 1
    return fastest


def _sample(take: Callable[[int, int], list[float]], sampling: Sampling, seconds_each: float) -> list[float]:
    """Batches of samples, each half as many as there are, until `sampling` is content."""
    found: list[float] = []
    start = time.monotonic()
    while True:
        remaining = sampling.seconds - (time.monotonic() - start)
        affordable = max(int(remaining / max(seconds_each, 1e-9)), FEWEST - len(found))
        batch = min(max(ENOUGH, len(found) // 2), affordable, sampling.samples - len(found))
        if batch < 1 or (len(found) >= ENOUGH and statistics.half_width(found) <= sampling.precision):
            return found
        found += take(batch, min(LEAD_IN_PASSES, int(LEAD_IN_SECONDS / max(seconds_each, 1e-9))))
        seconds_each = (time.monotonic() - start) / len(found)


def device_samples(timed: Pass) -> list[float]:
    """Samples in milliseconds of the device's own time: the device is kept busy until the host has launched the whole
    pass. CUDA only. A pass that waits for the device hides nothing from its samples.

    At most 20, and for 0.2 s.
    """
    import torch

    flush = _l2_flush()
    found: list[float] = []
    host_seconds = 1e-3
    start = time.monotonic()
    while len(found) < FEW and (len(found) < FEWEST or time.monotonic() - start < 0.2):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        timed.prepare()
        flush.zero_()
        torch.cuda._sleep(int((2 * host_seconds + 1e-4) * CYCLES_PER_SECOND))
        launched = time.perf_counter()
        begin.record()
        timed.run()
        end.record()
        host_seconds = time.perf_counter() - launched
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end))
    return found


def peak_memory(timed: Pass) -> dict[str, int]:
    """Bytes of device memory (CUDA only): the peaks of what torch `allocated` and `reserved` during one pass,
    everything that is alive included, and the `increase` of the first over what was allocated before the pass was
    prepared, which is the inputs and the upstream gradient."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    timed.prepare()
    timed.run()
    torch.cuda.synchronize()
    allocated = torch.cuda.max_memory_allocated()
    return {
        "allocated": allocated,
        "reserved": torch.cuda.max_memory_reserved(),
        "increase": allocated - before,
    }


def _l2_flush():
    import torch

    return torch.empty(L2_FLUSH_BYTES, dtype=torch.int8, device="cuda")


def _cuda_samples(timed: Pass) -> Callable[[int, int], list[float]]:
    """The device is waited for once, after the last sample: while it is busy, the host runs ahead of it."""
    import torch

    flush = _l2_flush()

    def take(count: int, lead_in: int) -> list[float]:
        pairs = []
        for _ in range(lead_in + count):
            timed.prepare()
            flush.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            timed.run()
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in pairs[lead_in:]]

    return take


def _cpu_samples(timed: Pass) -> Callable[[int, int], list[float]]:
    def take(count: int, lead_in: int) -> list[float]:
        found = []
        for _ in range(count):
            timed.prepare()
            start = time.perf_counter_ns()
            timed.run()
            found.append((time.perf_counter_ns() - start) / 1e6)
        return found

    return take
