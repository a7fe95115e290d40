"""The CPU of this process as a backend: how a worker runs and times programs on it.

``CPUBackend`` compiles programs by LLVM's JIT, and puts their tensors into guarded main memory.
``GuardedMemory`` is a tensor that ends where address space begins which nobody may touch: a program
that comes there crashes. ``reserve`` makes such address space. Where the system has none, a pattern
on both sides shows what was written there.
``CacheFlusher`` empties the caches, so that a program is timed on data that comes from main memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang import host
from schedlang.measurement.problem import Fill
from schedlang.targets.measure.backend import Calls, LoadedProgram, Waits
from schedlang.targets.measure.calls import PackedProgram, split_program
from schedlang.targets.measure.contention import ThreadWaits
from schedlang.targets.measure.numerics import Array
from schedlang.targets.measure.timing import shortest_call
from schedlang.tvm import codegen, program
from schedlang.tvm.analysis.races import Determinism, determinism
from schedlang.tvm.codegen import CodeGenerator, device, runtime
from schedlang.tvm.program import MAIN, TensorProgram, allocated_buffers

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompiledCode, CompilerTarget


# -- Programs and their memory --------------------------------------------------------------------

_CLOCK_TRIES = 3
_FEWEST_WORKSPACES = 4


class CPUBackend:
    """The CPU that this process runs on.

    Parameters
    ----------
    generator: compiles for it.
    cpus: logical CPUs, one per thread; while a program runs, the calling thread stays on the first.
    """

    clock = "the clock"
    machine = "this machine"

    def __init__(self, generator: CodeGenerator, cpus: Sequence[int]) -> None:
        self._generator = generator
        self.device = generator.device
        self._cpus = tuple(cpus)
        self._mask = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
        self.waits: Waits | None = ThreadWaits()
        self._flusher: CacheFlusher | None = None
        self._running = False
        # No program here had more intermediate results in memory at a time.
        self._workspaces = _FEWEST_WORKSPACES

    def allocate(self, shape: Sequence[int], dtype: str) -> GuardedMemory:
        """Make an uninitialised tensor between guards."""
        return GuardedMemory(shape, dtype)

    def compile(
        self, mod: TensorProgram, accept: Callable[[int], None] | None = None
    ) -> CPUProgram:
        """Compile a program and generate its machine code; see ``compile_program``."""
        executable = self._compile(mod, accept)
        return CPUProgram(self, mod, executable.jit(), codegen.load_code(executable))

    def compile_packed(
        self, mod: TensorProgram, accept: Callable[[int], None] | None = None
    ) -> LoadedProgram:
        """Compile a program so that what depends on weights only runs ahead of its calls."""
        found = split_program(mod)
        if found is None:
            return self.compile(mod, accept)
        split, plan = found
        executable = self._compile(split, accept)
        main = CPUProgram(self, split, executable.jit(), codegen.load_code(executable))
        functions = [codegen.load_code(executable, one.function) for one in plan.packed]
        return PackedProgram(main, functions, plan, self, determinism(mod))

    def _compile(self, mod: TensorProgram, accept: Callable[[int], None] | None) -> CompiledCode:
        target = self._generator.target
        count = sum(len(allocated_buffers(func)) for func in mod.functions.values())
        self._workspaces = max(self._workspaces, count)
        return codegen.compile_program(mod, target, check_arguments=False, accept=accept)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep the calling thread on the first CPU; the pool's threads are on the others.

        Inside another such block this does nothing.
        """
        if self._mask is None or self._running:
            yield
            return
        os.sched_setaffinity(0, {self._cpus[0]})
        self._running = True
        try:
            yield
        finally:
            self._running = False
            os.sched_setaffinity(0, self._mask)

    def shortest_call(self) -> float:
        """Seconds that a single call must last for the clock to time it well."""
        return shortest_call()

    def poison_workspaces(self, fill: Fill) -> None:
        """Fill the workspaces of all of TVM's threads, and the stack below this call."""
        device.poison_workspaces(fill, self._workspaces)

    def flush_cache(self) -> None:
        """Empty the caches."""
        if self._flusher is None:
            self._flusher = CacheFlusher(self._cpus, self._generator.target)
        self._flusher.flush()


