"""Whether a program gives the same results in every call, whatever its threads do.

Two iterations of a parallel loop race where both access an element and one of them writes it. If
what the iterations access is apart, no race is possible; if all of them update an element, as in
``C[0] = C[0] + A[i]`` for all ``i``, one is certain. So it is for ``C[X[i]] = C[X[i]] + A[i]``,
since nothing keeps elements of ``X`` from being equal. Between the two, nothing is known.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlockRealize
from tvm.s_tir.transform import LowerInitBlock, PlanAndUpdateBufferAllocationLocation
from tvm_ffi import structural_walk

from schedlang.tvm.analysis.races.data import InputData, is_true, runs
from schedlang.tvm.analysis.races.iterations import Definition, Iterations, Race
from schedlang.tvm.effects import impure_calls
from schedlang.tvm.last_tiles import with_dense_tiles
from schedlang.tvm.parts import bindings_of, parts_of
from schedlang.tvm.program import MAIN

_PARALLEL = int(tirx.ForKind.PARALLEL)
_VECTORIZED = int(tirx.ForKind.VECTORIZED)
_THREADS = int(tirx.ForKind.THREAD_BINDING)
_HOW = {
    _PARALLEL: "run in parallel",
    _VECTORIZED: "run in the lanes of a vector",
    _THREADS: "run in threads of the GPU",
}


@dataclass(frozen=True, slots=True)
class Determinism:
    """What is known of a program's calls.

    Attributes
    ----------
    proven: calls on the same inputs give the same results, as far as the program says: no parallel
        iterations can race, and it calls no function that may do more than compute.
    race: a race, in words; None if none was found. It is certain for some inputs at least.
    """

    proven: bool
    race: str | None = None


UNKNOWN = Determinism(proven=False)


def determinism(mod: IRModule) -> Determinism:
    """Find out whether threads, or what it calls, can change the results of a program.

    Nothing is proven of a program for a GPU, and races between its threads are looked for only
    where it stores elements at indices from its inputs.
    """
    # The memory that each iteration has for itself is allocated inside the loop after this.
    apart = with_dense_tiles(mod)
    func = PlanAndUpdateBufferAllocationLocation()(LowerInitBlock()(apart))[MAIN]
    body = func.body
    data = InputData(func)
    loops: list[Any] = []
    doubtful = impure_calls(body)

    def note_loop(loop: Any) -> None:
        loops.append(loop)
        if int(loop.kind) == _THREADS:
            doubtful.append(loop)

    views = (tirx.DeclBuffer, doubtful.append)  # other names for memory
    structural_walk(body, [(tirx.For, note_loop), views, *data.callbacks()])
    kinds = set(_HOW) if data.places else {_PARALLEL}
    found = _ConcurrentLoops(sum(int(loop.kind) in kinds for loop in loops), kinds, data)
    found.read(body, (), always=True)
    return Determinism(found.all_apart and not doubtful, found.race)


class _ConcurrentLoops:
    """Finds the concurrent loops of a program, with what is defined around each.

    Parameters
    ----------
    number: how many there are.
    kinds: which kinds of loops these are.
    data: what the program reads from its inputs.

    Attributes
    ----------
    all_apart: whether all of them were found, and no parallel iterations can race. Those of a
        vectorised loop do the same in each call.
    race: see ``Determinism``.
    """

    def __init__(self, number: int, kinds: Collection[int], data: InputData) -> None:
        self._kinds = kinds
        self._data = data
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
        if isinstance(stmt, tirx.For):
            if int(stmt.kind) in self._kinds:
                self._judge(stmt, around, always)
            around = (*around, Definition.of_loop(stmt))
            always = always and runs(stmt)
        elif isinstance(stmt, SBlockRealize):
            defined = (Definition(axis.var, value) for axis, value in bindings_of(stmt))
            around = (*around, *defined)
            always = always and is_true(stmt.predicate)
        elif isinstance(stmt, tirx.IfThenElse | tirx.While):
            always = False
        for part in parts_of(stmt):  # no inits: they were lowered
            self.read(part, around, always=always)

    def _judge(self, loop: Any, around: tuple[Definition, ...], always: bool) -> None:
        iterations = Iterations(loop, around, self._data)
        self._left -= 1
        self._racing += int(loop.kind) == _PARALLEL and not iterations.apart
        race = iterations.race
        if always and self.race is None and race is not None and _counts(loop, race):
            self.race = _describe(loop, race)


def _counts(loop: Any, race: Race) -> bool:
    """Whether a race in a loop is one that results may not show."""
    if int(loop.kind) == _VECTORIZED:
        # Lanes store one after the other, and do the same in each call: only what equal indices
        # make of sums is wrong, and that is rare where there are few of many.
        return race.adds and race.assumed
    if int(loop.kind) == _THREADS:
        # Threads add up what they share by functions that are written for that.
        return race.assumed and race.buffer.scope() == "global"
    return True


def _describe(loop: Any, race: Race) -> str:
    how = _HOW[int(loop.kind)]
    verb = "update" if race.adds else "write"
    if not race.assumed:
        what = f"{verb} the same elements of {race.buffer.name!r}"
    else:
        what = (
            f"{verb} the same elements of {race.buffer.name!r} where indices that the program "
            "reads from its inputs are equal"
        )
    return f"iterations of loop {loop.loop_var.name!r} {how} and {what}"
