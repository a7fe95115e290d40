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

from schedlang.tvm.program import MAIN, as_main, with_root_body
from schedlang.tvm.schedule import ScheduleError
from schedlang.tvm.statements import (
    bindings_of,
    changed_loop,
    is_spatial,
    nests_of,
    parts_of,
    sequence,
)
from schedlang.tvm.values import extent_of, found_in, holds, substituted

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
    return as_main(with_root_body(func, sequence(nests)))


@dataclass(frozen=True)
class _Uses:
    """The buffers that the blocks of a nest read and write."""

    read: frozenset[Any]
    written: frozenset[Any]

    @classmethod
    def of(cls, nest: Any) -> _Uses:
        blocks = found_in(nest, SBlock)
        return cls(
            frozenset(region.source for block in blocks for region in block.reads),
            frozenset(region.source for block in blocks for region in block.writes),
        )


def _others(uses: list[_Uses], place: int) -> list[_Uses]:
    return uses[:place] + uses[place + 1 :]


def _nests(func: tirx.PrimFunc) -> list[Any]:
    """Return the statements of the root block."""
    return nests_of(func) if isinstance(func.body, SBlockRealize) else []


def _cost(stmt: Any) -> float:
    """Estimate the steps of a statement."""
    if isinstance(stmt, tirx.For):
        return max(extent_of(stmt.extent, 1), 0) * _cost(stmt.body)
    if isinstance(stmt, tirx.IfThenElse):
        return max(map(_cost, parts_of(stmt)))
    if isinstance(stmt, SBlockRealize):
        return _cost(stmt.block.body)
    if parts := parts_of(stmt):
        return sum(map(_cost, parts))
    return 1.0 + _CALL_WEIGHT * len(found_in(stmt, Call))


def _cut(nest: Any, steps: float) -> Any:
    """Cut the loops of a nest to windows, from the outermost, until it takes ``steps`` steps."""
    cost = _cost(nest)
    if cost <= steps or not isinstance(nest, tirx.For):
        return nest
    extent = extent_of(nest.extent, 0)
    width = max(int(extent * steps / cost / _WINDOWS), 1)
    loop = nest
    if _WINDOWS * width < extent and _is_spatial(nest):
        loop = _windows(nest, extent, width)
    elif not (_is_spatial(nest) or extent == 1):
        return nest
    inner = _cut(loop.body, steps / max(int(loop.extent.value), 1))
    return changed_loop(loop, inner)


def _windows(loop: Any, extent: int, width: int) -> Any:
    """Let a loop run over windows of ``width`` iterations."""
    variable = tirx.Var(loop.loop_var.name, loop.loop_var.ty)
    apart = -(-(extent - width) // (_WINDOWS - 1))
    first = tirx.min(tirx.floordiv(variable, width) * apart, extent - width)
    value = first + tirx.floormod(variable, width) + loop.min
    body = substituted(loop.body, {loop.loop_var: value})
    length = tirx.IntImm(loop.extent.ty, _WINDOWS * width)
    start = tirx.IntImm(loop.extent.ty, 0)
    return changed_loop(loop, body, variable=variable, start=start, extent=length)


def _is_spatial(loop: Any) -> bool:
    """Whether each block below uses the loop for spatial variables only."""
    if not isinstance(loop.extent, tirx.IntImm) or loop.step is not None:
        return False

    def uses(value: Any) -> bool:
        return holds(found_in(value, tirx.Var), loop.loop_var)

    return not any(
        uses(realize.block.body)
        or any(uses(value) for axis, value in bindings_of(realize) if not is_spatial(axis))
        for realize in found_in(loop.body, SBlockRealize)
    )


def _producers_moved(mod: IRModule) -> Iterator[IRModule]:
    """Yield programs with the blocks of intermediate results below a loop of the last block."""
    schedule = Schedule(mod)
    names = [str(block.name_hint) for block in found_in(mod[MAIN].body, SBlock)]
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
