"""Replacing instructions written in Python by the primitives they ran, and going out to TVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from schedlang.errors import SpaceError
from schedlang.expressions import IndexMap, IntRV
from schedlang.instructions.handles import Handle, numbered
from schedlang.instructions.instruction import Instruction, map_handles
from schedlang.instructions.kinds import Choice, Macro, Primitive, Sampling, handles_returned
from schedlang.interpreters.replay import replay
from schedlang.tvm.schedule import get_trace, new_schedule, new_traced_schedule
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.language.schedule import Schedule
    from schedlang.language.trace import Trace


def workload_of(trace: Trace, workload: Workload | Any) -> Workload:
    """The given workload, or the one that the trace was recorded on."""
    if workload is None:
        workload = trace.workload
    if workload is None:
        raise SpaceError("this trace knows no workload: give one")
    return as_workload(workload)


def flatten(trace: Trace, workload: Workload | Any = None) -> Trace:
    """The same program with primitives, draws and choices only; macros are run to see theirs.

    InvalidTrace when the trace does not replay on the workload.
    """
    from schedlang.language.trace import Trace

    workload = workload_of(trace, workload)
    trace = replay(trace, workload).trace
    flattener = _Flattener(new_schedule(workload.mod, detail=False))
    for instruction in trace.instructions:
        flattener.add(instruction)
    return Trace(tuple(flattener.flat), workload)


def flatten_for_tvm(trace: Trace, workload: Workload | Any = None) -> Trace:
    """The same, with numbers for drawn values where TVM's primitives take no others."""
    from schedlang.language.trace import Trace

    flat = flatten(trace, workload)
    return Trace(tuple(map(_with_numbers, flat.instructions)), flat.workload)


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


class _Flattener:
    """Keeps, for every handle of the original trace, the handle of the flat one."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.flat: list[Instruction] = []
        self.defined = 0
        self.values: list[Any] = []
        self.handles: list[Handle] = []

    def add(self, instruction: Instruction) -> None:
        kind = instruction.kind
        if isinstance(kind, Macro):
            self._expand(kind, instruction)
            return
        if isinstance(kind, Sampling):
            assert instruction.distribution is not None
            made = kind.result(
                self.raw,
                instruction.args,
                self.values,
                instruction.distribution,
                instruction.decision,
            ).values
        else:
            made = kind.run(self.raw, instruction.args, self.values)
        self.values += made
        self.handles += self._emit(instruction, lambda h: self.handles[h.index])

    def _emit(self, instruction: Instruction, rename: Any) -> list[Handle]:
        outputs: list[Handle] = []
        for handle in instruction.outputs:
            outputs.append(numbered(handle, self.defined))
            self.defined += 1
        args = tuple(map_handles(arg, rename) for arg in instruction.args)
        self.flat.append(replace(instruction, args=args, outputs=tuple(outputs)))
        return outputs

    def _expand(self, kind: Macro, instruction: Instruction) -> None:
        inner, taken, returned = kind.expand(
            self.raw, instruction.args, self.values, recording=True
        )
        table = _paired(taken, instruction.args, self.handles)
        self._splice(inner, table, instruction.module)
        for handle in handles_returned(returned):
            self.values.append(inner.raw_value(handle))
            self.handles.append(table[handle.index])

    def _splice(self, inner: Schedule, table: dict[int, Handle], module: str) -> None:
        for instruction in inner.trace.instructions:
            emitted = self._emit(replace(instruction, module=module), lambda h: table[h.index])
            for old, new in zip(instruction.outputs, emitted, strict=True):
                table[old.index] = new


def _paired(taken: Sequence[Any], args: Sequence[Any], handles: list[Handle]) -> dict[int, Handle]:
    """From the handles a macro was given inside to the flat ones they stand for."""
    from schedlang.instructions.instruction import handles_in

    table: dict[int, Handle] = {}
    for inside, outside in zip(taken, args, strict=True):
        for a, b in zip(handles_in(inside), handles_in(outside), strict=True):
            table[a.index] = handles[b.index]
    return table


def to_tvm_trace(trace: Trace, workload: Workload | Any = None) -> Any:
    """A TVM trace of the flattened instructions.

    Draws that TVM has (perfect and partitioned tiles, categorical, compute location) stay draws
    with their decisions, so TVM's own mutators work on it; others become their values, and so do
    all draws inside index maps, which TVM's traces store as they are. SpaceError for an annotation
    that is a dict: TVM's traces cannot be applied with one.
    """
    workload = workload_of(trace, workload)
    flat = flatten_for_tvm(trace, workload)
    raw = new_traced_schedule(workload.mod)
    values: list[Any] = []
    numbers: dict[int, int] = {}
    for instruction in flat.instructions:
        kind = instruction.kind
        if isinstance(kind, Sampling):
            numbers.update(_drawn_numbers(instruction))
            assert instruction.distribution is not None
            values += kind.record_in_tvm(
                raw, instruction.args, values, instruction.distribution, instruction.decision
            )
        elif isinstance(kind, Choice):
            continue
        else:
            assert isinstance(kind, Primitive)
            if any(isinstance(arg, dict) for arg in instruction.args):
                raise SpaceError(f"{instruction}: a TVM trace cannot hold a dict")
            args = [
                arg.substitute(lambda v: numbers[v.index]) if isinstance(arg, IndexMap) else arg
                for arg in instruction.args
            ]
            values += kind.run(raw, args, values)
    return get_trace(raw)


def _drawn_numbers(instruction: Instruction) -> dict[int, int]:
    """What was drawn, by the index of the handle; nothing where loops were drawn."""
    assert instruction.distribution is not None
    outputs = instruction.distribution.outputs(instruction.decision)
    numbers = outputs if isinstance(outputs, tuple) else (outputs,)
    return {
        handle.index: number
        for handle, number in zip(instruction.outputs, numbers, strict=True)
        if isinstance(handle, IntRV)
    }
