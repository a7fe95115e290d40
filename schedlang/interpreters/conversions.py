"""A line of instructions in other forms: by primitives alone, as TVM's trace, for any extent.

``flatten`` replaces macros by the primitives that they ran. ``to_tvm`` makes TVM's own trace of the
rest. ``to_symbolic`` applies the line to the same program with symbolic extents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from schedlang.errors import InvalidTrace
from schedlang.expressions import IndexMap, IntRV
from schedlang.instructions.handles import (
    Handle,
    ProgramState,
    handle_name,
    handles_in,
    map_handles,
    numbered,
)
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Choice, Constraint, Macro, Overlapping, Primitive, Sampling
from schedlang.interpreters.replay import (
    Interpreter,
    apply,
    apply_to,
    renumbered,
    replay,
    why_refused,
)
from schedlang.printed import listed
from schedlang.tvm.full_tiles import with_full_tiles
from schedlang.tvm.schedule import (
    constant_extent,
    get_module,
    get_trace,
    loop_variable,
    new_schedule,
    new_traced_schedule,
    vectorize_part,
)
from schedlang.tvm.schedule.last_tiles import with_overlapping_tiles
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


# -- Replacing macros by the primitives that they ran ---------------------------------------------


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


# -- Going out to TVM: a line of instructions as TVM's own trace ----------------------------------


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


# -- Applying a line to the same program with symbolic extents ------------------------------------

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
