"""The GPUs of this machine, as the CUDA driver describes them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from schedlang.errors import TargetError

_LIBRARIES = ("libcuda.so.1", "nvcuda.dll")
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
    for name in _LIBRARIES:
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
