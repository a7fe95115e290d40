"""Whether loops whose iterations run at the same time may race, and so change the results.

Iterations race where one stores to an element that another one accesses. A race is disproved by the
indices (``disjoint``), by enumerating all accesses (``counted_apart``), or if all iterations store
the same value to an element. A program is determined if it gives the same results in every call,
whatever its threads do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvm import tirx
from tvm.ir import Call, IRModule, StringImm, TensorLoad
from tvm.s_tir.transform import LowerInitBlock, PlanAndUpdateBufferAllocationLocation
from tvm_ffi import structural_equal

from schedlang.tvm.analysis.disjoint import Apart
from schedlang.tvm.analysis.loop_accesses import ElementAccess, LoopAccesses, counted_apart
from schedlang.tvm.program import MAIN, as_main, with_root_body
from schedlang.tvm.schedule.last_tiles import with_dense_tiles
from schedlang.tvm.statements import changed_loop, nests_of, operand_beside, sequence
from schedlang.tvm.values import constant, found_in, impure_calls, operands_of

# -- Why the iterations of a concurrent loop may race ---------------------------------------------

PARALLEL = int(tirx.ForKind.PARALLEL)
VECTORIZED = int(tirx.ForKind.VECTORIZED)
THREADS = int(tirx.ForKind.THREAD_BINDING)
_GLOBAL = "global"
_HOW = {
    PARALLEL: "run in parallel",
    VECTORIZED: "run in the lanes of a vector",
    THREADS: "run in threads of the GPU",
}
COOPERATING = "threadIdx"
"""How the axes of threads begin that belong to one block."""


class Concurrent(NamedTuple):
    """A loop whose iterations run at the same time, or shall.

    Attributes
    ----------
    loop, around: the loop, and those around it.
    kind: a number of ``ForKind``.
    axis: of the GPU's threads; "" for others.
    """

    loop: Any
    around: tuple[Any, ...]
    kind: int
    axis: str = ""

    @classmethod
    def of(cls, loop: Any, around: tuple[Any, ...]) -> Concurrent:
        """Return a loop as the kind that it has."""
        binding = loop.thread_binding
        axis = "" if binding is None else str(binding.thread_tag)
        return cls(loop, around, int(loop.kind), axis)

    def fault(self, program: LoopAccesses) -> str | None:
        """Say why iterations may access what another one stores; None where this is disproved."""
        known = constant(self.loop.extent)
        if known is not None and known <= 1:
            return None
        where = f"iterations of loop {str(self.loop.loop_var.name)!r} {_HOW[self.kind]}"
        for effect in program.effects:
            # Lanes call one after the other; threads of a GPU call what is written for them.
            counts = self.kind == PARALLEL or not effect.is_call
            if counts and any(one is self.loop for one in effect.path):
                return f"{where} and {effect.words}"
        outside = frozenset(one.loop_var for one in self.around)
        apart = Apart(program, self.loop, self.around)
        for buffer, accesses in self._shared(program).items():
            if apart.by_indices(accesses) or apart.by_conditions(accesses):
                continue
            if _stores_the_same(program, outside, accesses):
                continue
            is_apart, certain = counted_apart(program.sums, self.loop, outside, accesses)
            if not is_apart and not apart.by_order(accesses):
                return where + _words(program, buffer, accesses, certain)
        return None

    def _shared(self, program: LoopAccesses) -> dict[Any, list[ElementAccess]]:
        """Return, by tensor, the accesses whose order matters if they access the same element."""
        own = {
            buffer
            for buffer, path in program.allocated.items()
            if any(one is self.loop for one in path)
        }
        found: dict[Any, list[ElementAccess]] = {}
        for access in program.below(self.loop, self.around):
            if access.buffer not in own and not self._is_shared_well(access, program):
                found.setdefault(access.buffer, []).append(access)
        # Lanes store one after the other: of a single store without loads, the last one stays.
        fewest = 2 if self.kind == VECTORIZED else 1
        return {
            buffer: accesses
            for buffer, accesses in found.items()
            if len(accesses) >= fewest and any(one.store is not None for one in accesses)
        }

    def _is_shared_well(self, access: ElementAccess, program: LoopAccesses) -> bool:
        """Return whether threads of a GPU may share an element that is accessed.

        This holds for registers, for shared memory, which TVM synchronises, for reductions across
        threads, and for intrinsics that are passed addresses.
        """
        if self.kind != THREADS:
            return False
        if access.by_call or str(access.buffer.scope()) != _GLOBAL:
            return True
        variable = self.loop.loop_var
        if not self.axis.startswith(COOPERATING) or variable not in access.reduced:
            return False
        return all(
            one is not None and variable not in program.sums.loops_in(one[0])
            for one in access.indices
        )


def _words(
    program: LoopAccesses, buffer: Any, accesses: Sequence[ElementAccess], certain: bool
) -> str:
    verb = "update" if any(access.store is None for access in accesses) else "write"
    indices = [
        one[0]
        for access in accesses
        for one in access.indices
        if access.store is not None and one is not None
    ]
    if any(program.sums.asked(index)[0] for index in indices):
        return (
            f" and {verb} the same elements of {buffer.name!r} where indices that the program "
            "reads are equal"
        )
    if certain:
        return f" and {verb} the same elements of {buffer.name!r}"
    return f" and {verb} elements of {buffer.name!r} that are not proven to be different"


def _stores_the_same(
    program: LoopAccesses, outside: frozenset[Any], accesses: Sequence[ElementAccess]
) -> bool:
    """Return whether all iterations that store to an element store the same value.

    The value depends on the indices alone, or is a constant. The element is not read, except by a
    maximum or minimum with itself.
    """
    stores = [access for access in accesses if access.store is not None]
    loads = [access for access in accesses if access.store is None]
    first = stores[0].store
    if any(access.by_call or access.buffer in program.aliases for access in accesses):
        return False
    if any(not one.store.buffer.same_as(stores[0].buffer) for one in stores):
        return False
    value = first.value
    if len(stores) > 1:
        return (
            not loads
            and isinstance(value, tirx.IntImm | tirx.FloatImm)
            and all(structural_equal(value, one.store.value) for one in stores)
        )
    if loads:
        value = operand_beside(first, (tirx.Min, tirx.Max)) if len(loads) == 1 else None
    return value is not None and _follows(program, outside, value, list(first.indices))


def _follows(
    program: LoopAccesses, outside: frozenset[Any], value: Any, places: Sequence[Any]
) -> bool:
    """Return whether a value depends only on ``places`` and on what is equal in all iterations."""
    if any(structural_equal(value, place) for place in places):
        return True
    if isinstance(value, tirx.Var):
        sums = program.sums
        if value in sums.ambiguous:
            return False
        if value in sums.bound:
            return _follows(program, outside, sums.bound[value], places)
        if value in sums.loops:
            return value in outside
        return not isinstance(value.ty, tirx.BufferType)
    if isinstance(value, TensorLoad):
        if value.source in program.stored or value.source in program.aliases:
            return False
    elif isinstance(value, Call) and impure_calls(value):
        return False
    parts = operands_of(value)
    if not parts and not isinstance(value, tirx.IntImm | tirx.FloatImm | StringImm):
        return False
    return all(_follows(program, outside, part, places) for part in parts)


# -- Whether a program gives the same results in every call ---------------------------------------
#
# Two iterations of a parallel loop race where both access an element and one of them writes it. A
# loop is accepted only where this is disproved.

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


# -- Programs that were not scheduled, with their outermost loops in parallel ---------------------

_SERIAL = tirx.ForKind.SERIAL


def with_parallel_loops(mod: IRModule) -> IRModule | None:
    """Return a program that computes the same with several threads; None where none is known.

    Of each nest the outermost loop with more than one iteration runs in parallel, where all loops
    are plain and it is proven that its iterations do not race. Within an iteration nothing changes,
    so that results are the same to the last bit.
    """
    nests = nests_of(mod[MAIN])
    made = list(nests)
    for place, nest in enumerate(nests):
        plain = all(loop.kind == _SERIAL for loop in found_in(nest, tirx.For))
        parallel = _parallel(nest) if plain else None
        if parallel is None:
            continue
        alone = [parallel if k == place else one for k, one in enumerate(nests)]
        if determinism(_with_nests(mod, alone)).proven:
            made[place] = parallel
    changed = any(one is not nest for one, nest in zip(made, nests, strict=True))
    return _with_nests(mod, made) if changed else None


def _with_nests(mod: IRModule, nests: Sequence[Any]) -> IRModule:
    return as_main(with_root_body(mod[MAIN], sequence(list(nests))))


def _parallel(stmt: Any) -> Any | None:
    """Return a nest with its first loop of more than one iteration in parallel, if it has one."""
    if not isinstance(stmt, tirx.For):
        return None
    if constant(stmt.extent) != 1:
        return changed_loop(stmt, stmt.body, kind=tirx.ForKind.PARALLEL)
    body = _parallel(stmt.body)
    return None if body is None else changed_loop(stmt, body)
