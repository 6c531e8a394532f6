"""Measuring: one configuration, end to end on a CPU. Whatever a provider does is a result, and one line says which."""

import ast
import hashlib
import json
import time
from pathlib import Path

import numpy
import psutil
import pytest
import torch

from kernelcat import child, measure
from kernelcat.errors import KernelcatError
from kernelcat.grid import Configuration
from kernelcat.kernel import Case
from kernelcat.timing import Sampling

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


def survived(x):
    for descriptor in os.listdir("/proc/self/fd"):
        if os.path.exists(f"/proc/self/fd/{descriptor}"):
            os.set_inheritable(int(descriptor), True)
    subprocess.Popen(["sleep", "602.5"], close_fds=False, start_new_session=True)
    os.kill(os.getpid(), 9)


def kept(x):
    y = x + x
    return lambda: y


def drifting(x):
    calls = []

    def call():
        calls.append(1)
        return x + x if len(calls) < 5 else x * 3

    return call


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
        "gone": provider(lambda x: os._exit(3)),
        "exhausted": provider(exhausted),
        "endless": provider(endless),
        "silent": provider(silent),
        "survived": provider(survived),
        "kept": Provider(kept),
        "drifting": Provider(drifting),
        "generous": provider(lambda x: (x + x, x)),
        "empty": provider(lambda x: None),
    },
)
"""
REFERENCES = {
    "double": "2 * x",
    "unsure": "1 / 0",
    "greedy": "(_ for _ in ()).throw(MemoryError('too much'))",
}


@pytest.fixture(scope="module", autouse=True)
def warm(workflow_process):
    """All but the tests that say otherwise measure in forks of one worker, which is faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(measure.WORKFLOW, str(workflow_process.pid))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("own_kernels")
    for name, reference in REFERENCES.items():
        (path / f"{name}.py").write_text(KERNEL_FILE.replace("REFERENCE", reference))
    return path


def measured(folder, provider: str, kernel: str = "double", mode: str = "full", seconds: float = 120, **how) -> dict:
    case = Case({"rows": 4, "hidden": 8}, "fp32")
    configuration = Configuration(kernel, provider, mode, case, "monotonic", "cpu", Sampling(0.5, 0.1, 120))
    return measure.measure(configuration, str(folder), seconds, **how)


@pytest.fixture(scope="module")
def passed(folder) -> dict:
    """The record of a provider that is right."""
    return measured(folder, "right")


def test_a_right_provider_passes(passed, folder):
    assert (passed["status"], passed["reason"]) == ("passed", "")
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
    assert passed["environment"]["hardware"]["product"] == passed["device"]
    assert Configuration.from_json(passed["configuration"]).provider == "right"
    json.dumps(passed, allow_nan=False)


def test_samples_are_what_the_sampling_asks_for(passed):
    assert 5 <= len(passed["samplesMs"]) <= 120
    assert min(passed["samplesMs"]) > 0
    assert sum(passed["samplesMs"]) / 1e3 < passed["samplingSeconds"] < 60
    assert 0 <= passed["compileSeconds"] < 60


def test_a_cpu_has_no_memory_device_or_state_of_its_own(passed):
    assert passed.keys().isdisjoint({"peakMemoryBytes", "deviceMs"})
    assert passed["state"] == {"before": {}, "after": {}}


@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_each_pass_is_measured_alone(folder, mode):
    record = measured(folder, "right", mode=mode)
    assert (record["status"], record["configuration"]["mode"]) == ("passed", mode)


def test_a_process_with_all_imports_before_it_says_the_same(folder, passed):
    record = measured(folder, "right", warm=False)
    assert record.keys() == passed.keys()
    for key in ("status", "device", "environment", "versions", "source", "configuration", "correctness"):
        assert record[key] == passed[key]


def test_what_passed_is_a_row_of_the_csv(passed):
    (row,) = measure.rows(passed)
    assert (row.kernel_name, row.kernel_provider, row.kernel_operation_mode) == ("double", "right", "full")
    assert (row.metric_name, row.metric_unit) == ("speed", "ms")
    assert (row.x_name, row.x_value) == ("rows", "4")
    assert json.loads(row.extra_benchmark_config_str) == {"hidden": 8, "dtype": "torch.float32"}
    quantiles = [float(value) for value in (row.y_value_50, row.y_value_20, row.y_value_80)]
    assert quantiles == pytest.approx(numpy.quantile(passed["samplesMs"], [0.5, 0.2, 0.8]).tolist())
    assert row.timestamp == passed["observedAt"][:19].replace("T", " ")


def test_the_memory_of_a_csv_is_what_was_allocated(passed):
    """As in Liger's suite, which asks torch.cuda.max_memory_allocated."""
    peak = {"allocated": 3 * 2**20, "reserved": 2**30, "increase": 2**20}
    speed, memory = measure.rows(passed | {"peakMemoryBytes": peak})
    assert speed == measure.rows(passed)[0]
    assert (memory.metric_name, memory.metric_unit) == ("memory", "MB")
    assert [float(value) for value in (memory.y_value_50, memory.y_value_20, memory.y_value_80)] == [3, 3, 3]


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
        ("gone", "runtime_error", "the measuring process exited with code 3"),
        ("exhausted", "resource_exceeded", "MemoryError: no memory left"),
        ("kept", "incorrect_numerical", "y: mean error "),
        ("drifting", "incorrect_numerical", "after timing: y: mean error "),
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
    record = measured(folder, provider, seconds=5)
    assert sleeping("601.5") == []
    assert (record["status"], record["reason"]) == ("timeout", "took longer than 5 s")
    assert record["observedAt"].endswith("Z")


