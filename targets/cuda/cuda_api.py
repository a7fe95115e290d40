"""CUDA's driver and runtime, called through ctypes.

The driver describes the GPUs of this machine (``read_device``), also where no program runs on
them. The runtime belongs to the worker that runs programs (``CUDARuntime``): fills, events and
errors, besides what TVM does with it.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from schedlang import host
from schedlang.errors import SchedlangError, TargetError
from schedlang.measurement import Status
from schedlang.targets.errors import Fault
from schedlang.targets.measure.contention import Slowdown

# -- The driver: which GPUs there are -------------------------------------------------------------

_DRIVERS = ("libcuda.so.1", "nvcuda.dll")
_NAME_BYTES = 256
# CUdevice_attribute of cuda.h.
_ATTRIBUTES = {
    "max_threads_per_block": 1,
    "shared_bytes": 8,
    "warp_size": 10,
    "registers_per_block": 12,
    "clock_khz": 13,
    "sms": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "max_threads_per_sm": 39,
    "major": 75,
    "minor": 76,
    "shared_bytes_per_sm": 81,
    "registers_per_sm": 82,
    "shared_bytes_optin": 97,
    "max_blocks_per_sm": 106,
    "reserved_shared_bytes": 111,
}
_REMEDY = (
    "to schedule and compile without one, name the architecture, as in "
    'Target("cuda", arch="sm_90"), or a model, as in Target("h100")'
)


@dataclass(frozen=True)
class Device:
    """A GPU of this machine.

    Attributes
    ----------
    index: its number among those that the process sees (``CUDA_VISIBLE_DEVICES``).
    name: what the driver calls it.
    numbers: its attributes by name, in bytes and kilohertz; those that the driver does not tell
        are absent.
    """

    index: int
    name: str
    numbers: dict[str, int]

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor number of its compute capability."""
        return self.numbers["major"], self.numbers["minor"]


def read_device(index: int) -> Device:
    """Return the GPU number ``index``; TargetError says why there is none."""
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise TargetError(f"target 'cuda': device={index!r}; give the number of a GPU, from 0")
    driver = _driver()
    if isinstance(driver, str):
        raise TargetError(f"target 'cuda': {driver}; {_REMEDY}")
    count = _count(driver)
    if index >= count:
        what = "there is none" if count == 0 else f"they are numbered from 0 to {count - 1}"
        raise TargetError(
            f"target 'cuda': this process sees no GPU {index}: {what}, as CUDA_VISIBLE_DEVICES has "
            f"it; {_REMEDY}"
        )
    return _read(index)


def device_count() -> int:
    """Return how many GPUs this process sees."""
    driver = _driver()
    return 0 if isinstance(driver, str) else _count(driver)


def why_none() -> str:
    """Say why this process sees no GPU."""
    driver = _driver()
    return driver if isinstance(driver, str) else "this process sees none (CUDA_VISIBLE_DEVICES)"


@cache
def driver_version() -> str:
    """Return the newest version of CUDA that the driver runs: ``"13.0"``; ``"none"`` without it."""
    driver = _driver()
    number = ctypes.c_int()
    if isinstance(driver, str) or driver.cuDriverGetVersion(ctypes.byref(number)):
        return "none"
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


@cache
def _driver() -> Any:
    """Load and start the driver's library; text says why that is impossible."""
    for name in _DRIVERS:
        try:
            driver = ctypes.CDLL(name)
        except OSError:
            continue
        status = driver.cuInit(0)
        if status == 0:
            return driver
        return f"the CUDA driver does not start (error {status} of cuInit)"
    return "this machine has no CUDA driver (libcuda.so.1)"


def _count(driver: Any) -> int:
    number = ctypes.c_int()
    return 0 if driver.cuDeviceGetCount(ctypes.byref(number)) else number.value


@cache
def _read(index: int) -> Device:
    driver, handle = _driver(), ctypes.c_int()
    if status := driver.cuDeviceGet(ctypes.byref(handle), index):
        raise TargetError(f"target 'cuda': GPU {index} is not accessible (error {status})")
    name = ctypes.create_string_buffer(_NAME_BYTES)
    driver.cuDeviceGetName(name, _NAME_BYTES, handle)
    numbers = {}
    for key, attribute in _ATTRIBUTES.items():
        number = ctypes.c_int()
        if not driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, handle):
            numbers[key] = number.value
    return Device(index, name.value.decode(errors="replace"), numbers)


# -- The runtime: fills, events and errors --------------------------------------------------------

