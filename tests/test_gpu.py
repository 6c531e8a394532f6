"""Measuring on an NVIDIA GPU."""

import contextlib
import os
import statistics
from pathlib import Path

import psutil
import pytest
from conftest import ROOT

from kernelcat import correctness, devices, files, grid, kernels, measure, quality
from kernelcat.grid import Configuration
from kernelcat.kernel import Case
from kernelcat.timing import PROTOCOLS, Sampling

pytestmark = pytest.mark.gpu

SHAPES = {
    "rms_norm": {"rows": 2048, "hidden": 16384},
    "layer_norm": {"rows": 2048, "hidden": 4096},
    "softmax": {"rows": 2048, "hidden": 4096},
    "cross_entropy": {"tokens": 2048, "vocab": 32000},
    "swiglu": {"seq": 1024, "batch": 1, "hidden": 2048, "intermediate": 5632},
    "rope": {"seq": 2048, "hidden": 4096, "q_heads": 32, "kv_heads": 8},
    "fused_linear_cross_entropy": {"tokens": 2048, "hidden": 2048, "vocab": 32000},
}
WAITING = {"cross_entropy", "fused_linear_cross_entropy"}
"""The kernels of which Liger's code asks the device for a number while it launches: no graph can capture that."""


@pytest.fixture(scope="module", autouse=True)
def worker(workflow_process):
    """The one that all measuring processes of this file are forked from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(measure.WORKFLOW, str(workflow_process.pid))
        yield workflow_process.pid


def measured(kernel: str, provider: str, mode: str, dtype: str = "bf16", protocol: str = "events", **changes) -> dict:
    """The record of a configuration; `changes` replace axes of the kernel's shape."""
    case = Case({**SHAPES[kernel], **changes}, dtype, dict(kernels.load_all()[kernel].scalars))
    sampling = Sampling(0.01, 0.5, 1000) if PROTOCOLS[protocol].adaptive else None
    return measure.measure(Configuration(kernel, provider, mode, case, protocol, "cuda", sampling), None, seconds=300)


def median(record: dict, samples: str = "samplesMs") -> float:
    assert record["status"] == "passed", record["reason"]
    return statistics.median(record[samples])


RELEASE = [
    cell
    for cell in grid.expand(
        files.load(ROOT / "config/config.yaml")
        | {"suite": "release", "device": "cuda", "protocol": {"cuda": "events", "cpu": "monotonic"}},
        suites=ROOT / "config/suites",
    ).configurations
    if cell.provider.startswith("liger") and cell.mode == "full"
]


@pytest.mark.parametrize("cell", RELEASE, ids=lambda cell: f"{cell.kernel}-{cell.provider}-{cell.case.dtype}")
def test_liger_agrees_with_the_reference_and_is_timed(cell):
    record = measure.measure(cell, None, seconds=300)
    assert (record["status"], record["reason"]) == ("passed", "")
    assert len(record["samplesMs"]) >= 20 and min(record["samplesMs"]) > 0
    assert [row.metric_name for row in measure.rows(record)] == ["speed", "memory"]


@pytest.mark.parametrize("mode", ["forward", "backward", "full"])
@pytest.mark.parametrize("kernel", SHAPES)
def test_a_captured_pass_agrees_with_the_reference_or_says_that_it_cannot_be_captured(kernel, mode):
    """It is the graph that is asked after timing, with values that it was not captured with."""
    record = measured(kernel, "liger", mode, protocol="graph")
    if record["status"] == "passed":
        assert len(record["samplesMs"]) >= 20 and min(record["samplesMs"]) > 0
        assert "deviceMs" not in record
    else:
        assert kernel in WAITING
        assert record["status"] == "runtime_error"
        assert record["reason"].startswith("a CUDA graph cannot capture this pass: ")
        assert "samplesMs" not in record


@pytest.mark.parametrize("protocol", ["events", "graph"])
def test_compiled_code_is_measured_like_any_other(protocol):
    record = measured("softmax", "torch_compile", "full", protocol=protocol)
    assert (record["status"], record["reason"]) == ("passed", "")
    assert record["compileSeconds"] > 0


@pytest.mark.parametrize("mode", ["forward", "backward", "full"])
@pytest.mark.parametrize(
    ("kernel", "provider"),
    [("rms_norm", "liger"), ("rms_norm", "huggingface"), ("layer_norm", "liger"), ("softmax", "liger")],
)
def test_a_graph_is_no_slower_than_eager_calls(kernel, provider, mode):
    graph, events = (median(measured(kernel, provider, mode, protocol=name)) for name in ("graph", "events"))
    assert graph <= events * 1.1


def test_where_the_host_is_slower_than_the_device_events_say_so_and_graph_does_not():
    """A full pass over 16 rows takes the device some microseconds, and the host a tenth of a millisecond to launch."""
    events, graph = (
        measured("rms_norm", "liger", "full", protocol=name, rows=16, hidden=1024) for name in ("events", "graph")
    )
    assert median(events) > 1.5 * median(events, "deviceMs")
    assert "host_bound" in quality.marks(events)
    assert median(graph) < median(events) / 1.5
    assert "host_bound" not in quality.marks(graph)