def test_what_got_away_from_a_measuring_process_keeps_nobody_waiting(folder, passed):
    """It holds the pipe open that the record comes through."""
    start = time.monotonic()
    record = measured(folder, "survived")
    [survivor] = sleeping("602.5")
    survivor.kill()
    assert (record["status"], record["reason"]) == ("runtime_error", "the measuring process was ended by signal 9")
    assert time.monotonic() - start < 60


def sleeping(seconds: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", seconds]]


def test_a_reference_that_raises_is_no_fault_of_the_provider(folder):
    record = measured(folder, "right", kernel="unsure")
    assert (record["status"], record["reason"]) == ("invalid_reference", "ZeroDivisionError: division by zero")


def test_a_reference_without_memory_is_no_wrong_reference(folder):
    record = measured(folder, "right", kernel="greedy")
    assert (record["status"], record["reason"]) == ("resource_exceeded", "MemoryError: too much")


def test_a_machine_too_slow_to_begin_is_no_result(folder):
    with pytest.raises(KernelcatError, match="took longer than 0 s before the device could be described") as caught:
        measured(folder, "right", seconds=0)
    assert len(str(caught.value).splitlines()) == 1


# ---- reasons


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "ValueError"),
        ("one\ntwo", "ValueError: one"),
        ("\n \n  late", "ValueError: late"),
        ("raised:\n  NameError: what\n\nSet VERBOSE=1", "ValueError: raised: NameError: what"),
        ("nothing:\n", "ValueError: nothing:"),
        ("no '/usr/lib/x.so' here", "ValueError: no 'x.so' here"),
        ("/tmp/a/b.cu(3): error: /tmp/a/c.h", "ValueError: b.cu(3): error: c.h"),
        ("a/b is a ratio, ../x a path", "ValueError: a/b is a ratio, ../x a path"),
        ("x" * 400, "ValueError: " + "x" * 288),
    ],
)
def test_a_reason_is_one_line_without_folders(text, line):
    assert child._first_line(ValueError(text)) == line


def test_the_reason_of_a_compile_error_is_the_innermost_one():
    triton_errors = pytest.importorskip("triton.compiler.errors")
    source = "def f(x):\n    return x + y"
    node = ast.parse(source).body[0].body[0].value.right

    def error(message: str | None, cause=None) -> BaseException:
        made = triton_errors.CompilationError(source, node, message)
        made.__cause__ = cause
        return made

    inner = error("NameError('y is not\ndefined')")
    said = "CompilationError: at 2:15: NameError('y is not\\ndefined')"
    assert child._first_line(inner) == child._first_line(error(None, inner)) == said
    assert child._first_line(error(None)) == "CompilationError: at 2:15: def f(x):"


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
    assert child._first_line(ValueError(text)) == f"ValueError: {said}"


# ---- what is not tried

OOM = {"status": "resource_exceeded", "reason": "OutOfMemoryError: CUDA out of memory", "conditions": "now"}


def written(folder: Path, rows: int, hidden: int = 8, **values) -> Configuration:
    """A configuration of that case, and its record in the folder of such records."""
    cell = Configuration("double", "right", "full", Case({"rows": rows, "hidden": hidden}, "fp32"), "events", "cuda")
    known = {"device": "a GPU", "environment": {"hardware": {}}, "versions": {"torch": "2"}}
    record = OOM | known | {"configuration": cell.as_json()} | values
    (folder / f"{rows}-{hidden}.json").write_text(json.dumps(record))
    return cell


@pytest.mark.parametrize(
    ("tried", "rows", "hidden", "skipped"),
    [
        ({}, 8, 8, True),
        ({}, 4, 16, True),
        ({}, 4, 8, False),
        ({}, 2, 16, False),
        ({"status": "passed", "reason": ""}, 8, 8, False),
        ({"status": "timeout"}, 8, 8, False),
        ({"conditions": "before"}, 8, 8, False),
        ({"configuration": {"kernel": "double"}}, 8, 8, False),
    ],
)
def test_a_larger_case_after_an_exhausted_memory_is_not_tried(tmp_path, tried, rows, hidden, skipped):
    first = written(tmp_path, 4)
    if "configuration" in tried:
        tried = {"configuration": first.as_json() | {"provider": "other"}}
    written(tmp_path, 4, **tried)
    case = {"axes": {"rows": rows, "hidden": hidden}, "dtype": "fp32"}
    cell = Configuration.from_json(first.as_json() | {"case": case})
    record = measure.exhausted(cell, tmp_path, "now")
    assert (record is not None) == skipped
    if skipped:
        assert record["status"] == "resource_exceeded"
        assert record["reason"] == "skipped after hidden8-rows4-fp32, OutOfMemoryError: CUDA out of memory"
        assert record["configuration"] == cell.as_json()
        assert measure.rows(record) == []


def test_what_was_skipped_names_the_case_that_was_tried(tmp_path):
    written(tmp_path, 8, reason="skipped after hidden8-rows4-fp32, OutOfMemoryError: CUDA out of memory")
    (tmp_path / "other").mkdir()
    cell = written(tmp_path / "other", 16)
    assert measure.exhausted(cell, tmp_path, "now")["reason"].startswith("skipped after hidden8-rows4-fp32, Out")
