"""What this machine is: hardware, software and settings, as an ExecutionEnvironment says them.

Nothing here names the machine or its user: no serial number, UUID, host name, user name or path.
"""

import os
import platform
import re
from importlib import metadata

ARCHITECTURES = (
    (r"(Tesla )?V100", "sm_70"),
    (r"Tesla T4|(Quadro )?RTX [568]000|GeForce (GTX 16|RTX 20)\d\d.*", "sm_75"),
    (r"A100|A30|GRID A100.*", "sm_80"),
    (r"A2|A10G?|A16|A40|RTX A\d+.*|GeForce RTX 30\d\d.*", "sm_86"),
    (r"L2|L4|L20|L40S?|RTX \d+ Ada.*|GeForce RTX 40\d\d.*", "sm_89"),
    (r"H20|H100|H200|H800|GH200.*", "sm_90"),
    (r"B100|B200|GB200", "sm_100"),
    (r"B300|GB300", "sm_103"),
    (r"RTX PRO \d+ Blackwell.*|GeForce RTX 50\d\d.*", "sm_120"),
)
"""Compute capability by product, without "NVIDIA " (NVIDIA's table of CUDA GPUs)."""

LIBRARIES = ("liger-kernel", "numpy", "transformers", "triton")

VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TRITON_INTERPRET",
)
"""The environment variables that change what is measured and hold no path."""

_CPU_VENDORS = {"GenuineIntel": "intel", "AuthenticAMD": "amd", "ARM": "arm"}


def version(package: str) -> str | None:
    """The installed version of a pip package without its local part ("2.13.0+cpu" → "2.13.0"), or None."""
    try:
        return metadata.version(package).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def split_gpu_name(name: str) -> tuple[str, str | None]:
    """Product and form factor of a GPU's marketing name, as the published environments split it.

    "NVIDIA A100-SXM4-80GB" → ("NVIDIA A100", "SXM4-80GB"); "NVIDIA GeForce RTX 3090" → (the whole, None).
    """
    match = re.fullmatch(r"(NVIDIA [A-Z]{1,2}\d{1,4}[A-Z]?)[ -](.+)", name)
    return (match[1], match[2]) if match else (name, None)


def architecture(product: str) -> str | None:
    """The compute capability of an NVIDIA product as in "sm_90", None when it is not known."""
    if not product.startswith("NVIDIA "):
        return None
    name = product.removeprefix("NVIDIA ")
    return next((found for pattern, found in ARCHITECTURES if re.fullmatch(pattern, name)), None)


def describe(device: str) -> dict:
    """The spec of this machine's ExecutionEnvironment for "cuda" or "cpu".

    Imports torch, and for "cuda" makes a context on the current device.
    """
    import torch

    software = {
        "operatingSystem": _operating_system(),
        "kernel": platform.release(),
        "framework": {"name": "torch", "version": str(torch.__version__)},
        "libraries": {name.replace("-", "_"): found for name in LIBRARIES if (found := version(name)) is not None}
        | {"python": platform.python_version()},
    }
    variables = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    settings = {"environmentVariables": variables} if variables else {}
    if device == "cuda":
        hardware, more_software, more_settings = _cuda()
    else:
        hardware, more_software, more_settings = _cpu(), {}, {}
    spec = {"hardware": hardware, "software": software | more_software}
    if settings | more_settings:
        spec["settings"] = settings | more_settings
    return spec


def device_name(device: str) -> str:
    """What a CSV's gpu_name says: the GPU's name as the driver gives it, or the CPU's model."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return _cpu()["product"]


def state(device: str) -> dict:
    """What moves from run to run: clocks, temperature, power, throttling. Empty on a CPU."""
    if device != "cuda":
        return {}
    import pynvml

    handle = _nvml_handle()

    def violation_ns(policy):
        return pynvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime

    readings = {
        "smClockMHz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "memoryClockMHz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
        "temperatureCelsius": lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
        "powerMilliwatts": lambda: pynvml.nvmlDeviceGetPowerUsage(handle),
        "throttleReasons": lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        "powerViolationNs": lambda: violation_ns(pynvml.NVML_PERF_POLICY_POWER),
        "thermalViolationNs": lambda: violation_ns(pynvml.NVML_PERF_POLICY_THERMAL),
        "processes": lambda: len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle)),
    }
    return _readable(readings)


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def _cpu() -> dict:
    import psutil

    facts = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                facts.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    vendor = facts.get("vendor_id", "")
    return {
        "vendor": _CPU_VENDORS.get(vendor, "unknown"),
        "product": " ".join(facts.get("model name", "").split()) or platform.machine(),
        "architecture": platform.machine(),
        "memoryBytes": psutil.virtual_memory().total,
        "count": 1,
    }


def _cuda() -> tuple[dict, dict, dict]:
    import pynvml
    import torch

    properties = torch.cuda.get_device_properties()
    product, form_factor = split_gpu_name(properties.name)
    hardware = {
        "vendor": "nvidia",
        "product": product,
        "architecture": f"sm_{properties.major}{properties.minor}",
        "memoryBytes": properties.total_memory,
        "count": torch.cuda.device_count(),
    }
    if form_factor:
        hardware["formFactor"] = form_factor
    handle = _nvml_handle()
    settings = {
        "powerLimitWatts": lambda: round(pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
        "persistenceMode": lambda: bool(pynvml.nvmlDeviceGetPersistenceMode(handle)),
        "eccEnabled": lambda: bool(pynvml.nvmlDeviceGetEccMode(handle)[0]),
    }
    software = {"driver": pynvml.nvmlSystemGetDriverVersion(), "cudaToolkit": torch.version.cuda}
    return hardware, software, _readable(settings)


def _readable(readings: dict) -> dict:
    """The readings that this GPU supports: NVML answers "not supported" for some on some products."""
    import pynvml

    values = {}
    for name, read in readings.items():
        try:
            values[name] = read()
        except pynvml.NVMLError:
            continue
    return values


def _nvml_handle():
    import pynvml
    import torch

    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties().uuid}")
