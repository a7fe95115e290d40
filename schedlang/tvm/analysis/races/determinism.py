"""Whether a program gives the same results in every call, whatever its threads do.

Two iterations of a parallel loop race where both access an element and one of them writes it. If
what the iterations access is apart, no race is possible; if all of them update an element, as in
``C[0] = C[0] + A[i]`` for all ``i``, one is certain. Between the two, nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlockRealize
from tvm.s_tir.transform import LowerInitBlock, PlanAndUpdateBufferAllocationLocation
from tvm_ffi import structural_walk

from schedlang.tvm.analysis.races.execution import impure_calls, is_true, runs
from schedlang.tvm.analysis.races.iterations import Definition, Iterations
from schedlang.tvm.program import MAIN

_PARALLEL = int(tirx.ForKind.PARALLEL)


@dataclass(frozen=True, slots=True)
class Determinism:
    """What is known of a program's calls.

    Attributes
    ----------
    proven: calls on the same inputs give the same results, as far as the program says: no parallel
        iterations can race, and it calls no function that may do more than compute.
    race: a race that is certain, in words; None if none was found.
    """

    proven: bool
    race: str | None = None


UNKNOWN = Determinism(proven=False)


def determinism(mod: IRModule) -> Determinism:
    """Find out whether threads, or what it calls, can change the results of a CPU program."""
    # The memory that each iteration has for itself is allocated inside the loop after this.
    body = PlanAndUpdateBufferAllocationLocation()(LowerInitBlock()(mod))[MAIN].body
    parallel: list[Any] = []
    doubtful = impure_calls(body)

    def note_loop(loop: Any) -> None:
        if int(loop.kind) == _PARALLEL:
            parallel.append(loop)
        elif int(loop.kind) == tirx.ForKind.THREAD_BINDING:
            doubtful.append(loop)

    views = (tirx.DeclBuffer, doubtful.append)  # other names for memory
    structural_walk(body, [(tirx.For, note_loop), views])
    found = _ParallelLoops(len(parallel))
    found.read(body, (), always=True)
    return Determinism(found.all_apart and not doubtful, found.race)


class _ParallelLoops:
    """Finds the parallel loops of a program, with what is defined around each.

    Parameters
    ----------
    number: how many there are.

    Attributes
    ----------
    all_apart: whether all of them were found, and the iterations of none can race.
    race: see ``Determinism``.
    """

    def __init__(self, number: int) -> None:
        self.race: str | None = None
        self._left = number
        self._racing = 0

    @property
    def all_apart(self) -> bool:
        return self._left == 0 and self._racing == 0

    def read(self, stmt: Any, around: tuple[Definition, ...], *, always: bool) -> None:
        """Read a statement; ``always`` says whether it is executed in every call."""
        if self._left == 0:
            return
        if isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq:
                self.read(part, around, always=always)
        elif isinstance(stmt, tirx.For):
            if int(stmt.kind) == _PARALLEL:
                self._judge(stmt, around, always)
            inside = (*around, Definition.of_loop(stmt))
            self.read(stmt.body, inside, always=always and runs(stmt))
        elif isinstance(stmt, SBlockRealize):
            bound = zip(stmt.block.iter_vars, stmt.iter_values, strict=True)
            inside = (*around, *(Definition(axis.var, value) for axis, value in bound))
            self.read(stmt.block.body, inside, always=always and is_true(stmt.predicate))
        elif isinstance(stmt, tirx.IfThenElse):
            self.read(stmt.then_case, around, always=False)
            if stmt.else_case is not None:
                self.read(stmt.else_case, around, always=False)
        elif isinstance(stmt, tirx.AttrStmt | tirx.While):
            self.read(stmt.body, around, always=always and isinstance(stmt, tirx.AttrStmt))

    def _judge(self, loop: Any, around: tuple[Definition, ...], always: bool) -> None:
        iterations = Iterations(loop, around)
        self._left -= 1
        self._racing += not iterations.apart
        if always and self.race is None and iterations.updated is not None:
            self.race = (
                f"iterations of loop {loop.loop_var.name!r} run in parallel and update the same "
                f"elements of {iterations.updated!r}"
            )
