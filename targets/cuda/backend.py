"""One GPU as a backend: guarded memory, libraries built elsewhere, and the GPU's own clock."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from schedlang.measurement.problem import Fill, content
from schedlang.targets.cuda.cuda_api import CUDARuntime, device_fault
from schedlang.targets.measure.backend import Calls, Waits
from schedlang.targets.measure.numerics import Array
from schedlang.tvm import codegen
from schedlang.tvm.analysis.races import Determinism, determinism
from schedlang.tvm.codegen import device as devices, runtime
from schedlang.tvm.program import MAIN, TensorProgram

# -- Programs on the GPU --------------------------------------------------------------------------

# The L2 cache is flushed by a write of this many times its size, and of this many bytes at least:
# while it lasts, the launches that follow wait in the queue, and their cost is not measured.
_FLUSH_FACTOR = 2
_LEAST_FLUSH_BYTES = 64 << 20
# A GPU that had no work for so long may be slower at first: on an H100, calls after pauses of 0.1 s
# took 3 to 50% longer.
_IDLE_SECONDS = 0.02
# Of calls that take less than this, a sample with an empty cache is the median of some: each varies
# by a few microseconds.
_SHORT_CALL_SECONDS = 1e-3
_CALLS_A_SAMPLE = 5
# The clocks are steady when fills of the flushed memory take equally long, some in a row.
_STEADY_FILLS = 4
_STEADY = 1.03
_LEAST_WARM_UP, _LONGEST_WARM_UP = 0.02, 0.5


class CUDABackend:
    """A GPU.

    Programs that nobody scheduled run on the CPU of this process, on copies of the tensors:
    ``compile`` gives such. Candidates are libraries, which ``load`` gives.

    Parameters
    ----------
    device: TVM's name of the GPU.
    gpu: the CUDA runtime.
    l2_bytes: size of its second-level cache.
    """

    clock = "the GPU's clock"
    machine = "the GPU"
    waits: Waits | None = None

    def __init__(
        self,
        device: runtime.Device,
        gpu: CUDARuntime,
        l2_bytes: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.device = device
        self.gpu = gpu
        self._flush_bytes = max(_FLUSH_FACTOR * l2_bytes, _LEAST_FLUSH_BYTES)
        self._flushed: Any = None
        self._programs: WeakSet[CUDAProgram] = WeakSet()
        self._clock = clock
        self._active = -_IDLE_SECONDS

    def allocate(self, shape: Sequence[int], dtype: str) -> DeviceMemory:
        """Make an uninitialised tensor between guards."""
        return DeviceMemory(shape, dtype, self.device)

    def compile(self, mod: TensorProgram) -> HostProgram:
        """Compile a program for the CPU, for one that has no threads of a GPU."""
        return HostProgram(mod)

    def load(
        self, library: Path, workspaces: Sequence[int] = (), race: str | None = None
    ) -> CUDAProgram:
        """Load a library.

        ``workspaces`` are the sizes in bytes of its intermediate results; ``race`` is of its
        threads, if one was found.
        """
        program = CUDAProgram(self, library, workspaces, race)
        self._programs.add(program)
        return program

    @contextmanager
    def running(self) -> Iterator[None]:
        """Bring the GPU to steady clocks; an error of CUDA in the block becomes a ``Fault``."""
        try:
            if self._clock() - self._active > _IDLE_SECONDS:
                self.warm_up()
            yield
            self.gpu.synchronize()
        except Exception as error:
            fault = device_fault(error)
            if fault is None:
                raise
            raise fault from error
        finally:
            self._active = self._clock()

    def shortest_call(self) -> float:
        """The GPU's clock ticks each half microsecond, and samples are many: any call will do."""
        return 0.0

    def poison_workspaces(self, fill: Fill) -> None:
        """Fill what the programs loaded here get for intermediate results in the GPU's memory."""
        sizes = {program.workspaces for program in self._programs if program.workspaces}
        for wanted in sizes:
            with devices.workspaces(self.device, wanted) as taken:
                for address, size in taken:
                    if len(fill) == 1:
                        self.gpu.fill(address, fill[0], size)
                        continue
                    whole = devices.BorrowedTensor(address, (size,), "uint8", self.device)
                    whole.tensor.copyfrom(content(fill, (size,), "uint8"))
        self.gpu.synchronize()

    def flush_cache(self) -> None:
        """Send the GPU a write that leaves nothing of the tensors in its L2 cache."""
        self.gpu.fill(self._flush_address(), 0, self._flush_bytes)

    def fill_seconds(self) -> float:
        """Return how long the GPU takes for the write of ``flush_cache``."""
        return self.gpu.elapsed([self.flush_cache])

    def warm_up(self) -> None:
        """Give the GPU work until it does it at an even rate."""
        start, times = self._clock(), []
        while (took := self._clock() - start) < _LONGEST_WARM_UP:
            times.append(self.fill_seconds())
            last = times[-_STEADY_FILLS:]
            even = len(last) == _STEADY_FILLS and max(last) <= _STEADY * min(last)
            if took >= _LEAST_WARM_UP and even:
                break

    def _flush_address(self) -> int:
        if self._flushed is None:
            self._flushed = runtime.empty_tensor((self._flush_bytes,), "uint8", self.device)
        return devices.address_of(self._flushed)


