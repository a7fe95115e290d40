"""The program of ``LocalCPU``'s workers: builds and runs candidates on this machine's CPU.

Started as ``python -m schedlang.targets.cpu.worker``.
"""

from __future__ import annotations

import hashlib
import mmap
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from schedlang import host
from schedlang.targets.cpu.backend import CPUBackend
from schedlang.targets.kinds import code_generator
from schedlang.targets.measure.backend import LoadedProgram
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.contention import Contention, KnownWork, Piece
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.runner import CandidateRunner
from schedlang.targets.worker.executor import argument_bytes
from schedlang.targets.worker.in_process import InProcessWorker, limit_memory, run_worker
from schedlang.targets.worker.protocol import Request
from schedlang.tvm.codegen import runtime
from schedlang.tvm.codegen.runtime import largest_library

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

# Workloads that the worker was bound to before may take this part of its memory, and the right
# results of others half as much.
_KEPT_PART = 8
_KEPT_BYTES = 512 << 20
# Copies of a tensor besides one for each draw: the argument, that of first calls, the right result.
_COPIES = 4


class BoundWorkload(NamedTuple):
    """A workload that a worker was bound to.

    Attributes
    ----------
    runner: has its tensors, and the right results.
    unscheduled: the unscheduled program, if it was compiled.
    reply: to the request that bound the worker.
    """

    binding: Binding
    runner: CandidateRunner
    unscheduled: LoadedProgram | None
    reply: dict[str, Any]

    @property
    def bytes(self) -> int:
        """About as much memory as its tensors take."""
        tensors = sum(argument_bytes(arg.shape, arg.dtype) for arg in self.binding.args)
        return tensors * (self.binding.draws + _COPIES)

    @property
    def learned(self) -> Learned | None:
        """What remains when its tensors go; None where the worker did not find it out."""
        reference = self.runner.reference
        if reference is None or self.binding.reference is not None:
            return None
        return Learned(self.binding, reference, self.unscheduled, self.reply)


class Learned(NamedTuple):
    """What a worker found out about a workload: its tensors can be made anew.

    Attributes
    ----------
    reference: the right results, which the unscheduled program may have taken seconds for.
    The others are as in ``BoundWorkload``.
    """

    binding: Binding
    reference: Reference
    unscheduled: LoadedProgram | None
    reply: dict[str, Any]

    @property
    def bytes(self) -> int:
        """About as much memory as it takes."""
        given = (value.nbytes for values in self.binding.values or () for value in values)
        return self.reference.nbytes + sum(given)


class _Sized(Protocol):
    @property
    def bytes(self) -> int: ...


_Kept = TypeVar("_Kept", bound=_Sized)


