"""Loops whose iterations run at the same time: why they may race.

Iterations race where one stores to an element that another one accesses. A race is disproved by the
indices (``apart``), by enumerating all accesses (``counting``), or if all iterations store the same
value to an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tvm import tirx
from tvm.ir import Call, StringImm, TensorLoad
from tvm_ffi import structural_equal

from schedlang.tvm.analysis.races.accesses import ElementAccess, LoopAccesses
from schedlang.tvm.analysis.races.apart import Apart
from schedlang.tvm.analysis.races.counting import counted_apart
from schedlang.tvm.effects import impure_calls
from schedlang.tvm.values import constant, operands_of

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
        value = _beside(first) if len(loads) == 1 else None
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


def _beside(store: Any) -> Any | None:
    """Return the other operand of a maximum or minimum with the stored element; None for others."""
    value = store.value
    if isinstance(value, tirx.Min | tirx.Max):
        for old, other in ((value.a, value.b), (value.b, value.a)):
            if isinstance(old, TensorLoad) and old.source.same_as(store.buffer):
                same = all(map(structural_equal, old.indices[:], store.indices[:]))
                return other if same else None
    return None
