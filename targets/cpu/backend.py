"""The CPU of this process as a backend: how a worker runs and times programs on it.

``CPUBackend`` compiles programs by LLVM's JIT, and puts their tensors into guarded main memory.
``CacheFlusher`` empties the caches, so that a program is timed on data that comes from main memory.
``cpu_contention`` finds other work on the machine: pieces of work whose time is known take longer.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schedlang import host
from schedlang.measurement.problem import Fill
from schedlang.targets.core_use import ThreadWaits
from schedlang.targets.cpu.guarded_memory import GuardedMemory
from schedlang.targets.measure.backend import Calls, LoadedProgram, Waits
from schedlang.targets.measure.calls import PackedProgram, split_program
from schedlang.targets.measure.timing import shortest_call
from schedlang.tvm import codegen, program
from schedlang.tvm.analysis.races import Determinism, determinism
from schedlang.tvm.codegen import CodeGenerator, device, runtime
from schedlang.tvm.program import MAIN, allocated_buffers

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompiledCode, CompilerTarget
    from schedlang.tvm.program import TensorProgram


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
