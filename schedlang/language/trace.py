"""``Trace``: a frozen straight line of instructions with the decisions that were drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schedlang.distributions import Distribution
from schedlang.errors import SpaceError
from schedlang.formats import reader as trace_reading
from schedlang.formats import writer as trace_format
from schedlang.instructions.choices import plain_decision
from schedlang.instructions.handles import Handle, handle_name, numbered
from schedlang.instructions.instruction import Instruction, map_handles
from schedlang.instructions.kinds import Choice
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.interpreters.replay import Misfit
    from schedlang.language.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Trace:
    """Instructions in order; edits return new traces; equal by content.

    Which module recorded an instruction is kept and stored, but is no part of the content: a trace
    and what its printed program rebuilds are equal.

    Attributes
    ----------
    instructions: the steps; handles are numbered in the order in which they are defined.
    workload: what it was recorded on; not part of the content, may be None for a stored trace.
    """

    instructions: tuple[Instruction, ...]
    workload: Workload | None = field(default=None, repr=False)

    # -- reading ---------------------------------------------------------------------------------

    @property
    def decisions(self) -> dict[str, Any]:
        """What was drawn, by site, in program order."""
        return {i.site: i.decision for i in self._draws()}

    @property
    def distributions(self) -> dict[str, Distribution]:
        """What it was drawn from, by site: as found when the trace was recorded or replayed."""
        return {i.site: i.distribution for i in self._draws() if i.distribution is not None}

    @property
    def choices(self) -> dict[str, Any]:
        """The options that the host program took, by choice point: the trace's sketch."""
        return {i.site: i.args[0][i.decision] for i in self._choices()}

    def log_prob(self) -> float:
        """log P(tau) of MetaSchedule's eq. 1: of all draws and choices, with the recorded
        distributions.

        After ``with_decisions`` replay first where later draws depend on the changed ones
        (``schedlang.interpreters.replay.assess`` does both).
        """
        total = 0.0
        for instruction in self.instructions:
            if instruction.distribution is not None:
                total += instruction.distribution.log_prob(instruction.decision)
        return total

    def _draws(self) -> Iterator[Instruction]:
        return (i for i in self.instructions if i.site and not isinstance(i.kind, Choice))

    def _choices(self) -> Iterator[Instruction]:
        return (i for i in self.instructions if isinstance(i.kind, Choice))

    def __len__(self) -> int:
        return len(self.instructions)

    def __str__(self) -> str:
        from schedlang.formats.python import print_lines

        return "\n".join(print_lines(self))

    @cached_property
    def _content(self) -> str:
        return trace_format.dump(self.instructions, provenance=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return self.instructions == other.instructions or self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    # -- editing ---------------------------------------------------------------------------------

    def with_decisions(self, decisions: Mapping[str, Any]) -> Trace:
        """A trace with other decisions at the given sites; whether they fit shows at replay.

        SpaceError for an unknown site, or a choice point: another choice is another program, so run
        the space again with ``choices=``.
        """
        wanted = dict(decisions)
        edited: list[Instruction] = []
        for instruction in self.instructions:
            if instruction.site in wanted and instruction.site:
                if isinstance(instruction.kind, Choice):
                    raise SpaceError(
                        f"{instruction.site!r} is a choice point, not a draw: run the space again "
                        f"with choices={{{instruction.site!r}: ...}}"
                    )
                instruction = replace(
                    instruction, decision=plain_decision(wanted.pop(instruction.site))
                )
            edited.append(instruction)
        if wanted:
            raise SpaceError(
                f"no site {', '.join(map(repr, wanted))} in this trace; it has "
                f"{', '.join(map(repr, self.decisions)) or 'none'}"
            )
        return Trace(tuple(edited), self.workload)

    def simplified(self) -> Trace:
        """Without pure instructions whose results nothing uses (dead-code elimination)."""
        used: set[int] = set()
        kept: list[Instruction] = []
        for instruction in reversed(self.instructions):
            dead = instruction.kind.pure and not isinstance(instruction.kind, Choice)
            if dead and not any(h.index in used for h in instruction.outputs):
                continue
            used.update(h.index for h in instruction.inputs())
            kept.append(instruction)
        return Trace(renumbered(reversed(kept)), self.workload)

    def without(self, *which: str | int) -> Trace:
        """Without the instructions of these kinds, or at these positions.

        SpaceError when a later instruction uses what one of them defined.
        """
        known = {i.kind.name for i in self.instructions}
        for item in which:
            if isinstance(item, str) and item not in known:
                raise SpaceError(f"no instruction {item!r} in this trace")
            if isinstance(item, int) and not 0 <= item < len(self.instructions):
                raise SpaceError(
                    f"no instruction number {item}: there are {len(self.instructions)}"
                )
        kept: list[Instruction] = []
        gone: dict[int, str] = {}
        for position, instruction in enumerate(self.instructions):
            if position in which or instruction.kind.name in which:
                gone.update({h.index: handle_name(h) for h in instruction.outputs})
                continue
            for handle in instruction.inputs():
                if handle.index in gone:
                    raise SpaceError(
                        f"{instruction} uses {gone[handle.index]}, which would be gone"
                    )
            kept.append(instruction)
        return Trace(renumbered(kept), self.workload)

    def diff(self, other: Trace) -> str:
        """What differs, readable: changed decisions by site, then instructions as a unified
        diff.
        """
        from schedlang.formats.python import diff_traces

        return diff_traces(self, other)

    # -- other forms -----------------------------------------------------------------------------

    def replay(
        self,
        workload: Workload | Any = None,
        *,
        misfit: Misfit = "reject",
        seed: int | None = None,
    ) -> Schedule:
        """Apply it: see ``schedlang.interpreters.replay.replay``."""
        from schedlang.interpreters.replay import replay as replay_trace

        return replay_trace(self, workload, misfit=misfit, seed=seed)

    def flattened(self, workload: Workload | Any = None) -> Trace:
        """With every instruction written in Python replaced by the primitives it ran."""
        from schedlang.interpreters.flatten import flatten

        return flatten(self, workload)

    def to_json(self) -> str:
        """One line of JSON with a schema version; ``from_json`` reads it back exactly."""
        return trace_format.dump(self.instructions)

    @staticmethod
    def from_json(text: str | bytes, workload: Workload | None = None) -> Trace:
        """Read a stored trace. Runs no code; TraceFormatError names the place of what is wrong."""
        return Trace(trace_reading.load(text), workload)

    def as_python(self, workload: Workload | Any = None) -> str:
        """A Python program that runs by itself and rebuilds the scheduled program as ``sch``."""
        from schedlang.formats.python import as_python

        return as_python(self, workload)

    def as_tvm_python(self, workload: Workload | Any = None) -> str:
        """The same with TVM alone: ``sch`` is then a TVM schedule, ``sch.mod`` the program."""
        from schedlang.formats.tvm_python import as_tvm_python

        return as_tvm_python(self, workload)

    def to_tvm_trace(self, workload: Workload | Any = None) -> Any:
        """A TVM ``Trace`` that rebuilds the same program, with the decisions TVM can express."""
        from schedlang.interpreters.flatten import to_tvm_trace

        return to_tvm_trace(self, workload)


def renumbered(instructions: Any) -> tuple[Instruction, ...]:
    """The instructions with their handles numbered densely in order of definition."""
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
