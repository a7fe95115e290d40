"""A part of a program's results: its outermost loops cut to windows.

The program is not scheduled for this, so that what the part computes is what the whole one does.
Only where an intermediate result would cost too much is its block moved below the loops that are
cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.tirx.function import PrimFunc
from tvm_ffi import structural_map, structural_walk

from schedlang.tvm.program import MAIN, as_main, with_root_body
from schedlang.tvm.schedule import ScheduleError

# At the start, in the middle and at the end of a loop.
_WINDOWS = 3
# An operation that is a call (an exponential, a branch) takes as long as this many others.
_CALL_WEIGHT = 8


def count_steps(mod: IRModule) -> float:
    """Estimate how many simple operations one call executes: iterations, weighted by calls.

    A loop whose length depends on data counts as one iteration.
    """
    return sum(map(_cost, _nests(mod[MAIN])))


def window_of(mod: IRModule, steps: float) -> IRModule | None:
    """Return a program that computes some elements of each output, in at most ``steps`` steps.

    Loops that give independent elements run over three windows, at their start, middle and end; the
    other elements of the outputs are not written. None where no such program is small enough.
    """
    found = _windowed(mod, steps)
    for moved in () if found is not None else _producers_moved(mod):
        found = _windowed(moved, steps)
        if found is not None:
            break
    return found


def _windowed(mod: IRModule, steps: float) -> IRModule | None:
    func = mod[MAIN]
    nests = _nests(func)
    uses = [_Uses.of(nest) for nest in nests]
    outputs = set(func.params)
    free = [
        place
        for place, used in enumerate(uses)
        if used.written & outputs
        and not any(used.written & (other.read | other.written) for other in _others(uses, place))
    ]
    left = steps - sum(_cost(nest) for place, nest in enumerate(nests) if place not in free)
    if not free or left <= 0:
        return None
    for place in free:
        nests[place] = _cut(nests[place], left / len(free))
    if sum(map(_cost, nests)) > steps:
        return None
    body = nests[0] if len(nests) == 1 else tirx.SeqStmt(nests)
    return as_main(with_root_body(func, body))


@dataclass(frozen=True)
class _Uses:
    """The buffers that the blocks of a nest read and write."""

    read: frozenset[Any]
    written: frozenset[Any]

    @classmethod
    def of(cls, nest: Any) -> _Uses:
        read: set[Any] = set()
        written: set[Any] = set()

        def note(block: Any) -> None:
            read.update(region.source for region in block.reads)
            written.update(region.source for region in block.writes)

        structural_walk(nest, (SBlock, note))
        return cls(frozenset(read), frozenset(written))


def _others(uses: list[_Uses], place: int) -> list[_Uses]:
    return uses[:place] + uses[place + 1 :]


def _nests(func: PrimFunc) -> list[Any]:
    """Return the statements of the root block."""
    if not isinstance(func.body, SBlockRealize):
        return []
    body = func.body.block.body
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _cost(stmt: Any) -> float:
    """Estimate the steps of a statement."""
    if isinstance(stmt, tirx.For):
        return max(int(getattr(stmt.extent, "value", 1)), 0) * _cost(stmt.body)
    if isinstance(stmt, tirx.SeqStmt):
        return sum(map(_cost, stmt.seq))
    if isinstance(stmt, tirx.IfThenElse):
        other = 0.0 if stmt.else_case is None else _cost(stmt.else_case)
        return max(_cost(stmt.then_case), other)
    if isinstance(stmt, SBlockRealize):
        return _cost(stmt.block.body)
    if isinstance(stmt, tirx.AttrStmt | tirx.While):
        return _cost(stmt.body)
    calls: list[Any] = []
    structural_walk(stmt, (Call, calls.append))
    return 1.0 + _CALL_WEIGHT * len(calls)


def _cut(nest: Any, steps: float) -> Any:
    """Cut the loops of a nest to windows, from the outermost, until it takes ``steps`` steps."""
    cost = _cost(nest)
    if cost <= steps or not isinstance(nest, tirx.For):
        return nest
    extent = int(getattr(nest.extent, "value", 0))
    width = max(int(extent * steps / cost / _WINDOWS), 1)
    loop = nest
    if _WINDOWS * width < extent and _is_spatial(nest):
        loop = _windows(nest, extent, width)
    elif not (_is_spatial(nest) or extent == 1):
        return nest
    inner = _cut(loop.body, steps / max(int(loop.extent.value), 1))
    return _loop(loop, loop.loop_var, loop.extent, inner)


def _windows(loop: Any, extent: int, width: int) -> Any:
    """Let a loop run over windows of ``width`` iterations."""
    variable = tirx.Var(loop.loop_var.name, loop.loop_var.ty)
    apart = -(-(extent - width) // (_WINDOWS - 1))
    start = tirx.min(tirx.floordiv(variable, width) * apart, extent - width)
    value = start + tirx.floormod(variable, width) + loop.min

    def replaced(var: Any) -> Any:
        return value if var.same_as(loop.loop_var) else var

    body = structural_map(loop.body, (tirx.Var, replaced))
    length = tirx.IntImm(loop.extent.ty, _WINDOWS * width)
    return _loop(loop, variable, length, body, tirx.IntImm(loop.extent.ty, 0))


def _loop(loop: Any, variable: Any, extent: Any, body: Any, start: Any = None) -> Any:
    return tirx.For(
        variable,
        loop.min if start is None else start,
        extent,
        loop.kind,
        body,
        loop.thread_binding,
        loop.annotations,
        loop.step,
    )


def _is_spatial(loop: Any) -> bool:
    """Whether each block below uses the loop for spatial variables only."""
    if not isinstance(loop.extent, tirx.IntImm) or loop.step is not None:
        return False
    used_otherwise: list[Any] = []

    def uses(value: Any) -> bool:
        found: list[Any] = []
        structural_walk(value, (tirx.Var, found.append))
        return any(var.same_as(loop.loop_var) for var in found)

    def note(realize: Any) -> None:
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if int(axis.iter_type) != tirx.IterVar.DataPar and uses(value):
                used_otherwise.append(axis)
        if uses(realize.block.body):
            used_otherwise.append(realize)

    structural_walk(loop.body, (SBlockRealize, note))
    return not used_otherwise


def _producers_moved(mod: IRModule) -> Iterator[IRModule]:
    """Yield programs with the blocks of intermediate results below a loop of the last block."""
    schedule = Schedule(mod)
    names: list[str] = []
    structural_walk(mod[MAIN].body, (SBlock, lambda block: names.append(str(block.name_hint))))
    *producers, last = names[:-1] or [""]  # the root is the last
    if not producers or len(set(names)) < len(names):
        return
    for depth in range(len(schedule.get_loops(schedule.get_sblock(last)))):
        trial = schedule.copy()
        loop = trial.get_loops(trial.get_sblock(last))[depth]
        for name in reversed(producers):
            try:
                trial.compute_at(trial.get_sblock(name), loop, preserve_unit_loops=True)
            except ScheduleError:  # it stays where it is
                continue
        yield trial.mod
