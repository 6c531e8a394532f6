"""Timing: statistics are right, every sample works on the same numbers, samples are as many as the config says."""

import gc
import math
import time
from unittest import mock

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcat import identity, manifests, samples, timing
from kernelcat.timing import ENOUGH, FEWEST, Sampling

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


@pytest.mark.parametrize(
    ("values", "expected"),
    [([2.0], 0), ([3.0] * 50, 0), ([1.0, 2.0, 3.0], 0.5), ([float(n) for n in range(1, 101)], 10.5 / 50.5)],
)
def test_the_half_width_is_a_part_of_the_median(values, expected):
    """The interval of 1 to 100 is from 40 to 61."""
    assert samples.half_width(values) == pytest.approx(expected)


@settings(deadline=None)
@given(times, st.randoms(use_true_random=False), st.sampled_from([0.25, 4, 1024]))
def test_the_half_width_knows_neither_order_nor_unit(values, random, factor):
    other = [value * factor for value in values]
    random.shuffle(other)
    assert samples.half_width(other) == pytest.approx(samples.half_width(values))


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

    def __init__(self, mode: str, fresh: bool = True):
        self.x = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        self.weight = torch.nn.Parameter(torch.tensor([4.0, 5.0]))
        self.upstream = torch.tensor([1.0, 10.0])
        self.calls = 0
        pristine = {"x": self.x.detach().clone()}
        inputs = {"x": self.x, "weight": self.weight, "target": torch.tensor([1])}
        self.timed = timing.make_pass(self.call, inputs, (self.upstream,), mode, pristine, fresh)

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


@pytest.mark.parametrize(("mode", "calls"), [("forward", 3), ("backward", 1), ("full", 3)])
def test_where_samples_are_not_fresh_only_gradients_are_dropped(mode, calls):
    """As the Liger suite times: what a kernel writes into its inputs and its upstream gradient stays written."""
    scene = Scene(mode, fresh=False)
    for _ in range(3):
        scene.timed.prepare()
        assert (scene.x.grad, scene.weight.grad) == (None, None)
        scene.timed.run()
    assert scene.calls == calls
    assert scene.x.tolist() == [3**calls, 2 * 3**calls]
    assert scene.upstream.tolist() == ([1, 10] if mode == "forward" else [5**3, 10 * 5**3])


def test_a_pass_gives_its_outputs_and_what_collects_gradients():
    scene = Scene("forward")
    scene.timed.prepare()
    scene.timed.run()
    [y] = scene.timed.outputs()
    assert y.tolist() == [4, 10]
    assert [leaf is of for leaf, of in zip(scene.timed.leaves, (scene.x, scene.weight), strict=True)] == [True, True]


# ---- sampling


class Clock:
    """Time that passes only in passes: `durations` says how long each takes in seconds, in turn and again from the
    start."""

    def __init__(self, *durations: float):
        self.durations, self.now, self.passes = durations, 0.0, 0
        self.samples: list[float] = []
        self.batches: list[int] = []

    def monotonic(self) -> float:
        return self.now

    def take(self, count: int, lead_in: int) -> list[float]:
        indices = range(self.passes, self.passes + lead_in + count)
        found = [self.durations[index % len(self.durations)] for index in indices]
        self.now += sum(found)
        self.passes += len(found)
        self.batches.append(count)
        self.samples += (taken := [duration * 1e3 for duration in found[lead_in:]])
        return taken

    def sampled(self, sampling: Sampling, estimate: float | None = None) -> list[float]:
        """Samples in ms, where the warm-up found that one takes `estimate` seconds."""
        with mock.patch.object(timing, "time", self):
            return timing._sample(self.take, sampling, self.durations[0] if estimate is None else estimate)


samplings = st.builds(
    Sampling,
    precision=st.floats(1e-6, 0.5),
    seconds=st.floats(1e-3, 100),
    samples=st.integers(FEWEST, 3000),
)
durations = st.lists(st.floats(1e-6, 10), min_size=1, max_size=30)


