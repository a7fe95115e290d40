"""Whether a program gives the same results in every call, whatever its threads do.

Two iterations of a parallel loop race where both access an element and one of them writes it. A
loop is accepted only where this is disproved (``concurrent``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir.transform import LowerInitBlock, PlanAndUpdateBufferAllocationLocation

from schedlang.tvm.analysis.races.accesses import LoopAccesses
from schedlang.tvm.analysis.races.concurrent import PARALLEL, THREADS, VECTORIZED, Concurrent
from schedlang.tvm.effects import impure_calls
from schedlang.tvm.last_tiles import with_dense_tiles
from schedlang.tvm.program import MAIN
from schedlang.tvm.values import found_in

_KINDS = (PARALLEL, VECTORIZED, THREADS)


@dataclass(frozen=True, slots=True)
class Determinism:
    """What is known of a program's calls.

    Attributes
    ----------
    proven: calls on the same inputs give the same results, as far as the program says: no parallel
        iterations can race, and it calls no function that may do more than compute.
    race: why concurrent iterations may race, in words; None where it is proven that they do not.
    """

    proven: bool
    race: str | None = None


UNKNOWN = Determinism(proven=False)


def determinism(mod: IRModule) -> Determinism:
    """Find out whether threads, or what it calls, can change the results of a program.

    Nothing is proven of a program for a GPU: of its threads, it is only looked at what they store
    in global memory.
    """
    func = _as_read(mod, MAIN)
    race = None
    program = LoopAccesses(func.body, _KINDS)
    for loop, around in program.loops:
        race = Concurrent.of(loop, around).fault(program)
        if race is not None:
            break
    doubtful = found_in(func.body, tirx.DeclBuffer) or impure_calls(func.body)
    threads = any(int(loop.kind) == THREADS for loop, _ in program.loops)
    return Determinism(race is None and not doubtful and not threads, race)


def fault_of(mod: IRModule, variable: Any, kind: int, axis: str = "") -> str | None:
    """Say why the iterations of a loop may not run at the same time; None where they may.

    The loop is that of a variable. It is taken as one of the ``kind``, with ``axis`` for threads.
    """
    for place in mod.get_global_vars():
        loops = found_in(mod[place].body, tirx.For)
        if any(loop.loop_var.same_as(variable) for loop in loops):
            func = _as_read(mod, place)
            program = LoopAccesses(func.body, {int(one.kind) for one in loops})
            loop, around = next(
                (one, around) for one, around in program.loops if one.loop_var.same_as(variable)
            )
            return Concurrent(loop, around, kind, axis).fault(program)
    raise ValueError(f"the program has no loop over {variable}")


def _as_read(mod: IRModule, function: Any) -> Any:
    """Return a function without initial values, whose iterations allocate what is their own.

    Tiles that overlap are apart in it where they store the same.
    """
    dense = with_dense_tiles(mod)
    return PlanAndUpdateBufferAllocationLocation()(LowerInitBlock()(dense))[function]
