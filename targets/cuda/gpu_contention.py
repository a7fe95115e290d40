"""What NVIDIA's management library says of a GPU.

``Neighbours`` says who else uses the GPU, and whether it slows itself down. NVIDIA's management
library tells; without it nothing is known, and nothing is reported.
"""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress
from typing import Any

from schedlang import host
from schedlang.targets.measure.contention import Slowdown

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
