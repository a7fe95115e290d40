"""TVM's run time: tensors, threads, libraries and timing loops."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
import tvm_ffi

if TYPE_CHECKING:
    from tvm.runtime import Device, Module, Tensor

_ONE_CORE_PER_THREAD = -2


def configure_threads(cpus: Sequence[int]) -> int:
    """Give TVM's thread pool one thread on each of ``cpus``; return the number of threads it got.

    By default TVM uses half of the hardware threads on x86 (it assumes two per core), counts from
    CPU 0, and binds to CPUs outside the affinity mask of the process. A pool that has run does not
    grow: call this before the first parallel loop. Each calling thread has a pool of its own; its
    affinity is kept.
    """
    mask = _affinity()
    tvm_ffi.get_global_func("runtime.config_threadpool")(
        _ONE_CORE_PER_THREAD, len(cpus), [str(cpu) for cpu in cpus]
    )
    if mask is not None:
        os.sched_setaffinity(0, mask)
    return thread_count()


def thread_count() -> int:
    """Return the number of threads of a parallel loop that this thread starts."""
    return int(tvm_ffi.get_global_func("runtime.NumThreads")())


def _affinity() -> set[int] | None:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def empty_tensor(shape: Sequence[int], dtype: str, device: Device | None = None) -> Tensor:
    """Allocate an uninitialised tensor, aligned as generated code expects.

    ``device`` is where; by default it is main memory.
    """
    return tvm.runtime.empty(tuple(shape), dtype, device)


def guarded_tensor(shape: Sequence[int], dtype: str, guard_bytes: int) -> tuple[Tensor, Any, Any]:
    """Allocate a tensor in main memory; return it with the bytes right before and after it, which
    are numpy arrays.

    ``guard_bytes`` is a multiple of the alignment that generated code expects.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.from_dlpack(tvm.runtime.empty((size + 2 * guard_bytes,), "uint8"))
    end = guard_bytes + size
    # TVM's own view would count its offset in a field that generated code does not read.
    middle = tvm.runtime.from_dlpack(memory[guard_bytes:end])
    return middle._create_view(tuple(shape), dtype), memory[:guard_bytes], memory[end:]


def is_tensor(value: object) -> bool:
    """Tell whether ``value`` is one of TVM's tensors."""
    return isinstance(value, tvm.runtime.Tensor)


def load_library(path: Path) -> Module:
    """Load a shared library that ``codegen.write_library`` wrote."""
    return tvm.runtime.load_module(str(path))


def batch_timer(module: Module, name: str, calls: int, device: Device) -> Callable[..., float]:
    """Return a function that calls ``name`` ``calls`` times in a loop of machine code.

    ``device`` runs the program; the clock stops when the device is done.

    It returns seconds per call, by a clock that the system may step: the caller compares it with a
    monotonic one. One more call comes before the loop, outside the measured time.
    """
    evaluator = module.time_evaluator(name, device, number=calls, repeat=1)

    def run(*tensors: Tensor) -> float:
        return float(evaluator(*tensors).results[0])

    return run
