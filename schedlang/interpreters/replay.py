"""Reading, editing and applying a line of instructions: replay is what searches run most.

Replay, flattening and the way out to TVM differ in what they do at a draw and at another
instruction: each is an ``Interpreter`` (Pyro calls them effect handlers).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from schedlang.distributions import Distribution
from schedlang.errors import InvalidTrace, SchedlangError, SpaceError, users_code
from schedlang.expressions import IntRV
from schedlang.instructions.choices import plain_decision
from schedlang.instructions.handles import (
    Handle,
    ProgramState,
    handle_name,
    make_handle,
    map_handles,
    numbered,
)
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Choice, Constraint, Sampling
from schedlang.printed import first_line
from schedlang.tvm import errors
from schedlang.tvm.schedule import new_schedule
from schedlang.workloads.workload import Workload

# -- Reading and editing a straight line of instructions ------------------------------------------


def draws(line: Line) -> Iterator[Instruction]:
    """Iterate over the draws, without the choices."""
    return (i for i in line if i.site and not isinstance(i.kind, Choice))


def decisions(line: Line) -> dict[str, Any]:
    """Return the drawn decisions by site, in program order."""
    return {i.site: i.decision for i in draws(line)}


def choices(line: Line) -> dict[str, Any]:
    """Return the options that were taken, by choice point."""
    return {i.site: i.args[0][i.decision] for i in line if isinstance(i.kind, Choice)}


def block_of(line: Line, instruction: Instruction) -> str:
    """Return the name of the block that an instruction works on, as ``get_block`` looked it up.

    Empty where it takes no block and no loop.
    """
    makers = {handle.index: made for made in line for handle in made.outputs}
    while instruction.kind.name != "get_block":
        taken = (h for h in instruction.inputs() if not isinstance(h, IntRV))
        maker = next((makers[h.index] for h in taken if h.index in makers), None)
        if maker is None:
            return ""
        instruction = maker
    return str(instruction.args[0])


def with_decisions(line: Line, given: Mapping[str, Any]) -> Line:
    """Put other decisions at the given sites.

    SpaceError for an unknown site, or a choice point: another choice is another program.
    """
    wanted = dict(given)
    edited: list[Instruction] = []
    for instruction in line:
        if instruction.site in wanted and instruction.site:
            if isinstance(instruction.kind, Choice):
                raise SpaceError(
                    f"{instruction.site!r} is a choice point, not a draw: run the space again "
                    f"with choices={{{instruction.site!r}: ...}}"
                )
            decision = plain_decision(wanted.pop(instruction.site))
            instruction = replace(instruction, decision=decision)
        edited.append(instruction)
    if wanted:
        raise SpaceError(
            f"no site {', '.join(map(repr, wanted))} in this trace; it has "
            f"{', '.join(map(repr, decisions(line))) or 'none'}"
        )
    return tuple(edited)


def simplified(line: Line) -> Line:
    """Leave out pure instructions whose results nothing uses (dead-code elimination)."""
    used: set[int] = set()
    kept: list[Instruction] = []
    for instruction in reversed(line):
        dead = instruction.kind.pure and not isinstance(instruction.kind, (Choice, Constraint))
        if dead and not any(h.index in used for h in instruction.outputs):
            continue
        used.update(h.index for h in instruction.inputs())
        kept.append(instruction)
    return renumbered(reversed(kept))


def without(line: Line, which: Collection[str | int]) -> Line:
    """Leave out the instructions of these kinds, or at these positions.

    SpaceError when a later instruction uses what one of them defined.
    """
    known = {i.kind.name for i in line}
    for item in which:
        if isinstance(item, str) and item not in known:
            raise SpaceError(f"no instruction {item!r} in this trace")
        if isinstance(item, int) and not 0 <= item < len(line):
            raise SpaceError(f"no instruction number {item}: there are {len(line)}")
    kept: list[Instruction] = []
    gone: dict[int, str] = {}
    for position, instruction in enumerate(line):
        if position in which or instruction.kind.name in which:
            gone.update({h.index: handle_name(h) for h in instruction.outputs})
            continue
        for handle in instruction.inputs():
            if handle.index in gone:
                raise SpaceError(f"{instruction} uses {gone[handle.index]}, which would be removed")
        kept.append(instruction)
    return renumbered(kept)


def renumbered(instructions: Iterable[Instruction]) -> Line:
    """Number the handles densely in order of definition."""
    table: dict[int, Handle] = {}
    result: list[Instruction] = []
    for instruction in instructions:
        args = tuple(map_handles(arg, lambda h: table[h.index]) for arg in instruction.args)
        outputs: list[Handle] = []
        for handle in instruction.outputs:
            new = numbered(handle, len(table))
            table[handle.index] = new
            outputs.append(new)
        result.append(replace(instruction, args=args, outputs=tuple(outputs)))
    return tuple(result)


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


Misfit = Literal["reject", "resample", "repair"]
Decide = Callable[[Instruction, Distribution], Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that did not fit at replay, and its replacement."""

    site: str
    recorded: Any
    used: Any
    support: str

    def __str__(self) -> str:
        return f"{self.site}: {self.recorded} -> {self.used}, as it must be in {self.support}"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay.

    Attributes
    ----------
    workload: the workload that it was replayed on.
    state: the scheduled program.
    line: the instructions with the decisions and distributions as used.
    changes: decisions that are not the recorded ones.
    """

    workload: Workload
    state: ProgramState
    line: Line
    changes: tuple[Change, ...] = ()


def replay(
    line: Line, workload: Workload, misfit: Misfit = "reject", seed: int | None = None
) -> Replayed:
    """Apply instructions with their decisions.

    ``misfit`` says what to do with a decision outside its distribution's support: ``"reject"``
    raises ``InvalidTrace``, ``"resample"`` draws another one with ``seed``, ``"repair"`` takes the
    nearest one. ``InvalidTrace`` also when an instruction does not apply.
    """
    changes: list[Change] = []
    decide = as_recorded(misfit, seed, changes)
    return replace(rerun(line, workload, decide), changes=tuple(changes))


def as_recorded(misfit: Misfit, seed: int | None, changes: list[Change]) -> Decide:
    """Return what decides as the instructions say; what does not fit is noted in ``changes``."""
    if misfit not in ("reject", "resample", "repair"):
        raise SpaceError(f"misfit is 'reject', 'resample' or 'repair', not {misfit!r}")
    rng = random.Random(seed)

    def decide(instruction: Instruction, distribution: Distribution) -> Any:
        recorded = instruction.decision
        if distribution.permits(recorded):
            return recorded
        if misfit == "reject":
            raise InvalidTrace(
                f"decision {recorded} of {instruction.site!r} is not in the support of "
                f"{distribution}",
                reason="decision",
                site=instruction.site,
                value=recorded,
                support=str(distribution),
            )
        used = distribution.sample(rng) if misfit == "resample" else distribution.repair(recorded)
        changes.append(Change(instruction.site, recorded, used, str(distribution)))
        return used

    return decide


def rerun(line: Line, workload: Workload, decide: Decide) -> Replayed:
    """Apply instructions; ``decide(instruction, distribution)`` answers each draw.

    ``InvalidTrace`` when an instruction does not apply.
    """
    return apply_to(workload, line, _Deciding(decide))


def apply_to(
    workload: Workload, line: Line, interpreter: Interpreter, *, detail: bool = False
) -> Replayed:
    """Apply instructions to the unscheduled program, in the way of an interpreter.

    With ``detail``, errors of the schedule that this makes render the program. ``InvalidTrace``
    when an instruction does not apply.
    """
    state = ProgramState(new_schedule(workload.mod, detail=detail))
    applied: list[Instruction] = []
    try:
        with users_code("an instruction"):
            for instruction in apply(state, line, interpreter):
                applied.append(instruction)  # noqa: PERF402 - on an error, says which one failed
    except InvalidTrace as error:
        _name_place(error, line, line[len(applied)])
        raise
    except Exception as error:
        failed = line[len(applied)]
        raise _name_place(_invalid(failed, error), line, failed) from None
    return Replayed(workload, state, tuple(applied))


class _Deciding(Interpreter):
    """Draws from the distributions that are there now."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def draw(
        self, state: ProgramState, kind: Sampling, instruction: Instruction
    ) -> tuple[Instruction, list[Any]]:
        distribution = kind.distribution(state, instruction.args)
        if instruction.distribution is not None:
            distribution = instruction.distribution.over(distribution)
        decision = self._decide(instruction, distribution)
        values = kind.result(state, instruction.args, distribution, decision).values
        if len(values) != len(instruction.outputs):
            raise ValueError(
                f"it drew {len(instruction.outputs)} values when recorded, now {len(values)}"
            )
        same = decision == instruction.decision and distribution == instruction.distribution
        if same and _show(instruction.outputs, values):
            return instruction, values
        outputs = tuple(
            make_handle("v", old.index, new) if isinstance(old, IntRV) else old
            for old, new in zip(instruction.outputs, values, strict=True)
        )
        drawn = replace(instruction, outputs=outputs, decision=decision, distribution=distribution)
        return drawn, values


def _show(outputs: Sequence[Handle], values: Sequence[Any]) -> bool:
    """Whether the handles show these values: after an edit, or read from a file, they do not."""
    for handle, value in zip(outputs, values, strict=True):
        if isinstance(handle, IntRV) and handle.value != value:
            return False
    return True


def _invalid(instruction: Instruction, error: Exception) -> InvalidTrace:
    where = f" (module {instruction.module})" if instruction.module else ""
    return InvalidTrace(
        f"{instruction}{where}: {why_refused(error)}",
        reason="instruction",
        site=instruction.kind.name,
    )


def _name_place(error: InvalidTrace, line: Line, instruction: Instruction) -> InvalidTrace:
    error.module = instruction.module
    error.block = block_of(line, instruction)
    return error


def log_prob(line: Line) -> float:
    """Return log P(tau) of all draws and choices, with the recorded distributions."""
    total = 0.0
    for instruction in line:
        if instruction.distribution is not None:
            total += instruction.distribution.log_prob(instruction.decision)
    return total
