"""The points next to a trace: one coordinate changed by one minimal step (Droplet Search, 3.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schedlang.distributions import Distribution
from schedlang.distributions.base import Decision
from schedlang.instructions.choices import plain_decision
from schedlang.instructions.instruction import Instruction
from schedlang.language.schedule import Schedule, Trace
from schedlang.spaces.mutation import revise
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload


@dataclass(frozen=True, order=True)
class Step:
    """Another decision at one site; of a choice, the number of another option."""

    site: str
    decision: Decision


Move = tuple[Step, ...]
"""Steps at different sites, taken together; the empty move is the trace itself."""


def origin(space: Space, workload: Workload) -> Schedule:
    """Make the program with every draw and choice at its origin; InstructionError if it fails."""
    return revise(Trace((), workload), {}, None, space=space)


def steps_from(trace: Trace) -> list[Step]:
    """List all steps of a trace in program order, as ``Distribution.neighbours`` orders them."""
    return [
        Step(instruction.site, decision)
        for instruction, distribution in _coordinates(trace)
        for decision in distribution.neighbours(instruction.decision)
    ]


def decision_at(trace: Trace, site: str) -> Decision | None:
    """Return what a trace decided, or chose, at a site; ``None`` if it lacks the site."""
    for instruction, _ in _coordinates(trace):
        if instruction.site == site:
            decision: Decision = instruction.decision
            return decision
    return None


def steps_onward(trace: Trace, site: str, before: Decision, here: Decision) -> list[Step]:
    """List the steps from ``here`` that go on in the direction from ``before`` to it.

    All numbers of a decision must go on changing in the same direction. Empty if the trace lacks
    the site, or if its distribution there does not permit ``here``.
    """
    for instruction, distribution in _coordinates(trace):
        if instruction.site == site and distribution.permits(here):
            direction = _direction(before, here)
            near = distribution.neighbours(here)
            return [Step(site, d) for d in near if _direction(here, d) == direction]
    return []


def take(space: Space, trace: Trace, move: Move) -> Schedule:
    """Make the program that ``move`` leads to.

    The recorded instructions are replayed. If the move changes a choice, the space's program runs
    again. Later draws whose distributions changed take the nearest decisions. Raises
    ``InvalidTrace`` or ``InstructionError`` if an instruction does not apply.
    """
    wanted = {step.site: step.decision for step in move}
    chooses = any(site in wanted for site in trace.choices)
    return revise(trace, wanted, None, space=space if chooses else None)


def dump_move(move: Move) -> list[list[Any]]:
    """Write a move as JSON values."""
    return [[step.site, step.decision] for step in move]


def load_move(stored: Iterable[Any]) -> Move:
    """Read a move that ``dump_move`` wrote."""
    return tuple(Step(str(site), plain_decision(decision)) for site, decision in stored)


def _coordinates(trace: Trace) -> list[tuple[Instruction, Distribution]]:
    return [(i, i.distribution) for i in trace.instructions if i.distribution is not None]


def _direction(start: Decision, end: Decision) -> list[int]:
    starts = start if isinstance(start, tuple) else (start,)
    ends = end if isinstance(end, tuple) else (end,)
    if len(starts) != len(ends):
        return []
    return [(b > a) - (b < a) for a, b in zip(starts, ends, strict=True)]