class BoundWorkloads(Generic[_Kept]):
    """Workloads by the fingerprint of their binding, the last ones that fit into ``most_bytes``."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def put(self, fingerprint: str, kept: _Kept) -> list[tuple[str, _Kept]]:
        """Keep a workload; drop those put in longest ago where all do not fit, and return them."""
        self._kept[fingerprint] = kept
        total, dropped = sum(one.bytes for one in self._kept.values()), []
        while total > self.most_bytes:
            dropped.append(self._kept.popitem(last=False))
            total -= dropped[-1][1].bytes
        return dropped

    def take(self, fingerprint: str) -> _Kept | None:
        """Remove and return a workload; None where it was not kept."""
        return self._kept.pop(fingerprint, None)


class CPUWorker(InProcessWorker):
    """A worker on the CPU.

    It keeps the workloads that it was bound to, so that going back to one costs nothing: the tasks
    of a network are tuned in turns. Of those for which it has no room it keeps the right results.
    """

    _present: tuple[str, dict[str, Any]] | None = None

    def set_up(self, header: dict[str, Any]) -> None:
        """Limit its memory, and start TVM's threads."""
        memory = header["memory_bytes"]
        if memory is not None:
            limit_memory(memory)
        most = _KEPT_BYTES if memory is None else min(_KEPT_BYTES, memory // _KEPT_PART)
        self._kept = BoundWorkloads[BoundWorkload](most)
        self._learned = BoundWorkloads[Learned](most // 2)
        self._threads = runtime.configure_threads(header["cpus"])
        self._backend: CPUBackend = CPUBackend(code_generator(header["code"]), header["cpus"])
        self._contention = cpu_contention(self._backend, header["cpus"][0])

    def on_bind(self, request: Request) -> dict[str, Any]:
        """Work for another workload, as it was left where the worker was bound to it before."""
        fingerprint = request.header["fingerprint"]
        self._set_aside(keep=not request.header.get("replaces"))
        known, learned = self._kept.take(fingerprint), self._learned.take(fingerprint)
        reply = None
        if known is not None:
            self._binding, self._runner, self._unscheduled, reply = known
        elif learned is not None:
            reply = self._bind_again(learned)
        if reply is None:
            reply = super().on_bind(request)
        self._present = fingerprint, {**reply, "spent": {}}
        return reply

    def _bind_again(self, learned: Learned) -> dict[str, Any] | None:
        """Make the tensors of a workload anew; None where they or the results have changed."""
        reply = self.bind(replace(learned.binding, reference=learned.reference))
        reference = self._runner.reference
        if reference is None or not reference.is_like(learned.reference):
            return None
        self._binding, self._unscheduled = learned.binding, learned.unscheduled
        return {**learned.reply, "spent": reply["spent"]}

    def _set_aside(self, *, keep: bool) -> None:
        """Keep the present workload, unless the worker has none that it was bound to in full."""
        self._built.clear()
        present, self._present = self._present, None
        if present is None or not keep:
            return
        fingerprint, reply = present
        bound = BoundWorkload(self._binding, self._runner, self._unscheduled, reply)
        del self._runner
        for name, dropped in self._kept.put(fingerprint, bound):
            learned = dropped.learned
            if learned is not None and learned.bytes <= self._learned.most_bytes:
                self._learned.put(name, learned)

    def bind(self, binding: Binding) -> dict[str, Any]:
        """Work for another workload; the reply also says how many threads parallel loops use."""
        reply = super().bind(binding)
        if binding.reference is not None and binding.reference.unscheduled:
            self._runner.recall(self._unscheduled_program)
        return {"threads": self._threads, **reply}

    def compile_candidate(self, mod: TensorProgram, accept: Callable[[int], None]) -> LoadedProgram:
        """Compile a candidate; its weights are packed ahead of its calls."""
        return self._backend.compile_packed(mod, accept)


# -- Work whose time is known, on one core: arithmetic, and a read of memory ----------------------

# It takes about 20 us, and none of it leaves the first-level cache for long.
_HASHED_BYTES = 16 << 10
# Each look reads the next part of a memory that the last-level cache does not hold.
_READ_BYTES = 1 << 20
_LEAST_BYTES, _MOST_BYTES = 16 << 20, 64 << 20
_TIMES_CACHE = 2
# A clock that falls under load, from that of one core to that of all, is no disturbance; another
# program on the same core makes it take about twice as long.
_SLOWER_HASH = 1.5
# On virtual machines, neighbours that nobody sees use the memory, too.
_SLOWER_READ = 2.0
_PART = 0.01


def cpu_contention(backend: CPUBackend, first_cpu: int) -> Contention:
    """Time programs again while known work takes longer than it ever did.

    Where it stays so, they are disturbed.
    """
    pieces = [Piece("arithmetic", hashing(), _SLOWER_HASH)]
    with suppress(OSError):  # a TVM that keeps its libraries elsewhere
        read = reading(memory(host.cache_bytes(first_cpu, 3)))
        pieces.append(Piece("memory", read, _SLOWER_READ))
    work = KnownWork(pieces, backend.machine, backend.running, confirmed=True, part=_PART)
    return Contention([work])


def hashing() -> Callable[[], float]:
    """Return a function that computes a hash, and returns how long that took, in seconds."""
    data = bytes(_HASHED_BYTES)

    def seconds() -> float:
        start = time.perf_counter()
        hashlib.sha256(data).digest()
        return time.perf_counter() - start

    return seconds


def reading(memory: mmap.mmap) -> Callable[[], float]:
    """Return a function that reads the next part of ``memory``, a MiB.

    It returns how long that took, in seconds.
    """
    parts = np.frombuffer(memory, np.uint64).reshape(-1, _READ_BYTES // 8)
    last = 0

    def seconds() -> float:
        nonlocal last
        last = (last + 1) % len(parts)
        start = time.perf_counter()
        parts[last].max()
        return time.perf_counter() - start

    return seconds


def memory(cache: int | None) -> mmap.mmap:
    """Return memory to read in turns; ``cache`` is the size of the last-level cache in bytes.

    It is that of a file which each worker has open: TVM's compiler. So it exists once, however many
    workers there are. OSError where it is not found.
    """
    file = largest_library()
    wanted = min(max(_TIMES_CACHE * (cache or 0), _LEAST_BYTES), _MOST_BYTES, file.stat().st_size)
    size = max(wanted // _READ_BYTES, 1) * _READ_BYTES
    with file.open("rb") as opened:
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        return mmap.mmap(opened.fileno(), size, flags, mmap.PROT_READ)


if __name__ == "__main__":
    run_worker(CPUWorker())
