"""``Schedule`` and ``Trace``: a program being transformed, and what was done to it.

Each gives the other: ``schedule.trace`` is what was recorded, ``trace.replay()`` a schedule.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from schedlang.distributions import Distribution
from schedlang.errors import ConstraintError, InvalidTrace, PartialTraceWarning, SpaceError
from schedlang.instructions.choices import (
    MAX_REDRAWS,
    Decider,
    Draw,
    Refuse,
    Restriction,
    claim_site,
    name_of_site,
)
from schedlang.instructions.handles import ProgramState
from schedlang.instructions.instruction import Line
from schedlang.interpreters import replay as lines, stored_trace as reader
from schedlang.interpreters.conversions import flatten, to_tvm
from schedlang.interpreters.python import as_python, as_tvm_python, diff_lines, print_lines
from schedlang.interpreters.replay import Change, Decide, Misfit, Replayed
from schedlang.language.primitives import (
    BufferPrimitives,
    CachePrimitives,
    LayoutPrimitives,
    LookupPrimitives,
    LoopPrimitives,
    PlacementPrimitives,
    ReductionPrimitives,
    TensorPrimitives,
)
from schedlang.language.recorder import Recorder
from schedlang.language.sampling import ChoicePrimitives, SamplingPrimitives
from schedlang.printed import html_method, show_text
from schedlang.tvm import schedule as tvm_schedule
from schedlang.tvm.program import structural_key
from schedlang.tvm.schedule.last_tiles import with_overlapping_tiles
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

_REFUSE = Refuse()
_GUARDED = 0x9E3779B97F4A7C15


class Schedule(
    LookupPrimitives,
    LoopPrimitives,
    CachePrimitives,
    PlacementPrimitives,
    ReductionPrimitives,
    BufferPrimitives,
    LayoutPrimitives,
    TensorPrimitives,
    SamplingPrimitives,
    ChoicePrimitives,
    Recorder,
):
    """A program, the instructions that transform it, and the trace of those applied so far.

    Parameters
    ----------
    workload: a ``Workload``, or what ``workloads.as_workload`` takes (PrimFunc, IRModule, ...).
    seed: of the draws; None draws differently each time.
    decider: who decides at draws and choices; by default they are drawn from the prior.
    restriction: of what draws and choices may take; by default there is none.

    Only instructions are recorded; host control flow is free (MetaSchedule, Figure 6).

    Attributes
    ----------
    changes: decisions of a replayed trace that did not fit, and their replacements.
    copies: number of copies that were made of it.
    """

    changes: tuple[Change, ...] = ()
    copies: int = 0

    def __init__(
        self,
        workload: Workload | Any,
        *,
        seed: int | None = None,
        decider: Decider | None = None,
        restriction: Restriction | None = None,
    ) -> None:
        workload = as_workload(workload)
        super().__init__(
            tvm_schedule.new_schedule(workload.mod, detail=True),
            decider=decider or Draw(random.Random(seed)),
            workload=workload,
            restriction=restriction,
        )

    @classmethod
    def inside(cls, state: ProgramState, *, recording: bool) -> Schedule:
        """Make the schedule that a macro works on: same program, own handles."""
        inner = cls.__new__(cls)
        Recorder.__init__(inner, state.raw, decider=_REFUSE, workload=None, recording=recording)
        inner.held, inner.notes = state.held, state.notes
        return inner

    @classmethod
    def resume(cls, replayed: Replayed) -> Schedule:
        """Make a schedule in the state that a replay left."""
        sch = cls.__new__(cls)
        state = replayed.state
        Recorder.__init__(sch, state.raw, decider=Draw(), workload=replayed.workload)
        sch.values, sch.handles = state.values, state.handles
        sch.notes = state.notes
        sch.changes = replayed.changes
        sch._instructions = list(replayed.line)
        for instruction in replayed.line:
            if instruction.site:
                claim_site(sch._sites, name_of_site(sch._sites, instruction.site))
        return sch

    @property
    def trace(self) -> Trace:
        """The trace recorded so far."""
        return Trace(tuple(self._instructions), self._workload)

    @property
    def program_key(self) -> str:
        """Structural key of the program as it is now: 16 hex digits.

        Of a program whose tiles overlap it is the key of that with guards.
        """
        mod = self.guarded_mod
        key = structural_key(mod)
        if (
            self.notes.overlaps
            or not self._instructions
            or with_overlapping_tiles(mod).same_as(mod)
        ):
            return key
        return f"{int(key, 16) ^ _GUARDED:016x}"  # not that of the program whose tiles overlap

    def show(self) -> None:
        """Print the program as TVMScript."""
        print(self.mod.script())

    def copy(self) -> Schedule:
        """Return an independent schedule in the same state; the same handles work on it."""
        self.copies += 1
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.values = list(self.values)
        other.handles = list(self.handles)
        other.held = tvm_schedule.HeldProgram()
        other._instructions = list(self._instructions)
        other._sites = dict(self._sites)
        other._modules = list(self._modules)
        copied = tvm_schedule.copy_schedule(self.raw)
        if copied is None:
            other._restore()
        else:
            other.raw = copied
            other.held.hold(tvm_schedule.get_module(copied))
        return other


@dataclass(frozen=True, eq=False)
class Trace:
    """A frozen straight line of instructions with the decisions that were drawn.

    Edits return new traces; traces are equal by content. Which module recorded an instruction is
    kept and stored, but is no part of the content: a trace and what its printed program rebuilds
    are equal.

    Attributes
    ----------
    instructions: the steps; handles are numbered in the order in which they are defined.
    workload: what it was recorded on, not part of the content; a stored trace may have ``None``.
    """

    instructions: Line
    workload: Workload | None = field(default=None, repr=False)

    # -- reading ---------------------------------------------------------------------------------

    @property
    def decisions(self) -> dict[str, Any]:
        """The drawn decisions by site, in program order."""
        return lines.decisions(self.instructions)

    @property
    def distributions(self) -> dict[str, Distribution]:
        """The distribution of each site when the trace was recorded or replayed."""
        drawn = lines.draws(self.instructions)
        return {i.site: i.distribution for i in drawn if i.distribution is not None}

    @property
    def choices(self) -> dict[str, Any]:
        """The options that the host program took, by choice point: the trace's sketch."""
        return lines.choices(self.instructions)

    def log_prob(self) -> float:
        """Return log P(tau) of all draws and choices, with the recorded distributions.

        It is eq. 1 of MetaSchedule. After ``with_decisions``, replay first if later draws depend on
        the changed ones; ``schedlang.assess`` does both.
        """
        return lines.log_prob(self.instructions)

    def __len__(self) -> int:
        return len(self.instructions)

    _repr_pretty_ = show_text
    _repr_html_ = html_method("trace")

    def __str__(self) -> str:
        return "\n".join(print_lines(self.instructions))

    @cached_property
    def _content(self) -> str:
        return reader.dump(self.instructions, provenance=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return self.instructions == other.instructions or self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    # -- editing ---------------------------------------------------------------------------------

    def with_decisions(self, decisions: Mapping[str, Any]) -> Trace:
        """Return a trace with other decisions at the given sites; replay checks whether they fit.

        SpaceError for an unknown site, or a choice point: another choice is another program, so run
        the space again with ``choices=``.
        """
        return Trace(lines.with_decisions(self.instructions, decisions), self.workload)

    def simplified(self) -> Trace:
        """Leave out pure instructions whose results nothing uses (dead-code elimination)."""
        return Trace(lines.simplified(self.instructions), self.workload)

    def without(self, *which: str | int) -> Trace:
        """Leave out the instructions of these kinds, or at these positions.

        SpaceError when a later instruction uses what one of them defined.
        """
        return Trace(lines.without(self.instructions, which), self.workload)

    def diff(self, other: Trace) -> str:
        """Describe what differs: changed decisions by site, then a unified diff of instructions."""
        return diff_lines(self.instructions, other.instructions)

    # -- applying --------------------------------------------------------------------------------

    def replay(
        self,
        workload: Workload | Any = None,
        *,
        misfit: Misfit = "reject",
        seed: int | None = None,
    ) -> Schedule:
        """Apply its instructions with its decisions.

        Parameters
        ----------
        workload: the workload to apply it to; by default the one it was recorded on.
        misfit: what to do with a decision outside its distribution's support: ``"reject"`` raises
            ``InvalidTrace``, ``"resample"`` draws another one with ``seed``, ``"repair"`` takes the
            nearest one.

        Returns the schedule; its trace holds the decisions and distributions as used, and its
        ``changes`` say which decisions are not the recorded ones. Raises ``InvalidTrace`` when an
        instruction does not apply.
        """
        workload = self.workload_or(workload)
        return Schedule.resume(lines.replay(self.instructions, workload, misfit, seed))

    def rerun(self, decide: Decide, workload: Workload | Any = None) -> Schedule:
        """Apply its instructions; ``decide(instruction, distribution)`` answers each draw.

        InvalidTrace when an instruction does not apply.
        """
        return Schedule.resume(lines.rerun(self.instructions, self.workload_or(workload), decide))

    def workload_or(self, given: Workload | Any = None) -> Workload:
        """Return ``given``, or the workload it was recorded on; SpaceError without either."""
        if given is None:
            given = self.workload
        if given is None:
            raise SpaceError("this trace has no workload: give one")
        return as_workload(given)

    # -- other forms -----------------------------------------------------------------------------

    def flattened(self, workload: Workload | Any = None) -> Trace:
        """Replace every instruction written in Python by the primitives that it ran.

        InvalidTrace when the trace does not replay on the workload.
        """
        workload = self.workload_or(workload)
        return Trace(flatten(self.instructions, workload), workload)

    def to_json(self) -> str:
        """Write one line of JSON with a schema version; ``from_json`` reads it back exactly."""
        return reader.dump(self.instructions)

    @staticmethod
    def from_json(text: str | bytes, workload: Workload | None = None) -> Trace:
        """Read a stored trace. Runs no code; TraceFormatError names the place of what is wrong."""
        return Trace(reader.load(text), workload)

    def __reduce__(self) -> tuple[Any, ...]:
        # The kinds of instructions hold functions, which pickle and copy cannot take.
        return Trace.from_json, (self.to_json(), self.workload)

    def as_python(self, workload: Workload | Any = None) -> str:
        """Write a Python program that rebuilds the scheduled program as ``sch``."""
        return as_python(self.instructions, self.workload_or(workload))

    def as_tvm_python(self, workload: Workload | Any = None) -> str:
        """Write a program that needs TVM alone: there ``sch`` is a TVM schedule.

        Where TVM has no counterpart of an instruction, it holds the scheduled program itself, and
        the instructions as comments.
        """
        return as_tvm_python(self.instructions, self.workload_or(workload))

    def to_tvm_trace(self, workload: Workload | Any = None, *, strict: bool = False) -> Any:
        """Return a TVM ``Trace`` of the same program, with the decisions that TVM can express.

        Instructions that TVM's traces cannot hold, such as ``replace_math_calls``, are left out,
        together with those that do not apply without them. The program then computes the same and
        is slower; a ``PartialTraceWarning`` names them. With ``strict`` it is a ``SpaceError``.
        """
        form = to_tvm(self.instructions, self.workload_or(workload))
        if form.left_out:
            message = f"TVM's traces cannot hold all of this trace: {form.omissions}"
            if strict:
                raise SpaceError(f"{message}; leave out the modules that use them")
            warnings.warn(message, PartialTraceWarning, stacklevel=2)
        return form.trace


# -- Replaying a trace, drawing it anew, and its probability on a workload ------------------------


def replay(
    trace: Trace,
    workload: Workload | Any = None,
    *,
    misfit: Misfit = "reject",
    seed: int | None = None,
) -> Schedule:
    """Apply a trace's instructions with its decisions: see ``Trace.replay``."""
    return trace.replay(workload, misfit=misfit, seed=seed)


def resample(trace: Trace, workload: Workload | Any = None, *, seed: int | None = None) -> Schedule:
    """Draw another member of the trace's sketch: the same instructions with fresh decisions.

    Where they violate a constraint, others are drawn; ``ConstraintError`` after 256 such draws.
    """
    rng = random.Random(seed)
    for draws in range(1, MAX_REDRAWS + 1):
        try:
            return trace.rerun(lambda _, distribution: distribution.sample(rng), workload)
        except ConstraintError as error:
            error.draws = draws
            violated = error
    raise violated


def assess(trace: Trace, workload: Workload | Any = None) -> float:
    """Return log P(tau) with the distributions found on the workload; -inf if it does not replay.

    ``Trace.log_prob`` is cheaper: it uses the recorded distributions.
    """
    try:
        return trace.replay(workload).trace.log_prob()
    except InvalidTrace:
        return -math.inf