class CPUProgram:
    """Machine code in this process, and loops around it by the number of calls they make."""

    def __init__(
        self, backend: CPUBackend, mod: TensorProgram, module: Any, entry: Callable[..., Any]
    ) -> None:
        self.entry = entry
        self._backend = backend
        self._mod = mod
        self._module = module
        self._loops: dict[int, Callable[..., float]] = {}

    @cached_property
    def determinism(self) -> Determinism:
        """What the program's parallel loops and calls say; read when it is asked for."""
        return determinism(self._mod)

    def seconds_per_call(self, calls: Calls) -> float:
        """Time calls in a row: one by the monotonic clock, more in a compiled loop."""
        calls.restore()
        if calls.flush_cache:
            self._backend.flush_cache()
        count = calls.count
        if count == 1:
            return calls.seconds(self.entry)
        if count not in self._loops:
            self._loops[count] = runtime.batch_timer(
                self._module, MAIN, count, self._backend.device
            )
        loop = self._loops[count]
        for _ in range(_CLOCK_TRIES):
            calls.begin()
            start = time.perf_counter()
            seconds = loop(*calls.tensors)
            wall = time.perf_counter() - start
            # The loop's clock may be stepped while it runs; a result that the monotonic clock
            # contradicts is taken again.
            if 0.25 * wall / (count + 1) <= seconds <= wall / count:
                return seconds
        return calls.seconds(self.entry)


# -- Flushing the CPU's caches --------------------------------------------------------------------

# Where the machine does not report its caches: as large as those of most machines.
_PRIVATE_BYTES = 2 << 20
_SHARED_BYTES = 64 << 20
# A cache keeps some old data until clearly more than its size has passed through it.
_TIMES = 2
# It reads the memory that it writes: LLVM may make a write-only loop bypass the caches.
_SWEEP = """
@T.prim_func(s_tir=True)
def main(memory: T.Buffer(({threads}, {words}), "int64")):
    for thread in T.parallel({threads}):
        for word in T.serial({words}):
            with T.sblock("sweep"):
                i, j = T.axis.remap("SS", [thread, word])
                memory[i, j] = memory[i, j] + T.int64(1)
"""


