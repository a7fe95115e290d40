"""An estimate of a program's latency on a CPU, from the loops around its statements.

It ranks programs of one workload without running them: how many instructions a core issues, from
which cache the operands come, and what threads cost. No figure in it was fitted to a machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.targets.cpu.cpu_machine import CPUMachine
from schedlang.tvm.analysis.loop_nests import NestAccess, NestLoop, Statement

# Cycles. Arithmetic and loads are started two at a time, stores one at a time.
_PER_CYCLE = 2.0
_FUSED_LATENCY = 4.0
_FUNCTION_CALL = 20.0
_BRANCH = 1.0
_LOOP_STEP = 0.5
# Cycles to fetch a cache line from the second level, the third, and memory.
_LINE = (3.0, 8.0, 32.0)
_LINE_BYTES = 64
# TVM takes memory for a buffer inside a loop from a pool, and gives it back, unless it is smaller
# than this, in bytes.
_ON_STACK = 1024
_ALLOCATION = 300.0
# Threads of a loop are started and waited for.
_LAUNCH = 10_000.0
_CYCLES_PER_SECOND = 4e9


def estimate_seconds(statements: Sequence[Statement], machine: CPUMachine) -> float:
    """Return the estimated latency in seconds of a program with these statements."""
    cycles = 0.0
    launches: dict[int, float] = {}
    shared = _shared_loops(statements)
    for statement in statements:
        threads = _Threads(statement.loops, machine.cores)
        cycles += _cycles(statement, machine, shared) / threads.speedup
        if threads.loop is not None:
            launches[threads.loop] = threads.launches * _LAUNCH
    cycles += _allocations(statements, machine, shared)
    return (cycles + sum(launches.values())) / _CYCLES_PER_SECOND


def _allocations(
    statements: Sequence[Statement], machine: CPUMachine, shared: dict[int, int]
) -> float:
    """Return the cycles that allocating intermediate buffers takes."""
    cycles: dict[int, float] = {}
    for statement in statements:
        store = statement.accesses[-1]
        depth = shared.get(store.buffer, 0)
        if not depth or not store.intermediate:
            continue
        inner = zip(statement.loops[depth:], store.strides[depth:], strict=True)
        size = store.bytes * math.prod(loop.extent for loop, stride in inner if stride)
        if size >= _ON_STACK:
            runs = math.prod(loop.extent for loop in statement.loops[:depth])
            speedup = _Threads(statement.loops, machine.cores).speedup
            cycles[store.buffer] = runs * _ALLOCATION / speedup
    return sum(cycles.values())


class _Threads:
    """The parallel loop around a statement.

    Attributes
    ----------
    loop: its number; None without one.
    launches: how often it runs.
    speedup: on this many cores at most.
    """

    def __init__(self, loops: Sequence[NestLoop], cores: int) -> None:
        self.loop: int | None = None
        self.launches, self.speedup = 1.0, 1.0
        for loop in loops:
            if loop.kind == "parallel":
                self.loop = loop.number
                self.speedup = loop.extent / math.ceil(loop.extent / cores)
                return
            self.launches *= loop.extent


@dataclass(frozen=True, slots=True)
class _Tile:
    """The innermost loops of a statement that are one piece of code: unrolled and in lanes.

    Attributes
    ----------
    first: position of the first of its loops.
    lanes: position of the vectorised loop; None without one.
    """

    first: int
    lanes: int | None

    @classmethod
    def of(cls, loops: Sequence[NestLoop]) -> _Tile:
        first, lanes = len(loops), None
        while first > 0 and loops[first - 1].kind in ("unrolled", "vectorized"):
            first -= 1
            if loops[first].kind == "vectorized":
                lanes = first
        return cls(first, lanes)


def _cycles(statement: Statement, machine: CPUMachine, shared: dict[int, int]) -> float:
    """Return the cycles of a statement on one core."""
    loops = statement.loops
    tile = _Tile.of(loops)
    runs = math.prod(loop.extent for loop in loops[: tile.first])
    unrolled = [k for k in range(tile.first, len(loops)) if k != tile.lanes]
    points = math.prod(loops[k].extent for k in unrolled)
    width = 1 if tile.lanes is None else loops[tile.lanes].extent
    widest = max(access.bytes for access in statement.accesses)
    vectors = math.ceil(width / machine.lanes(8 * widest))
    branches = sum(
        math.prod(loops[k].extent for k in guard if k in unrolled) * _BRANCH
        for guard in statement.guards
    )
    arithmetic = statement.operations / _PER_CYCLE
    if tile.lanes is not None and any(tile.lanes in guard for guard in statement.guards):
        # One lane after the other.
        accesses = len(statement.accesses) / _PER_CYCLE
        issued = points * width * (arithmetic + accesses + 2 * _BRANCH)
    else:
        issued = points * vectors * arithmetic + branches
        issued += _accesses(statement, tile, unrolled, vectors, width, machine.vector_registers)
        issued = max(issued, _latency(statement, tile))
    issued += points * width * statement.calls * _FUNCTION_CALL
    return runs * (issued + _LOOP_STEP) + _memory(statement, machine, shared)


def _accesses(
    statement: Statement,
    tile: _Tile,
    unrolled: Sequence[int],
    vectors: int,
    width: int,
    registers: int,
) -> float:
    """Return the cycles of the loads and stores of one run of a tile."""
    loops = statement.loops
    *loads, store = statement.accesses
    cycles = 0.0
    accumulators = vectors * math.prod(loops[k].extent for k in unrolled if store.strides[k])
    for access in loads:
        kept = access.buffer == store.buffer and access.strides == store.strides
        if kept and _stays(statement, tile) and accumulators < registers:
            continue
        distinct = math.prod(loops[k].extent for k in unrolled if access.strides[k])
        cycles += distinct * _instructions(access, tile, vectors, width) / _PER_CYCLE
    if not (_stays(statement, tile) and accumulators < registers):
        cycles += accumulators * _instructions(store, tile, 1, max(width // vectors, 1))
    return cycles


def _stays(statement: Statement, tile: _Tile) -> bool:
    """Whether the loop around a tile adds up in what the tile stores."""
    store, around = statement.accesses[-1], tile.first - 1
    while around >= 0 and statement.loops[around].extent == 1:
        around -= 1
    return around >= 0 and store.strides[around] == 0


def _instructions(access: NestAccess, tile: _Tile, vectors: int, width: int) -> float:
    """Return the loads or stores that one row of a tile takes."""
    if tile.lanes is None:
        return 1.0
    step = abs(access.strides[tile.lanes])
    if step == 1:
        return float(vectors)
    return 0.5 if step == 0 else float(width)


def _latency(statement: Statement, tile: _Tile) -> float:
    """Return the cycles that one run of a tile waits for the run before it."""
    return _FUSED_LATENCY if _stays(statement, tile) and statement.operations else 0.0


def _memory(statement: Statement, machine: CPUMachine, shared: dict[int, int]) -> float:
    """Return the cycles that fetching cache lines takes."""
    loops = statement.loops
    sizes = (machine.l1_bytes, machine.l2_bytes, machine.l3_bytes)
    cycles = 0.0
    for size, cost in zip(sizes, _LINE, strict=True):
        depth = next(
            (
                d
                for d in range(len(loops) + 1)
                if sum(_lines(one, loops, d) for one in statement.accesses) * _LINE_BYTES <= size
            ),
            len(loops),
        )
        if depth == 0:
            break  # all of it stays there from one call to the next
        for access in statement.accesses:
            kept = shared.get(access.buffer, 0)
            if kept and _lines(access, loops, kept) * _LINE_BYTES <= size:
                continue  # it was written just before
            outer = depth
            while outer > 0 and not access.strides[outer - 1]:
                outer -= 1
            times = math.prod(loop.extent for loop in loops[:outer])
            cycles += times * _lines(access, loops, depth) * cost
    return cycles


def _lines(access: NestAccess, loops: Sequence[NestLoop], depth: int) -> float:
    """Return the cache lines that one run of the loops from ``depth`` on touches."""
    steps = sorted(
        (abs(access.strides[k]), loops[k].extent)
        for k in range(depth, len(loops))
        if access.strides[k] and loops[k].extent > 1
    )
    run, count = 1.0, 1.0
    for step, extent in steps:
        if step <= run:
            run += step * (extent - 1)
        elif step * access.bytes < _LINE_BYTES:
            run = step * extent
        else:
            count *= extent
    return count * math.ceil(run * access.bytes / _LINE_BYTES)


def _shared_loops(statements: Sequence[Statement]) -> dict[int, int]:
    """Return how many outer loops all accesses of each intermediate buffer share; not 0."""
    around: dict[int, tuple[int, ...]] = {}
    for statement in statements:
        numbers = tuple(loop.number for loop in statement.loops)
        for access in statement.accesses:
            if not access.intermediate:
                continue
            known = around.setdefault(access.buffer, numbers)
            count = 0
            for one, other in zip(known, numbers, strict=False):
                if one != other:
                    break
                count += 1
            around[access.buffer] = known[:count]
    return {buffer: len(numbers) for buffer, numbers in around.items() if numbers}