class CUDAProgram:
    """A library on a GPU.

    Attributes
    ----------
    workspaces: sizes in bytes of the intermediate results in the GPU's memory.
    """

    def __init__(
        self,
        backend: CUDABackend,
        library: Path,
        workspaces: Sequence[int],
        race: str | None = None,
    ) -> None:
        self.determinism = Determinism(proven=False, race=race)
        self.workspaces = tuple(sorted(workspaces, reverse=True))
        self._backend = backend
        self._module = codegen.load_library(library)
        self._launch = self._module[MAIN]

    def entry(self, *tensors: runtime.DeviceArray) -> None:
        """Run it, and wait for the GPU: errors of its kernels come at the end."""
        self._launch(*tensors)
        self._backend.gpu.synchronize()

    def seconds_per_call(self, calls: Calls) -> float:
        """Time calls in a row by the GPU's clock.

        With ``flush_cache`` each call is timed on its own, after the write that empties the L2
        cache, and the median counts, of at least five short ones; without, that write and one more
        call come first. Either way the GPU is busy while the timed launches are sent, so that their
        cost is no part of the time.
        """
        backend, count = self._backend, calls.count

        def call() -> None:
            self._launch(*calls.tensors)

        def single() -> float:
            calls.restore()
            return self._after(call, backend.flush_cache, 1)

        if calls.flush_cache:
            first = single()
            if first < _SHORT_CALL_SECONDS:
                count = max(count, _CALLS_A_SAMPLE)
            return statistics.median([first, *(single() for _ in range(count - 1))])
        calls.restore()

        def lead() -> None:
            backend.flush_cache()
            call()

        return self._after(call, lead, count) / count

    def _after(self, call: Callable[[], None], lead: Callable[[], None], calls: int) -> float:
        """Return the seconds of some calls that the GPU makes right after ``lead``."""
        lead()
        return self._backend.gpu.elapsed([call] * calls)


class HostProgram:
    """A program on the CPU of this process, called with tensors of a GPU."""

    def __init__(self, mod: TensorProgram) -> None:
        self.determinism = determinism(mod)
        self._call = codegen.compile_for_host(mod)

    def entry(self, *tensors: runtime.DeviceArray) -> None:
        """Run it on copies, and copy them back."""
        arrays: list[Array] = [tensor.numpy() for tensor in tensors]
        before = [array.copy() for array in arrays]
        self._call(*arrays)
        for tensor, array, old in zip(tensors, arrays, before, strict=True):
            if array.tobytes() != old.tobytes():
                tensor.copyfrom(array)

    def seconds_per_call(self, calls: Calls) -> float:
        """Time the CPU, copies included."""
        calls.restore()
        return calls.seconds(self.entry)


# -- Tensors in a GPU's memory; writes next to them do not go unnoticed ---------------------------

GUARD_BYTES = 1 << 18
"""On each side of a tensor. A multiple of 256: CUDA's allocations start at those."""
_GUARD = 0x5A


class DeviceMemory:
    """A tensor in the middle of an allocation, between bytes that no program may touch.

    They have a pattern, which ``overrun`` looks at: a write up to 256 KB before or after the tensor
    is found. One that is farther away may reach another tensor, or be an illegal access. Reads
    outside are not found.
    """

    def __init__(self, shape: Sequence[int], dtype: str, device: runtime.Device) -> None:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        self._whole = runtime.empty_tensor((size + 2 * GUARD_BYTES,), "uint8", device)
        start = devices.address_of(self._whole)
        self._inner = devices.BorrowedTensor(start + GUARD_BYTES, shape, dtype, device)
        self.tensor = self._inner.tensor
        self._guards = {
            "before": devices.BorrowedTensor(start, (GUARD_BYTES,), "uint8", device),
            "after": devices.BorrowedTensor(
                start + GUARD_BYTES + size, (GUARD_BYTES,), "uint8", device
            ),
        }
        self._pattern = np.full(GUARD_BYTES, _GUARD, np.uint8)
        self._mend()

    def fill(self, value: Array) -> None:
        """Copy ``value`` to the GPU."""
        self.tensor.copyfrom(value)

    def read(self) -> Array:
        """Return a copy of the tensor's values."""
        found: Array = self.tensor.numpy()
        return found

    def look(self) -> Array:
        """Return a copy of the tensor's values: they cannot be viewed from here."""
        return self.read()

    def read_only(self) -> AbstractContextManager[None]:
        """Do nothing: a GPU's memory has no protection; changed inputs are seen afterwards."""
        return nullcontext()

    def overrun(self) -> str | None:
        """Say on which side a program wrote outside the tensor, and mend it."""
        for place, guard in self._guards.items():
            if not (guard.tensor.numpy() == _GUARD).all():
                self._mend()
                return place
        return None

    def _mend(self) -> None:
        for guard in self._guards.values():
            guard.tensor.copyfrom(self._pattern)