class CacheFlusher:
    """Evict the caches of ``cpus``: TVM's thread on each CPU writes more than fits.

    The threads are awake afterwards, so the next timed call does not wait for them. Flushing 32 MiB
    of cache takes a few milliseconds.
    """

    def __init__(self, cpus: Sequence[int], target: CompilerTarget) -> None:
        shape = (len(cpus), sweep_bytes(cpus) // 8)
        text = _SWEEP.format(threads=shape[0], words=shape[1])
        mod = program.as_main(program.parse_script(text))
        executable = codegen.compile_program(mod, target, check_arguments=False)
        self._sweep = codegen.load_code(executable)
        self.memory = runtime.empty_tensor(shape, "int64")

    def flush(self) -> None:
        """Empty the caches."""
        self._sweep(self.memory)


def sweep_bytes(cpus: Sequence[int]) -> int:
    """Return how many bytes each of ``cpus`` must write while the others do; a multiple of 8."""
    groups = {cpu: host.shares_cache(cpu, 3) or "all" for cpu in cpus}
    sharing = Counter(groups.values())
    most = 0
    for cpu in cpus:
        private = host.cache_bytes(cpu, 2) or _PRIVATE_BYTES
        shared = host.cache_bytes(cpu, 3) or _SHARED_BYTES
        most = max(most, private, shared // sharing[groups[cpu]])
    return _TIMES * most // 8 * 8


# -- Tensors in main memory; writes outside them do not go unnoticed ------------------------------

# Before each tensor, and where no address space can be reserved after it too.
_GUARD_BYTES = 1 << 16
_GUARD = 0x5A
# On each side, and at least the size of the tensor: a program that mistakes a stride is far away.
_RESERVE_BYTES = 256 << 20


class GuardedMemory:
    """A tensor in main memory, and what is around it that no program may touch.

    The tensor ends where address space begins that nobody may read or write, except for bytes of
    padding that align its start. Some bytes in front of it begin such address space too. A program
    that comes there crashes; the bytes between have a pattern, which ``overrun`` looks at.

    Where the system does not reserve address space, there is only the pattern, on both sides.
    """

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory, start, self._pages = _place(size)
        self.tensor = runtime.tensor_in(memory[start : start + size], shape, dtype)
        self._values = memory[start : start + size].view(np.dtype(dtype)).reshape(tuple(shape))
        self._guards = {"before": memory[:start], "after": memory[start + size :]}
        self._mend()

    def fill(self, value: Array) -> None:
        """Copy ``value`` into the tensor."""
        np.copyto(self._values, value, casting="no")

    def read(self) -> Array:
        """Return a copy of the tensor's values."""
        return self._values.copy()

    def look(self) -> Array:
        """Return a view of the tensor's values."""
        return self._values

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """End this process where it writes to the tensor or near it, for the ``with`` block.

        Its exit status is ``errors.WRITE_FAULT``. Does nothing on other systems than Linux,
        and where no address space was reserved.
        """
        if self._pages is None or sys.platform != "linux":
            yield
            return
        with exit_on_fault():
            make_writable(self._pages, False)
            try:
                yield
            finally:
                make_writable(self._pages, True)

    def overrun(self) -> str | None:
        """Say on which side a program wrote outside the tensor, and mend it."""
        for place, guard in self._guards.items():
            if not (guard == _GUARD).all():
                self._mend()
                return place
        return None

    def _mend(self) -> None:
        for guard in self._guards.values():
            guard[:] = _GUARD


def _place(size: int) -> tuple[Array, int, Array | None]:
    """Return memory for ``size`` bytes and what is around them, and where they start in it.

    Also returns the memory as pages that can be protected, where it is that.
    """
    total = -(-(_GUARD_BYTES + size) // PAGE) * PAGE
    memory = reserve(total, max(_RESERVE_BYTES, -(-size // PAGE) * PAGE))
    if memory is not None:
        return memory, (total - size) // runtime.ALIGNMENT * runtime.ALIGNMENT, memory
    plain = runtime.empty_tensor((size + 2 * _GUARD_BYTES,), "uint8")
    return np.from_dlpack(plain), _GUARD_BYTES, None


# -- Memory between regions of address space that nobody may touch --------------------------------

PAGE = mmap.PAGESIZE
_NO_ACCESS = 0  # PROT_NONE
# More than the size of a struct sigaction.
_SIGACTION_BYTES = 512
_FAILED = ctypes.c_void_p(-1).value  # MAP_FAILED


class _Region:
    """A part of the address space; numpy makes arrays of it, and it is given back with the last."""

    def __init__(self, start: int, size: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (size,),
            "data": (start, False),
        }


def reserve(size: int, around: int) -> Array | None:
    """Return ``size`` bytes of memory, with ``around`` bytes on each side that cannot be touched.

    Both are multiples of ``PAGE``. The memory is new pages, which hold zeros. What is around them
    takes no memory, and the limit of a process's data (RLIMIT_DATA) does not count it.

    None where the system has no such calls, or no room (RLIMIT_AS counts everything). Raises
    MemoryError when the memory itself is refused.
    """
    if os.name != "posix":
        return None
    library = _library()
    total = size + 2 * around
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = library.mmap(None, total, _NO_ACCESS, flags, -1, 0)
    if base == _FAILED:
        return None
    if library.mprotect(base + around, size, mmap.PROT_READ | mmap.PROT_WRITE):
        library.munmap(base, total)
        raise MemoryError(f"cannot allocate {size} bytes: {os.strerror(ctypes.get_errno())}")
    region = _Region(base + around, size)
    # Not when the interpreter ends: something may still use it then, and everything goes anyway.
    weakref.finalize(region, library.munmap, base, total).atexit = False
    found: Array = np.asarray(region)
    return found


def make_writable(memory: Array, writable: bool) -> None:
    """Permit or forbid to write to memory that ``reserve`` returned, all of it.

    Raises OSError where the system refuses it.
    """
    access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    if _library().mprotect(memory.ctypes.data, memory.nbytes, access):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot protect memory: {os.strerror(number)}")


@contextmanager
def exit_on_fault() -> Iterator[None]:
    """End this process where it faults, for the ``with`` block.

    Its exit status is ``errors.WRITE_FAULT``.
    """
    library = _library()
    before = ctypes.create_string_buffer(_SIGACTION_BYTES)
    library.sigaction(signal.SIGSEGV, None, before)
    # Called with the number of the signal, in whatever thread it is.
    library.signal(signal.SIGSEGV, ctypes.cast(library._exit, ctypes.c_void_p))
    try:
        yield
    finally:
        library.sigaction(signal.SIGSEGV, before, None)


def _library() -> Any:
    """Return the C library, which knows the types of the calls."""
    library = ctypes.CDLL(None, use_errno=True)
    address, length, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.argtypes = (address, length, number, number, number, ctypes.c_long)
    library.mmap.restype = address
    library.mprotect.argtypes = (address, length, number)
    library.munmap.argtypes = (address, length)
    library.signal.argtypes = (number, address)
    library.signal.restype = address
    return library
