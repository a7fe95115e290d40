"""Going out to TVM: a line of instructions as TVM's own trace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from schedlang.expressions import IndexMap, IntRV
from schedlang.instructions.handles import Handle, handle_name, map_handles
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Choice, Constraint, Primitive, Sampling
from schedlang.instructions.line import renumbered
from schedlang.instructions.state import ProgramState
from schedlang.interpreters.flatten import flatten
from schedlang.interpreters.replay import Interpreter, apply, why_refused
from schedlang.printed import listed
from schedlang.tvm.schedule import get_module, get_trace, new_traced_schedule
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An instruction that a TVM trace lacks, as text, and the reason in one line."""

    instruction: str
    reason: str

    def __str__(self) -> str:
        return f"{self.instruction}: {self.reason}"


@dataclass(frozen=True, slots=True)
class TVMForm:
    """A line of instructions as TVM's own trace.

    Attributes
    ----------
    trace: TVM's trace.
    mod: the program that it makes.
    left_out: the instructions that it lacks. Without any, ``mod`` is the program of the line; with
        some, it computes the same by a program that is less optimised.
    """

    trace: Any
    mod: TensorProgram
    left_out: tuple[LeftOut, ...]

    @property
    def omissions(self) -> str:
        """The instructions that were left out, as one line."""
        return listed(self.left_out, lines=False)


def to_tvm(line: Line, workload: Workload, *, numbers: bool = False) -> TVMForm:
    """Return a TVM trace of the flattened instructions, and what had to be left out of it.

    Draws that TVM has (perfect and partitioned tiles, categorical, compute location) stay draws
    with their decisions, so TVM's own mutators work on it; others become their values, and so do
    all draws inside index maps, which TVM's traces store as they are. With ``numbers``, so do the
    draws in all arguments: TVM's files cannot hold expressions of draws.

    Left out are instructions that TVM does not have, annotations that hold a dict (TVM 0.27 reads
    one in a trace's JSON text, and fails on one in a trace in memory, which its passes apply), what
    does not apply without these, and what uses the result of something left out. ``InvalidTrace``
    when the line does not replay on the workload.
    """
    flat = flatten_for_tvm(line, workload, numbers=numbers)
    left_out: list[LeftOut] = []
    failed = {n: why for n, instruction in enumerate(flat) if (why := why_not_in_tvm(instruction))}
    while True:
        if failed:
            flat, removed = _without(flat, failed)
            left_out += removed
        state = ProgramState(new_traced_schedule(workload.mod))
        applied = 0
        try:
            for _ in apply(state, flat, _ToTVM()):
                applied += 1
        except Exception as error:  # TVM's errors have many types
            # TVM may fail halfway, so the rest is applied to the unscheduled program again.
            failed = {applied: why_refused(error)}
        else:
            return TVMForm(get_trace(state.raw), get_module(state.raw), tuple(left_out))


def why_not_in_tvm(instruction: Instruction) -> str:
    """Return why a flat instruction cannot be in a TVM trace; empty where it can."""
    kind = instruction.kind
    if isinstance(kind, (Choice, Sampling)):
        return ""
    if not isinstance(kind, Primitive) or kind.tvm is None:
        return "TVM has no such primitive"
    if any(map(_holds_dict, instruction.args)):
        return "TVM applies a dict from a trace's JSON text only"
    return ""


def _holds_dict(arg: Any) -> bool:
    return isinstance(arg, dict) or (isinstance(arg, tuple) and any(map(_holds_dict, arg)))


def _without(flat: Line, failed: dict[int, str]) -> tuple[Line, list[LeftOut]]:
    """Remove instructions, given by position with the reason, and those that use their results."""
    kept: list[Instruction] = []
    removed: list[LeftOut] = []
    gone: dict[int, str] = {}
    for position, instruction in enumerate(flat):
        reason = failed.get(position, "")
        missing = [gone[handle.index] for handle in instruction.inputs() if handle.index in gone]
        if missing:
            reason = reason or f"it uses {missing[0]}"
        if not reason:
            kept.append(instruction)
            continue
        removed.append(LeftOut(str(instruction), reason))
        named = f"{{}} of {instruction.kind.name}, which is left out"
        gone |= {h.index: named.format(handle_name(h)) for h in instruction.outputs}
    return renumbered(kept), removed


def flatten_for_tvm(line: Line, workload: Workload, *, numbers: bool = False) -> Line:
    """Flatten, with numbers for drawn values where TVM's primitives take no others.

    With ``numbers``, all drawn values become numbers. Constraints are left out: they hold.
    """
    flat = (one for one in flatten(line, workload) if not isinstance(one.kind, Constraint))
    return tuple(_with_numbers(one, numbers) for one in flat)


def _with_numbers(instruction: Instruction, everywhere: bool) -> Instruction:
    if not isinstance(instruction.kind, Primitive):
        return instruction
    args = tuple(
        map_handles(arg, _number) if everywhere or not parameter.argument.takes_drawn else arg
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
        args = [
            arg.substitute(lambda v: self._numbers[v.index]) if isinstance(arg, IndexMap) else arg
            for arg in instruction.args
        ]
        return instruction.kind.run(state, args)