def test_where_the_device_is_slower_than_the_host_all_agree():
    """Hugging Face's module over 2048 × 16384 values takes half a millisecond."""
    events = measured("rms_norm", "huggingface", "full")
    assert median(events) == pytest.approx(median(events, "deviceMs"), rel=0.05)
    assert "host_bound" not in quality.marks(events)


@pytest.mark.parametrize("mode", ["forward", "backward", "full"])
@pytest.mark.parametrize("protocol", ["events", "do_bench"])
def test_medians_are_those_of_do_bench(protocol, mode):
    """Hugging Face's module, because it takes the device longer than it takes the host to launch it: of what is
    launched more slowly than it runs, do_bench gives another median each time."""
    import torch
    import triton

    record = measured("rms_norm", "huggingface", mode, protocol=protocol)
    assert len(record["deviceMs"]) >= 5
    kernel = kernels.load_all()["rms_norm"]
    case = Case(SHAPES["rms_norm"], "bf16", dict(kernel.scalars))
    inputs = correctness.make_inputs(kernel, case, "cuda", seed=0)
    call = kernel.providers["huggingface"].prepare(**inputs, **case.scalars)
    y = call()
    upstream = torch.randn_like(y)
    passes = {
        "forward": call,
        "backward": lambda: y.backward(upstream, retain_graph=True),
        "full": lambda: call().backward(upstream),
    }
    by_hand = triton.testing.do_bench(
        passes[mode], rep=500, grad_to_none=list(inputs.values()), quantiles=[0.5, 0.2, 0.8]
    )
    assert median(record) == pytest.approx(by_hand[0], rel=0.05)


@pytest.mark.parametrize("mode", ["forward", "backward", "full"])
@pytest.mark.parametrize("protocol", ["events", "graph"])
def test_peak_memory_is_what_torch_allocated_reserved_and_added(protocol, mode):
    """One tensor of x's shape is 64 MiB: x, the upstream gradient, the output, and with gradients that of x."""
    record = measured("rms_norm", "liger", mode, protocol=protocol)
    peak, x = record["peakMemoryBytes"], 2048 * 16384 * 2
    assert peak.keys() == {"allocated", "reserved", "increase"}
    assert peak["reserved"] >= peak["allocated"]
    assert peak["allocated"] >= peak["increase"] + 2 * x
    assert x <= peak["increase"] < 8 * x
    memory = measure.rows(record)[1]
    assert float(memory.y_value_50) == pytest.approx(peak["allocated"] / 2**20)


def test_peak_memory_does_not_depend_on_what_was_measured_before():
    first, _, second = (measured("rms_norm", "liger", "full", rows=rows) for rows in (256, 2048, 256))
    assert first["peakMemoryBytes"] == second["peakMemoryBytes"]


def test_the_state_of_the_device_is_read_before_and_after():
    state = measured("softmax", "liger", "forward")["state"]
    assert state["before"].keys() == state["after"].keys() >= {"smClockMHz", "temperatureCelsius"}


SEEING = """
import os
import torch
from kernelcat.kernel import Kernel, Provider, tensor

def prepare(x):
    raise RuntimeError(f"{torch.cuda.device_count()} {torch.cuda.get_device_properties().uuid}")

KERNEL = Kernel(
    title="Seeing",
    slug="seeing",
    family="activation",
    axes=("rows",),
    inputs={"x": tensor("rows")},
    outputs={"y": tensor("rows")},
    reference=lambda x: x,
    providers={"torch": Provider(prepare)},
)
"""


def test_a_measuring_process_sees_one_gpu_and_each_another(tmp_path):
    (tmp_path / "seeing.py").write_text(SEEING)
    sampling = Sampling(0.01, 0.5, 1000)
    cell = Configuration("seeing", "torch", "forward", Case({"rows": 8}, "fp32", {}), "events", "cuda", sampling)
    with contextlib.ExitStack() as taken:
        for gpu in devices.survey()[0]:
            record = measure.measure(cell, str(tmp_path), seconds=100)
            assert record["reason"] == f"RuntimeError: 1 {gpu.removeprefix('GPU-')}"
            assert taken.enter_context(devices.held("cuda")) == {"CUDA_VISIBLE_DEVICES": gpu}


def test_a_worker_has_not_initialised_cuda(worker):
    """A fork of a process that has could not use the device."""
    assert measured("softmax", "liger", "forward")["status"] == "passed"
    found = [process for process in psutil.process_iter(["cmdline"]) if is_worker(process.info["cmdline"], worker)]
    assert found
    for process in found:
        links = [os.readlink(path) for path in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert not any(link.startswith("/dev/nvidia-uvm") for link in links)


def is_worker(command: list[str] | None, lifeline: int) -> bool:
    return bool(command) and command[-2:] == ["--preload", "cuda"] and str(lifeline) in command
