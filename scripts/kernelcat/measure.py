"""One configuration → a record of what was measured, or of how it failed.

The measuring happens in a child process, so that a crash, a hang or an exhausted memory is a result and not the end of
the job.
"""

import contextlib
import ctypes
import hashlib
import multiprocessing
import os
import re
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

from kernelcat import correctness, environment, identity, kernels, samples, timing
from kernelcat.errors import KernelcatError
from kernelcat.fault import printable
from kernelcat.grid import Configuration
from kernelcat.kernel import TORCH_NAMES, Provider, as_tuple, differentiable
from kernelcat.metrics import Row

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def measure(configuration: Configuration, own_kernels: str | None, seconds: float) -> dict:
    """The record of `configuration`, measured in a child process that may take `seconds`.

    A record has `status` (of a BenchmarkRun), `reason` (one line, empty when passed), `configuration`, `observedAt`,
    `device` (its name), `environment` (a spec), `versions` (of the provider's packages and liger-kernel), for code of
    the kernel file itself its `source`, and as far as it got: `correctness`, `samplesMs`, `peakMemoryBytes`, `state`
    (before and after).
    Raises KernelcatError when the machine is at fault: no GPU where one was asked for.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(configuration.as_json(), own_kernels, sender), daemon=True)
    child.start()
    sender.close()
    record: dict = {}
    failure = {"status": "timeout", "reason": f"took longer than {seconds:g} s"}
    end = time.monotonic() + seconds
    try:
        while receiver.poll(max(0.0, end - time.monotonic())):
            record |= receiver.recv()
    except EOFError:
        # What has closed its end of the pipe may still be running, and then join() would not keep to a time limit.
        while child.exitcode is None and time.monotonic() < end:
            time.sleep(0.01)
        if child.exitcode is not None:
            code = child.exitcode
            how = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
            failure = {"status": "runtime_error", "reason": f"the measuring process {how}"}
    finally:
        _end(child)
    if "machine" in record:
        raise KernelcatError(record["machine"])
    if "environment" not in record:
        raise KernelcatError(f"{configuration.path}: {failure['reason']} before the device could be described")
    return failure | record


def _end(child) -> None:
    """Kills the measuring process and what it has started, which `_child` put into a group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.join()


def rows(record: dict) -> list[Row]:
    """The rows of the configuration's CSV: latency in ms, on a GPU also peak memory in MB (2^20 bytes); none when it
    did not pass.

    The x of a row is the kernel's first axis; the config holds the other axes, the dtype and the scalars by name.
    """
    if record["status"] != "passed":
        return []
    configuration = Configuration.from_json(record["configuration"])
    case = configuration.case
    (x_name, x_value), *others = case.axes.items()
    common = {
        "kernel_name": configuration.kernel,
        "kernel_provider": configuration.provider,
        "kernel_operation_mode": configuration.mode,
        "x_name": x_name,
        "x_label": x_name,
        "x_value": x_value,
        "config": dict(others) | {"dtype": TORCH_NAMES[case.dtype]} | case.scalars,
        "gpu_name": record["device"],
        "timestamp": f"{record['observedAt'][:10]} {record['observedAt'][11:19]}",
        "liger_version": record["versions"]["liger-kernel"] or "",
    }
    latency = samples.summary(record["samplesMs"])
    values = {"speed": ("ms", latency["median"], latency["p20"], latency["p80"])}
    if "peakMemoryBytes" in record:
        values["memory"] = ("MB", *[record["peakMemoryBytes"] / 2**20] * 3)
    return [
        Row.make(metric_name=name, metric_unit=unit, y_value_50=y_50, y_value_20=y_20, y_value_80=y_80, **common)
        for name, (unit, y_50, y_20, y_80) in values.items()
    ]


