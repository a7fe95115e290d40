"""Going out to TVM: a line of instructions as TVM's own trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedlang.errors import SpaceError
from schedlang.expressions import IndexMap, IntRV
from schedlang.instructions.contents import map_handles
from schedlang.instructions.handles import Handle
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Primitive, Sampling
from schedlang.instructions.state import ProgramState
from schedlang.interpreters.apply import Interpreter, apply
from schedlang.interpreters.flatten import flatten
from schedlang.tvm.schedule import get_trace, new_traced_schedule
from schedlang.workloads.workload import Workload


def to_tvm_trace(line: Line, workload: Workload) -> Any:
    """Return a TVM trace of the flattened instructions.

    Draws that TVM has (perfect and partitioned tiles, categorical, compute location) stay draws
    with their decisions, so TVM's own mutators work on it; others become their values, and so do
    all draws inside index maps, which TVM's traces store as they are. SpaceError for an annotation
    that is a dict: TVM's traces cannot be applied with one.
    """
    state = ProgramState(new_traced_schedule(workload.mod))
    for _ in apply(state, flatten_for_tvm(line, workload), _ToTVM()):
        pass
    return get_trace(state.raw)


def flatten_for_tvm(line: Line, workload: Workload) -> Line:
    """Flatten, with numbers for drawn values where TVM's primitives take no others."""
    return tuple(map(_with_numbers, flatten(line, workload)))


def _with_numbers(instruction: Instruction) -> Instruction:
    if not isinstance(instruction.kind, Primitive):
        return instruction
    args = tuple(
        arg if parameter.argument.takes_drawn else map_handles(arg, _number)
        for parameter, arg in zip(instruction.kind.parameters, instruction.args, strict=True)
    )
    return replace(instruction, args=args)


def _number(handle: Handle) -> Handle | int:
    return handle.value if isinstance(handle, IntRV) else handle


class _ToTVM(Interpreter):
    """Applies to a schedule that records a TVM trace; remembers the integers that were drawn."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def draw(
        self, state: ProgramState, kind: Sampling, instruction: Instruction
    ) -> tuple[Instruction, list[Any]]:
        distribution, decision = instruction.distribution, instruction.decision
        assert distribution is not None
        self._numbers.update(
            (handle.index, handle.value)
            for handle in instruction.outputs
            if isinstance(handle, IntRV)
        )
        return instruction, kind.record_in_tvm(state, instruction.args, distribution, decision)

    def run(self, state: ProgramState, instruction: Instruction) -> list[Any]:
        if any(isinstance(arg, dict) for arg in instruction.args):
            raise SpaceError(f"{instruction}: a TVM trace cannot hold a dict")
        args = [
            arg.substitute(lambda v: self._numbers[v.index]) if isinstance(arg, IndexMap) else arg
            for arg in instruction.args
        ]
        return instruction.kind.run(state, args)