@settings(deadline=None)
@given(samplings, durations, st.floats(0, 10))
def test_samples_are_never_more_than_wanted_and_never_fewer_than_five(sampling, durations, estimate):
    clock = Clock(*durations)
    found = clock.sampled(sampling, estimate)
    assert FEWEST <= len(found) <= sampling.samples
    assert found == clock.samples


@settings(deadline=None)
@given(samplings, durations, st.floats(0, 10))
def test_sampling_ends_for_a_reason(sampling, durations, estimate):
    """All samples that are wanted, a median that is known well enough, or no time for another one."""
    clock = Clock(*durations)
    found = clock.sampled(sampling, estimate)
    precise = len(found) >= ENOUGH and samples.half_width(found) <= sampling.precision
    spent = clock.now + clock.now / len(found) > sampling.seconds * (1 - 1e-9)
    assert len(found) == sampling.samples or precise or spent


@settings(deadline=None)
@given(samplings, st.floats(1e-6, 10))
def test_sampling_keeps_to_its_time(sampling, duration):
    """Where the warm-up foretells the samples; five are taken in any case, and a batch has a lead-in."""
    clock = Clock(duration)
    clock.sampled(sampling)
    assert clock.now <= max(sampling.seconds, FEWEST * duration) + timing.LEAD_IN_SECONDS + 1e-9


