"""Applying a line of instructions to the same program with symbolic extents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlang.errors import InvalidTrace
from schedlang.expressions import IntRV
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Sampling
from schedlang.instructions.state import ProgramState
from schedlang.interpreters.replay import Interpreter, apply, why_refused
from schedlang.interpreters.to_tvm import flatten_for_tvm
from schedlang.tvm.last_tiles import with_overlapping_tiles
from schedlang.tvm.schedule import (
    constant_extent,
    loop_variable,
    new_schedule,
    vectorize_part,
)
from schedlang.tvm.symbolic import with_full_tiles
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

# Of a loop of unknown extent that was vectorized whole.
_LANES = 16


def to_symbolic(
    line: Line, workload: Workload, mod: TensorProgram, *, full_tiles: bool = True
) -> TensorProgram:
    """Return what the instructions of a line make of a program with symbolic extents.

    The line is flattened with its decisions as numbers. A tile keeps its inner factors, and its
    outermost loop runs as often as the extent needs: the last tile is cut off by guards, from which
    full tiles are freed (``with_full_tiles``). A loop of unknown extent is vectorized in parts, and
    not unrolled.

    Parameters
    ----------
    workload: what the line was made for, one case of ``mod``.
    mod: the program with symbolic extents.
    full_tiles: free full tiles from guards.

    ``InvalidTrace`` where an instruction does not apply.
    """
    flat = flatten_for_tvm(line, workload, numbers=True)
    state = ProgramState(new_schedule(mod, detail=False))
    applied = 0
    try:
        for _ in apply(state, flat, _Symbolic()):
            applied += 1
        mod = with_full_tiles(state.guarded_mod) if full_tiles else state.guarded_mod
        return with_overlapping_tiles(mod) if state.notes.overlaps else mod
    except Exception as error:  # TVM's errors have many types
        where = str(flat[applied]) if applied < len(flat) else "telling full tiles from others"
        raise InvalidTrace(
            f"{where}: {why_refused(error)}, where extents are symbolic",
            reason="instruction",
            site="",
        ) from None


class _Symbolic(Interpreter):
    """Repeats draws as they were, and leaves the outermost factor of a split to the extent."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def _is_part(self, state: ProgramState, loop: Any) -> bool:
        own = loop_variable(state.raw, loop)
        return any(own.same_as(part) for part in self._parts)

    def draw(
        self, state: ProgramState, kind: Sampling, instruction: Instruction
    ) -> tuple[Instruction, list[Any]]:
        numbers = [one.value for one in instruction.outputs if isinstance(one, IntRV)]
        if len(numbers) == len(instruction.outputs):
            return instruction, numbers
        return super().draw(state, kind, instruction)

    def run(self, state: ProgramState, instruction: Instruction) -> list[Any]:
        args, name = instruction.args, instruction.kind.name
        if name == "split":
            loop, factors, *others = args
            if None not in factors:
                args = (loop, (None, *factors[1:]), *others)
        elif name in ("vectorize", "unroll"):
            loop = state.raw_value(args[0])
            if constant_extent(state.raw, loop) is None:
                if name == "vectorize":
                    self._parts.append(vectorize_part(state.raw, loop, _LANES))
                return []
        elif name == "get_loops" and self._parts:
            # A loop that was vectorized in parts counts once, as it did when it was one.
            found = instruction.kind.run(state, args)
            return [loop for loop in found if not self._is_part(state, loop)]
        return instruction.kind.run(state, args)
