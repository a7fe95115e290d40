"""Replacing macros by the primitives that they ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from schedlang.instructions.handles import Handle, handles_in, map_handles, numbered
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Macro, Overlapping, Sampling
from schedlang.instructions.state import ProgramState
from schedlang.interpreters.replay import Interpreter, apply_to, replay
from schedlang.workloads.workload import Workload


def flatten(line: Line, workload: Workload) -> Line:
    """Return the same program in primitives, draws and choices; macros are run to see theirs.

    That tiles overlap is the last instruction, if there are any. ``InvalidTrace`` when the line
    does not replay on the workload.
    """
    flattener = _Flattener()
    state = apply_to(workload, replay(line, workload).line, flattener).state
    overlap = None if state.mod.same_as(state.guarded_mod) else flattener.overlap
    return tuple(flattener.flat if overlap is None else [*flattener.flat, overlap])


class _Flattener(Interpreter):
    """Writes the flat line, and keeps its handle for each handle of the original one.

    Attributes
    ----------
    flat: the instructions, but for that which makes tiles overlap.
    overlap: this instruction.
    """

    def __init__(self) -> None:
        self.flat: list[Instruction] = []
        self.overlap: Instruction | None = None
        self._defined = 0
        self._handles: list[Handle] = []

    def draw(
        self, state: ProgramState, kind: Sampling, instruction: Instruction
    ) -> tuple[Instruction, list[Any]]:
        drawn = super().draw(state, kind, instruction)
        self._copy(instruction)
        return drawn

    def run(self, state: ProgramState, instruction: Instruction) -> list[Any]:
        if isinstance(instruction.kind, Macro):
            return self._expand(state, instruction.kind, instruction)
        values = super().run(state, instruction)
        self._copy(instruction)
        return values

    def _copy(self, instruction: Instruction) -> None:
        self._handles += self._emit(instruction, lambda h: self._handles[h.index])

    def _emit(self, instruction: Instruction, rename: Callable[[Handle], Handle]) -> list[Handle]:
        if isinstance(instruction.kind, Overlapping):
            self.overlap = instruction
            return []
        outputs = [numbered(h, self._defined + k) for k, h in enumerate(instruction.outputs)]
        self._defined += len(outputs)
        args = tuple(map_handles(arg, rename) for arg in instruction.args)
        self.flat.append(replace(instruction, args=args, outputs=tuple(outputs)))
        return outputs

    def _expand(self, state: ProgramState, kind: Macro, instruction: Instruction) -> list[Any]:
        expansion = kind.expand(state, instruction.args, recording=True)
        table = _paired(expansion.args, instruction.args, self._handles)
        for inner in expansion.line:
            emitted = self._emit(
                replace(inner, module=instruction.module), lambda h: table[h.index]
            )
            table.update((h.index, new) for h, new in zip(inner.outputs, emitted, strict=True))
        self._handles += [table[handle.index] for handle in expansion.handles]
        return [expansion.state.raw_value(handle) for handle in expansion.handles]


def _paired(
    inside: Sequence[Any], outside: Sequence[Any], handles: Sequence[Handle]
) -> dict[int, Handle]:
    """Maps handles inside a macro to the corresponding handles of the flat trace."""
    table: dict[int, Handle] = {}
    for inner, outer in zip(inside, outside, strict=True):
        for a, b in zip(handles_in(inner), handles_in(outer), strict=True):
            table[a.index] = handles[b.index]
    return table