# TVM's own needs the first; others are for builds of TVM with another CUDA.
_RUNTIMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so", "cudart64_13.dll")
_ERROR = re.compile(r"\b(cudaError[A-Z]\w*|CUDA_ERROR_\w+)\b")
_BUS_ID_BYTES = 32
# After these every call of the process fails: the driver has ended its context.
_FATAL = frozenset(
    """
    cudaErrorECCUncorrectable cudaErrorContained cudaErrorIllegalAddress cudaErrorLaunchTimeout
    cudaErrorAssert cudaErrorHardwareStackError cudaErrorIllegalInstruction
    cudaErrorMisalignedAddress cudaErrorInvalidAddressSpace cudaErrorInvalidPc
    cudaErrorLaunchFailure cudaErrorTensorMemoryLeak cudaErrorUnknown
    CUDA_ERROR_ECC_UNCORRECTABLE CUDA_ERROR_CONTAINED CUDA_ERROR_ILLEGAL_ADDRESS
    CUDA_ERROR_LAUNCH_TIMEOUT CUDA_ERROR_ASSERT CUDA_ERROR_HARDWARE_STACK_ERROR
    CUDA_ERROR_ILLEGAL_INSTRUCTION CUDA_ERROR_MISALIGNED_ADDRESS
    CUDA_ERROR_INVALID_ADDRESS_SPACE CUDA_ERROR_INVALID_PC CUDA_ERROR_LAUNCH_FAILED
    CUDA_ERROR_TENSOR_MEMORY_LEAK CUDA_ERROR_UNKNOWN
    """.split()
)
_OUT_OF_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")


class CUDAError(SchedlangError):
    """A call of the CUDA runtime failed; the message begins with the error's name."""


class CUDARuntime:
    """One GPU in this process.

    Everything runs on the default stream, as TVM's kernels do, in the order of the calls.

    Parameters
    ----------
    index: number of the GPU.
    library: the CUDA runtime; by default the one that TVM uses.

    Raises ``TargetError`` where there is no CUDA runtime, and ``CUDAError``.
    """

    def __init__(self, index: int, library: Any = None) -> None:
        self._library = load_library() if library is None else library
        self._index = index
        self._events: list[ctypes.c_void_p] = []
        self._check("cudaSetDevice", index)

    def fill(self, address: int, byte: int, size: int) -> None:
        """Set ``size`` bytes from ``address`` on; returns at once, and later calls come after."""
        self._check(
            "cudaMemsetAsync",
            ctypes.c_void_p(address),
            ctypes.c_int(byte),
            ctypes.c_size_t(size),
            None,
        )

    def synchronize(self) -> None:
        """Wait until the GPU has done all that it was told; raises what failed there."""
        self._check("cudaDeviceSynchronize")

    def elapsed(self, steps: Sequence[Callable[[], Any]]) -> float:
        """Return the seconds that the GPU takes for ``steps``, by its own clock.

        ``steps`` send it work; they are called in order and do not wait for it.
        """
        while len(self._events) < 2:
            event = ctypes.c_void_p()
            self._check("cudaEventCreate", ctypes.byref(event))
            self._events.append(event)
        start, stop = self._events
        self._check("cudaEventRecord", start, None)
        for step in steps:
            step()
        self._check("cudaEventRecord", stop, None)
        self._check("cudaEventSynchronize", stop)
        milliseconds = ctypes.c_float()
        self._check("cudaEventElapsedTime", ctypes.byref(milliseconds), start, stop)
        return milliseconds.value / 1e3

    def bus_id(self) -> str:
        """Return the GPU's address on the PCI bus, by which all libraries know it."""
        text = ctypes.create_string_buffer(_BUS_ID_BYTES)
        self._check("cudaDeviceGetPCIBusId", text, _BUS_ID_BYTES, self._index)
        return text.value.decode()

    def _check(self, function: str, *arguments: Any) -> None:
        status = int(getattr(self._library, function)(*arguments))
        if status == 0:
            return
        name_of = self._library.cudaGetErrorName
        with suppress(AttributeError, TypeError):
            name_of.restype = ctypes.c_char_p
        name = name_of(status)
        text = name.decode() if isinstance(name, bytes) else str(name)
        raise CUDAError(f"{text} ({status}) of {function}")


def load_library() -> Any:
    """Load the CUDA runtime; TargetError where there is none."""
    for name in _RUNTIMES:
        with suppress(OSError):
            return ctypes.CDLL(name)
    raise TargetError(
        f"the CUDA runtime ({_RUNTIMES[0]}) is not installed, or not where the system looks for "
        "libraries: install CUDA, or add its folder lib64 to LD_LIBRARY_PATH"
    )


