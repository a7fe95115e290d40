"""The CUDA runtime of this process: fills, events and errors, besides what TVM does with it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from schedlang.errors import SchedlangError, TargetError
from schedlang.measurement import Status
from schedlang.targets.worker.fault import Fault

# TVM's own needs the first; others are for builds of TVM with another CUDA.
_LIBRARIES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so", "cudart64_13.dll")
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
    for name in _LIBRARIES:
        with suppress(OSError):
            return ctypes.CDLL(name)
    raise TargetError(
        f"the CUDA runtime ({_LIBRARIES[0]}) is not installed, or not where the system looks for "
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
