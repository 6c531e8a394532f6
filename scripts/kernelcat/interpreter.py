"""Triton kernels on a CPU: importing this module turns Triton's interpreter on for the process, with three gaps mended
that the kernels of liger-kernel 0.8 run into (seen with triton 3.6 to 3.9).

To be imported before anything else imports triton or liger_kernel.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported, so it has to stand before the imports

import numpy
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner


@triton.jit
def _rsqrt(x):
    return 1.0 / tl.sqrt(x.to(tl.float32))


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x.to(tl.float32)) - 1.0


# The interpreter knows no libdevice: there these functions have no body.
libdevice.rsqrt = _rsqrt
libdevice.tanh = _tanh

_convert = interpreter._implicit_cvt


def _convert_floats_too(argument):
    """A compiled kernel receives a Python float as an fp32 scalar; the interpreter would pass it on bare."""
    if isinstance(argument, float):
        handle = interpreter.TensorHandle(numpy.array([argument], dtype=numpy.float32), tl.float32)
        return tl.tensor(handle, tl.float32)
    return _convert(argument)


interpreter._implicit_cvt = _convert_floats_too

_run = Autotuner.run


def _run_first(self, *arguments, **options):
    """There is no device to time configurations on: the first one it is."""
    self.configs = self.configs[:1]
    return _run(self, *arguments, **options)


Autotuner.run = _run_first