def device_fault(error: BaseException) -> Fault | None:
    """Return the fault that an error of CUDA is; None for other errors.

    After most faults of a kernel the process cannot use the GPU any more: it is ``corrupt``.
    """
    found = _ERROR.search(str(error))
    if found is None:
        return None
    name = found[1]
    if name in _OUT_OF_MEMORY:
        return Fault(Status.OUT_OF_MEMORY, f"the GPU has too little memory: {name}")
    if name in _FATAL:
        return Fault(Status.CRASHED, f"the GPU stopped it: {name}", corrupt=True)
    return Fault(Status.RUN_ERROR, f"the GPU refused it: {name}")


# -- What NVIDIA's management library says of a GPU -----------------------------------------------
#
# ``Neighbours`` says who else uses the GPU, and whether it slows itself down. NVIDIA's management
# library tells; without it nothing is known, and nothing is reported.

_LIBRARIES = ("libnvidia-ml.so.1", "nvml.dll")
_MOST_SAMPLES = 256
# nvmlClocksEventReasons of nvml.h that are no part of normal work: the hardware's slowdown, heat
# by software and by hardware, and the power brake. A cap on power is normal for large products.
_SLOWDOWNS = {
    0x08: "the hardware slows it down",
    0x20: "it is too hot",
    0x40: "it is too hot",
    0x80: "its power supply brakes it",
}


class _Utilisation(ctypes.Structure):
    """nvmlProcessUtilizationSample_t."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("time", ctypes.c_ulonglong),
        ("multiprocessors", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


class Neighbours:
    """What the management library says of one GPU.

    Parameters
    ----------
    bus_id: the GPU's address on the PCI bus.
    library: by default the one that is installed.
    """

    def __init__(self, bus_id: str, library: Any = None) -> None:
        self._library = _load() if library is None else library
        self._handle = ctypes.c_void_p()
        if self._library is not None and not (
            self._ok("nvmlInit_v2")
            and self._ok(
                "nvmlDeviceGetHandleByPciBusId_v2", bus_id.encode(), ctypes.byref(self._handle)
            )
        ):
            self._library = None
        self._since = 0
        self._slow_before: str | None = None

    def begin(self) -> None:
        """Watch from here."""
        self._since, self._slow_before = self.now(), self.slowdown()

    def end(self) -> Slowdown | None:
        """Return what has disturbed the GPU since ``begin``; None if nothing has."""
        if (reason := self.busy_since(self._since)) is not None:
            return Slowdown(reason)
        # Where it was slow before, it is so all the time, and its clocks are steady.
        slow = self.slowdown()
        return None if slow is None or slow == self._slow_before else Slowdown(slow)

    @property
    def known(self) -> bool:
        """Whether the library answers."""
        return self._library is not None

    def now(self) -> int:
        """Return the library's time: microseconds since 1970."""
        return time.time_ns() // 1000

    def busy_since(self, moment: int) -> str | None:
        """Say who else has used the multiprocessors since ``moment``, of ``now``; None if nobody.

        In a container processes have other numbers than those that the library tells. Where this
        process is not among them, the first one counts as it.
        """
        if not self.known:
            return None
        count = ctypes.c_uint(_MOST_SAMPLES)
        samples = (_Utilisation * _MOST_SAMPLES)()
        # Its failure says that there is no sample yet.
        if not self._ok(
            "nvmlDeviceGetProcessUtilization",
            self._handle,
            samples,
            ctypes.byref(count),
            ctypes.c_ulonglong(moment),
        ):
            return None
        used = {
            int(one.pid): int(one.multiprocessors)
            for one in samples[: min(count.value, _MOST_SAMPLES)]
            if one.multiprocessors and one.time >= moment
        }
        own = _own_numbers() & used.keys() or set(list(used)[:1])
        others = sorted(used.keys() - own)
        if not others:
            return None
        return f"process {others[0]} used {used[others[0]]}% of the GPU at the same time"

    def slowdown(self) -> str | None:
        """Say why the GPU runs slower than it could; None where it does not."""
        reasons = ctypes.c_ulonglong()
        if not self.known or not self._ok(
            "nvmlDeviceGetCurrentClocksThrottleReasons", self._handle, ctypes.byref(reasons)
        ):
            return None
        found = [text for bit, text in _SLOWDOWNS.items() if reasons.value & bit]
        return f"the GPU has lowered its clocks: {found[0]}" if found else None

    def _ok(self, function: str, *arguments: Any) -> bool:
        # An older library lacks some functions.
        call = getattr(self._library, function, None)
        return call is not None and int(call(*arguments)) == 0


def _load() -> Any:
    for name in _LIBRARIES:
        with suppress(OSError):
            return ctypes.CDLL(name)
    return None


def _own_numbers() -> set[int]:
    """Return this process's numbers, in all the namespaces that the system tells."""
    return {os.getpid(), *map(int, host.own_status().get("NSpid", "").split())}