@settings(deadline=None)
@given(samplings, durations, st.floats(0, 10))
def test_batches_grow_with_what_is_known(sampling, durations, estimate):
    """A first batch cannot take all the time on the word of the warm-up."""
    clock = Clock(*durations)
    clock.sampled(sampling, estimate)
    for number, batch in enumerate(clock.batches):
        assert batch <= max(ENOUGH, sum(clock.batches[:number]) // 2)


@settings(deadline=None)
@given(samplings, durations, st.floats(0, 10))
def test_lead_ins_are_short_and_no_samples(sampling, durations, estimate):
    clock = Clock(*durations)
    found = clock.sampled(sampling, estimate)
    assert clock.passes - len(found) <= timing.LEAD_IN_PASSES * len(clock.batches)


@pytest.mark.parametrize(
    ("durations", "sampling", "count"),
    [
        ([1e-3], Sampling(0.01, 1, 1000), 100),
        ([1e-3], Sampling(0.01, 1, 60), 60),
        ([1e-3], Sampling(0.01, 0.0505, 1000), 50),
        ([1.0], Sampling(0.01, 0.05, 1000), 5),
        ([1.0], Sampling(0.01, 7, 1000), 7),
        ([n * 1e-3 for n in range(1, 31)], Sampling(0.01, 100, 1000), 1000),  # half the width is 0.06 then
        ([n * 1e-3 for n in range(1, 31)], Sampling(0.1, 100, 1000), 300),
        ([n * 1e-3 for n in range(1, 31)], Sampling(0.5, 100, 1000), 100),
    ],
)
def test_how_many_samples_are_taken(durations, sampling, count):
    assert len(Clock(*durations).sampled(sampling)) == count


def counted(prepare_s: float = 0, run_s: float = 0) -> tuple[timing.Pass, list[str], mock._patch]:
    """A pass, the order of its steps, and a patch under which they take as long as is said."""
    order: list[str] = []
    clock = mock.Mock(now=0.0)
    clock.monotonic = lambda: clock.now
    clock.perf_counter_ns = lambda: round(clock.now * 1e9)

    def step(name, seconds):
        order.append(name)
        clock.now += seconds

    timed = timing.Pass(lambda: step("prepare", prepare_s), lambda: step("run", run_s))
    return timed, order, mock.patch.object(timing, "time", clock)


@pytest.mark.parametrize(("seconds", "passes"), [(0.02, 3), (0.013, 4), (0.0101, 5), (1, 3)])
def test_the_warm_up_is_three_passes_and_a_twentieth_of_a_second(seconds, passes):
    timed, order, patched = counted(run_s=seconds)
    with patched:
        found = timing.sample(timing.PROTOCOLS["monotonic"], Sampling(0.01, seconds * 8, 8), timed)
    assert len(found) == 8
    assert order == ["prepare", "run"] * (passes + 8)


def test_the_warm_up_tells_how_long_the_fastest_pass_takes():
    clock = Clock(0.5, 0.3, 0.01, 0.4)
    with mock.patch.object(timing, "time", clock):
        assert timing._warm_up(clock.take) == pytest.approx(0.01)
    assert clock.batches == [1, 1, 1]


def test_preparing_is_not_timed():
    timed, _, patched = counted(prepare_s=0.02, run_s=0.005)
    with patched:
        found = timing.sample(timing.PROTOCOLS["monotonic"], Sampling(0.01, 0.2, 100), timed)
    assert found == pytest.approx([5.0] * 8)  # but it takes its part of the 0.2 s


@pytest.mark.parametrize("fails", [False, True])
def test_garbage_is_not_collected_while_samples_are_taken(fails):
    states = []

    def run():
        time.sleep(0.01)
        states.append(gc.isenabled())
        if fails and len(states) > 3:
            raise RuntimeError

    try:
        timing.sample(timing.PROTOCOLS["monotonic"], Sampling(0.01, 0.001, 5), timing.Pass(lambda: None, run))
    except RuntimeError:
        assert fails
    assert set(states) == {False}
    assert gc.isenabled()


def test_do_bench_is_asked_as_the_liger_suite_asks_it(monkeypatch):
    import triton.testing

    asked = []

    def do_bench(*arguments, **options):
        asked.append((arguments, options))
        return [1.0, 2.0]

    monkeypatch.setattr(triton.testing, "do_bench", do_bench)
    timed = Scene("full", fresh=False).timed
    assert timing.sample(timing.PROTOCOLS["do_bench"], None, timed) == [1.0, 2.0]
    assert asked == [((timed.run, 25, 500), {"grad_to_none": timed.leaves, "return_mode": "all"})]


# ---- protocols


@pytest.mark.parametrize("mode", ["forward", "backward", "full"])
@pytest.mark.parametrize("found", timing.PROTOCOLS.values(), ids=timing.PROTOCOLS)
def test_protocols_say_what_they_do(found, mode):
    assert timing.PROTOCOLS[found.name] is found
    assert found.device == ("cpu" if found.name == "monotonic" else "cuda")
    sampling = Sampling(0.02, 1.5, 700) if found.adaptive else None
    spec = found.spec(mode, "any", sampling)
    assert manifests.manifest("BenchmarkProtocol", "any", spec)["spec"] == spec
    measurement, comparability = spec["measurement"], spec["comparability"]
    assert comparability["family"] == f"kernelcat_{found.name}"
    assert measurement["warmupIterations"] == found.warmup_iterations
    assert measurement["warmupDuration"] == found.warmup_ns
    assert measurement["inputRegeneration"] == ("restored_when_written" if found.fresh else "none")
    notes = comparability["notes"]
    assert len(notes) <= 1000
    limits = "within ±2 % and there are 100, at most 700 or for 1.5 s, but 5 in any case"
    assert (limits if found.adaptive else "warmup=25 and rep=500") in notes
    walks = {True: "follows a fresh forward pass", False: "walk the graph of one forward pass"}
    assert (walks[found.fresh] in notes) == (mode == "backward")
    assert walks[not found.fresh] not in notes


def test_every_protocol_mode_and_sampling_is_another_document():
    specs = [
        protocol.spec(mode, "any", sampling)
        for protocol in timing.PROTOCOLS.values()
        for mode in ("forward", "backward", "full")
        for sampling in ([Sampling(0.01, 1, 1000), Sampling(0.02, 1, 1000)] if protocol.adaptive else [None])
    ]
    digests = {identity.digest(manifests.manifest("BenchmarkProtocol", "any", spec)) for spec in specs}
    assert len(digests) == len(specs) == 3 * (2 * 3 + 1)
