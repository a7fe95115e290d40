"""The one loop that applies a line of instructions to a program.

Replay, flattening and the way out to TVM differ in what they do at a draw and at another
instruction: each is an ``Interpreter`` (Pyro calls them effect handlers).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from schedlang.errors import SchedlangError
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.kinds import Sampling
from schedlang.instructions.state import ProgramState
from schedlang.printed import first_line
from schedlang.tvm import errors


class Interpreter:
    """What to do at each instruction; this one repeats what was recorded."""

    def draw(
        self, state: ProgramState, kind: Sampling, instruction: Instruction
    ) -> tuple[Instruction, list[Any]]:
        """Return the draw as it was made now, and TVM's values of its handles."""
        distribution = instruction.distribution
        assert distribution is not None
        result = kind.result(state, instruction.args, distribution, instruction.decision)
        return instruction, result.values

    def run(self, state: ProgramState, instruction: Instruction) -> list[Any]:
        """Apply an instruction that draws nothing and return TVM's values of its handles."""
        return instruction.kind.run(state, instruction.args)


_AS_RECORDED = Interpreter()


def apply(
    state: ProgramState, line: Iterable[Instruction], interpreter: Interpreter = _AS_RECORDED
) -> Iterator[Instruction]:
    """Apply instructions to a program in order; yield each one, as applied, after it is done.

    ValueError when one defines another number of handles than it did when it was recorded.
    """
    for instruction in line:
        kind = instruction.kind
        if isinstance(kind, Sampling):
            instruction, values = interpreter.draw(state, kind, instruction)
        else:
            values = interpreter.run(state, instruction)
        if len(values) != len(instruction.outputs):
            raise ValueError(
                f"it returned {len(instruction.outputs)} handles when recorded, now {len(values)}"
            )
        state.values += values
        state.handles += instruction.outputs
        yield instruction


def why_refused(error: Exception) -> str:
    """Return in one line why an instruction cannot be applied."""
    return first_line(error if isinstance(error, SchedlangError) else errors.reason_of(error))