def _child(values: dict, own_kernels: str | None, sender) -> None:
    """Sends the record piece by piece, so that what is known survives a crash; the status comes last."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # however the parent ends, it ends too
    configuration = Configuration.from_json(values)
    if configuration.device == "cpu":
        from kernelcat import interpreter  # noqa: F401  before anything imports triton

    import torch

    if configuration.device == "cuda" and not torch.cuda.is_available():
        sender.send({"machine": "device: expected a GPU that torch can use, found none (device: cpu measures without)"})
        return
    path = kernels.files(own_kernels)[configuration.kernel]
    kernel = kernels.load(path)
    provider = kernel.providers[configuration.provider]
    sender.send({} if provider.library else {"source": _source(path, provider)})
    sender.send(
        {
            "configuration": values,
            "observedAt": identity.instant(datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")),
            "device": environment.device_name(configuration.device),
            "environment": environment.describe(configuration.device),
            "versions": {package: environment.version(package) for package in {*provider.packages, "liger-kernel"}},
        }
    )
    try:
        _measure(configuration, kernel, sender)
    except Exception as error:
        sender.send({"status": _status(error), "reason": _first_line(error)})


def _measure(configuration: Configuration, kernel, sender) -> None:
    import torch

    case, device, mode = configuration.case, configuration.device, configuration.mode
    seed = int(hashlib.sha256(f"{configuration.kernel} {case.key}".encode()).hexdigest()[:8], 16)
    gradients = mode != "forward"
    provider = kernel.providers[configuration.provider]
    try:
        expected = correctness.reference_results(kernel, case, device, seed, gradients)
    except Exception as error:
        if _status(error) == "resource_exceeded":
            raise
        sender.send({"status": "invalid_reference", "reason": _first_line(error)})
        return
    # Prepared and called once with other values than those that count: a result that was kept cannot pass.
    inputs = correctness.make_inputs(kernel, case, device, seed + 2)
    call = provider.prepare(**inputs, **case.scalars)
    call()
    with torch.no_grad():
        for name, value in correctness.make_inputs(kernel, case, device, seed).items():
            inputs[name].copy_(value)
    outputs = as_tuple(call())
    if fault := correctness.output_fault(kernel, outputs):
        sender.send({"status": "incorrect_shape", "reason": fault})
        return
    upstream = correctness.make_upstream(outputs, case.dtype, seed)
    if gradients:
        # Clones, because kernels write into the upstream gradient and, in their backward pass, into their outputs.
        kept = tuple(output.detach().clone() for output in outputs)
        torch.autograd.backward(differentiable(outputs), tuple(gradient.clone() for gradient in upstream))
        outputs = kept
    comparison = correctness.compare(
        correctness.provider_results(kernel, outputs, inputs, gradients), expected, case.dtype
    )
    sender.send(
        {
            "correctness": {
                "comparator": correctness.COMPARATOR,
                "maximumAbsoluteError": comparison.maximum_absolute_error,
                "maximumRelativeError": comparison.maximum_relative_error,
                "matchedRatio": comparison.matched_ratio,
            }
        }
    )
    if comparison.status != "passed":
        sender.send({"status": comparison.status, "reason": comparison.reason})
        return
    del expected, outputs
    pristine = {
        name: value.detach()
        for name, value in correctness.make_inputs(kernel, case, device, seed).items()
        if not torch.equal(value, inputs[name])
    }
    protocol = timing.PROTOCOLS[configuration.protocol]
    timed = timing.make_pass(call, inputs, upstream, mode, pristine, protocol.fresh)
    before = environment.state(device)
    samples = timing.sample(protocol, timed)
    sender.send({"samplesMs": samples, "state": {"before": before, "after": environment.state(device)}})
    if device == "cuda":
        sender.send({"peakMemoryBytes": timing.peak_memory_bytes(timed)})
    sender.send({"status": "passed", "reason": ""})


def _status(error: Exception) -> str:
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error):
        return "resource_exceeded"
    names = {f"{cls.__module__}.{cls.__name__}" for cls in type(error).__mro__}
    compilers = ("triton.compiler.", "torch._dynamo.", "torch._inductor.")
    return "compile_error" if any(name.startswith(compilers) for name in names) else "runtime_error"


def _first_line(error: Exception) -> str:
    """The error in one line, without the folders of this machine and its user."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = printable(lines[0]) if lines else ""
    text = _QUOTED_PATH.sub(lambda match: match[1] + _file_name(match[2]) + match[1], text)
    text = _PATH.sub(lambda match: _file_name(match[0]), text)
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__


# An absolute path or one from a home folder, in quotes with whatever stands in them, or else up to a blank. A slash
# behind a letter begins one only where a second slash follows: "-I/usr/include", not "forward/backward".
_QUOTED_PATH = re.compile(r"""(['"])(~?\w*/[^'"]*)\1""")
_PATH = re.compile(r"""(?:~\w*/|(?<![\w.])/|/(?=[^\s/'"]+/))[^\s'",:;()]*""")


def _file_name(path: str) -> str:
    """The name of the file that a path ends in; a path that may end in a folder says nothing."""
    name = path.rpartition("/")[2]
    return name if re.fullmatch(r"[\w.-]+\.\w+", name) else "…"


def _source(path: Path, provider: Provider) -> dict:
    """What an ImplementationRevision says about the file that holds the code: the helper that the provider's symbol
    names, or else the kernel file at `path`."""
    helper = path.with_name((provider.symbol or "").partition(":")[0] + ".py")
    file = helper if helper.is_file() else path
    data = file.read_bytes()
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    return {"contentDigest": digest, "fileName": file.name, "sizeBytes": len(data)}
