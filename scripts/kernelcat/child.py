"""What a measuring process does: one configuration → the pieces of its record, sent as they become known."""

import hashlib
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from kernelcat import correctness, environment, identity, kernels, timing
from kernelcat.fault import printable
from kernelcat.grid import Configuration
from kernelcat.kernel import Kernel, Provider, as_tuple, differentiable

FIRST, CHECKED, LAST = range(3)
"""Which values the inputs have: of the first call, of the one that is checked and timed, of the check after timing."""


def run(values: dict, own_kernels: str | None, cache: str | None, send: Callable[[dict], None]) -> None:
    """Sends the record of a configuration in pieces, so that what is known survives a crash; the status comes last.

    `values` is the configuration as `Configuration.as_json` gives it, `own_kernels` the folder of the user's kernels,
    `cache` the folder that compiled kernels are kept in. kernelcat.measure says what a record holds.
    """
    configuration = Configuration.from_json(values)
    if cache:
        os.environ |= {"TRITON_CACHE_DIR": f"{cache}/triton", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor"}
    if configuration.device == "cpu":
        from kernelcat import interpreter  # noqa: F401  before anything imports triton

    import torch

    if configuration.device == "cuda" and not torch.cuda.is_available():
        send({"machine": "device: expected a GPU that torch can use, found none (device: cpu measures without)"})
        return
    path = kernels.files(own_kernels)[configuration.kernel]
    kernel = kernels.load(path)
    provider = kernel.providers[configuration.provider]
    send({} if provider.library else {"source": _source(path, provider)})
    send(
        {
            "configuration": values,
            "observedAt": identity.instant(datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")),
            "device": environment.device_name(configuration.device),
            "environment": environment.describe(configuration.device),
            "versions": {package: environment.version(package) for package in {*provider.packages, "liger-kernel"}},
        }
    )
    try:
        _measure(configuration, kernel, send)
    except _Failed as failure:
        send({"status": failure.status, "reason": failure.reason})
    except BaseException as error:  # sys.exit() of a provider is its failure, not ours
        send({"status": _status(error), "reason": _first_line(error)})


class _Failed(Exception):
    """How a run ends that has not passed, and why."""

    def __init__(self, status: str, reason: str):
        super().__init__(reason)
        self.status, self.reason = status, reason


def _measure(configuration: Configuration, kernel: Kernel, send: Callable[[dict], None]) -> None:
    device, protocol = configuration.device, timing.PROTOCOLS[configuration.protocol]
    trial = _Trial(configuration, kernel)
    expected = trial.expected(CHECKED)
    # Prepared and called once with other values than those that count: a result that was kept cannot pass.
    trial.prepare()
    start = time.monotonic()
    trial.results(FIRST)
    first = time.monotonic() - start
    start = time.monotonic()
    results = trial.results(CHECKED)
    second = time.monotonic() - start
    comparison = correctness.compare(results, expected, configuration.case.dtype, kernel.kinks)
    errors = {
        "maximumAbsoluteError": comparison.maximum_absolute_error,
        "maximumRelativeError": comparison.maximum_relative_error,
        "matchedRatio": comparison.matched_ratio,
    }
    stated = {name: value for name, value in errors.items() if value is not None}
    send(
        {
            "compileSeconds": max(0.0, first - second),
            "correctness": {"comparator": correctness.COMPARATOR, **stated},
        }
    )
    if comparison.status != "passed":
        raise _Failed(comparison.status, comparison.reason)
    del expected, results
    measured: dict = {}
    if device == "cuda":
        measured["peakMemoryBytes"] = timing.peak_memory(trial.timed(fresh=True))
    timed = trial.timed(protocol.fresh)
    if protocol.captured:
        try:
            timed = timing.captured(timed)
        except timing.NotCapturable as error:
            raise _Failed("runtime_error", str(error)) from error
    before = environment.state(device)
    start = time.monotonic()
    measured["samplesMs"] = timing.sample(protocol, configuration.sampling, timed)
    measured["samplingSeconds"] = time.monotonic() - start
    measured["state"] = {"before": before, "after": environment.state(device)}
    if protocol.eager:
        measured["deviceMs"] = timing.device_samples(timed)
    # What was timed may have drifted, or been kept instead of computed: it is asked again, with values it never met.
    results = trial.replayed(timed, LAST) if protocol.captured else trial.results(LAST)
    del timed
    expected = {name: value for name, value in trial.expected(LAST).items() if name in results}
    comparison = correctness.compare(results, expected, configuration.case.dtype, kernel.kinks)
    if comparison.status != "passed":
        raise _Failed(comparison.status, f"after timing: {comparison.reason}")
    send(measured | {"status": "passed", "reason": ""})


class _Trial:
    """A configuration's provider with the inputs that it works on. `which` says which values those have."""

    def __init__(self, configuration: Configuration, kernel: Kernel):
        self.kernel, self.case, self.mode = kernel, configuration.case, configuration.mode
        self.provider, self.device = kernel.providers[configuration.provider], configuration.device
        text = f"{configuration.kernel} {self.case.key}"
        # make_upstream takes the seed that follows
        self.seed = 2 * int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)

    @property
    def gradients(self) -> bool:
        return self.mode in ("backward", "full")

    def made(self, which: int) -> dict:
        return correctness.make_inputs(self.kernel, self.case, self.device, self.seed + 2 * which)

    def expected(self, which: int) -> dict:
        """What the reference computes. Raises _Failed when it cannot."""
        seed = self.seed + 2 * which
        try:
            return correctness.reference_results(self.kernel, self.case, self.device, seed, self.gradients)
        except Exception as error:
            if _status(error) == "resource_exceeded":
                raise
            raise _Failed("invalid_reference", _first_line(error)) from error

    def prepare(self) -> None:
        self.inputs = self.made(FIRST)
        self.call = self.provider.prepare(**self.inputs, **self.kernel.keywords(self.case))

    def results(self, which: int) -> dict:
        """What the provider computes, eagerly. Raises _Failed when that is not what the operation gives."""
        import torch

        _give(self.inputs, self.made(which))
        for value in self.inputs.values():
            value.grad = None
        with torch.set_grad_enabled(self.mode != "no-grad-forward"):
            outputs = as_tuple(self.call())
        if fault := correctness.output_fault(self.kernel, outputs):
            raise _Failed("incorrect_shape", fault)
        self.upstream = correctness.make_upstream(outputs, self.case.dtype, self.seed + 2 * which)
        # Clones, because kernels write into the upstream gradient and, in their backward pass, into their outputs.
        kept = tuple(output.detach().clone() for output in outputs)
        if self.gradients:
            torch.autograd.backward(differentiable(outputs), tuple(gradient.clone() for gradient in self.upstream))
        if self.device == "cuda":
            torch.cuda.synchronize()
        return correctness.provider_results(self.kernel, kept, self.inputs, self.gradients)

    def timed(self, fresh: bool) -> timing.Pass:
        """The pass over the values that `results` was last asked for, CHECKED."""
        import torch

        for value in self.inputs.values():
            value.grad = None
        self.pristine = {
            name: value.detach()
            for name, value in self.made(CHECKED).items()
            if not torch.equal(value, self.inputs[name])
        }
        return timing.make_pass(self.call, self.inputs, self.upstream, self.mode, self.pristine, fresh)

    def replayed(self, timed: timing.Pass, which: int) -> dict:
        """What a captured pass computes: outputs in `forward`, gradients in the other modes."""
        import torch

        values = self.made(which)
        _give(self.inputs, values)
        _give(self.pristine, {name: values[name] for name in self.pristine})
        if self.gradients:
            upstream = correctness.make_upstream(self.upstream, self.case.dtype, self.seed + 2 * which)
            _give(dict(enumerate(self.upstream)), dict(enumerate(upstream)))
        timed.prepare()
        timed.run()
        torch.cuda.synchronize()
        outputs = () if self.gradients else timed.outputs()
        return correctness.provider_results(self.kernel, outputs, self.inputs, self.gradients)


def _give(tensors: dict, values: dict) -> None:
    """Gives tensors, in place, the values of others."""
    import torch

    with torch.no_grad():
        for name, value in values.items():
            tensors[name].copy_(value)


def _status(error: BaseException) -> str:
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error):
        return "resource_exceeded"
    names = {f"{cls.__module__}.{cls.__name__}" for cls in type(error).__mro__}
    compilers = ("triton.compiler.", "torch._dynamo.", "torch._inductor.")
    return "compile_error" if any(name.startswith(compilers) for name in names) else "runtime_error"


def _first_line(error: BaseException) -> str:
    """The error in one line, without the folders of this machine and its user: its first, and what that announces with
    a colon. Triton puts an excerpt of the code between both, and what is wrong in a function that another calls into
    the cause."""
    while hasattr(error, "error_message") and isinstance(error.__cause__, type(error)):
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = printable(lines[0]) if lines else ""
    if text.endswith(":") and len(lines) > 1:
        text += " " + printable(getattr(error, "error_message", None) or lines[1])
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
