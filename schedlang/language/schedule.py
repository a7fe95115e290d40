"""``Schedule``: a program being transformed, and the recording interpreter of the language."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from schedlang.distributions import Distribution
from schedlang.errors import (
    DistributionError,
    InstructionError,
    SchedlangError,
    SpaceError,
    WorkloadError,
)
from schedlang.expressions import IntRV
from schedlang.instructions.choices import Decider, Draw, Refuse, option_label, plain_decision
from schedlang.instructions.handles import BlockRV, LoopRV, make_handle
from schedlang.instructions.instruction import Instruction, InstructionKind, Result, describe
from schedlang.instructions.kinds import Choice, Macro, Primitive, Sampling, handles_returned
from schedlang.instructions.sites import claim_site, free_site, name_of_site
from schedlang.instructions.state import BadArgument, ProgramState
from schedlang.instructions.user_code import user_location
from schedlang.language.primitives.buffers import BufferPrimitives
from schedlang.language.primitives.caches import CachePrimitives
from schedlang.language.primitives.layouts import LayoutPrimitives
from schedlang.language.primitives.lookup import LookupPrimitives
from schedlang.language.primitives.loops import LoopPrimitives
from schedlang.language.primitives.placement import PlacementPrimitives
from schedlang.language.primitives.reductions import ReductionPrimitives
from schedlang.language.primitives.sampling import ChoicePrimitives, SamplingPrimitives
from schedlang.language.primitives.tensors import TensorPrimitives
from schedlang.language.trace import Trace
from schedlang.tvm import analysis, errors
from schedlang.tvm import schedule as tvm_schedule
from schedlang.tvm.schedule.primitives import Location
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from tvm.ir import IRModule

    from schedlang.interpreters.replay import Change

MAX_CHOICES = 1_000
MAX_INSTRUCTIONS = 100_000
_REFUSE = Refuse()


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
    ProgramState,
):
    """A program, the instructions that transform it, and the trace of those applied so far.

    Parameters
    ----------
    workload: a ``Workload``, or what ``workloads.as_workload`` takes (PrimFunc, IRModule, ...).
    seed: of the draws; None draws differently each time.
    decider: who decides at draws and choices; by default they are drawn from the prior.

    Only instructions are recorded; host control flow is free (MetaSchedule, Figure 6).
    """

    def __init__(
        self, workload: Workload | Any, *, seed: int | None = None, decider: Decider | None = None
    ) -> None:
        self._workload: Workload | None = as_workload(workload)
        self._decider = decider or Draw(random.Random(seed))
        self._begin(tvm_schedule.new_schedule(self._workload.mod, detail=True))

    def _begin(self, raw: Any) -> None:
        super().__init__(raw)
        self._instructions: list[Instruction] = []
        self._sites: dict[str, int] = {}
        self._choices = 0
        self._recording = True
        self._modules: list[str] = []
        self.changes: tuple[Change, ...] = ()

    @classmethod
    def inside(cls, raw: Any, *, recording: bool) -> Schedule:
        """The schedule that an instruction written in Python works on: same program, own
        handles.
        """
        inner = cls.__new__(cls)
        inner._workload = None
        inner._decider = _REFUSE
        inner._begin(raw)
        inner._recording = recording
        return inner

    @classmethod
    def resume(
        cls, workload: Workload, raw: Any, values: list[Any], instructions: Sequence[Instruction]
    ) -> Schedule:
        """A schedule in the state that replaying ``instructions`` on ``raw`` left."""
        sch = cls.__new__(cls)
        sch._workload = workload
        sch._decider = Draw()
        sch._begin(raw)
        sch.values = values
        sch._instructions = list(instructions)
        sch.handles = [h for instruction in instructions for h in instruction.outputs]
        for instruction in instructions:
            if instruction.site:
                claim_site(sch._sites, name_of_site(sch._sites, instruction.site))
        return sch

    # -- what it holds ---------------------------------------------------------------------------

    @property
    def workload(self) -> Workload:
        """The program before scheduling."""
        if self._workload is None:
            raise SpaceError(
                "inside an instruction there is no workload: only the program, sch.mod"
            )
        return self._workload

    @property
    def mod(self) -> IRModule:
        """The program as it is now."""
        return tvm_schedule.get_module(self.raw)

    @property
    def trace(self) -> Trace:
        """What was recorded so far."""
        return Trace(tuple(self._instructions), self._workload)

    def show(self) -> None:
        """Print the program as TVMScript."""
        print(self.mod.script())

    def copy(self) -> Schedule:
        """An independent schedule in the same state; the same handles work on it."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.raw = tvm_schedule.copy_schedule(self.raw)
        other.values = list(self.values)
        other.handles = list(self.handles)
        other._instructions = list(self._instructions)
        other._sites = dict(self._sites)
        other._modules = list(self._modules)
        return other

    # -- recording -------------------------------------------------------------------------------

    def run(self, kind: InstructionKind, *args: Any) -> Any:
        """Apply and record an instruction of ``kind``; arguments in the order of its parameters."""
        content = self._accept(kind, args)
        if isinstance(kind, Macro):
            if self._workload is None:  # inside another one: it is simply part of that one's body
                return kind.call(self, content)
            try:
                inner, _, returned = kind.expand(self.raw, content, self.values)
            except Exception:
                self._restore()  # what it did before it failed is in no trace
                raise
            handles = handles_returned(returned)
            prefixes = "".join(h.prefix for h in handles)
            single = bool(handles) and not isinstance(returned, list)
            result = Result([inner.raw_value(h) for h in handles], prefixes, single)
            recorded = self._record(kind, content, result)
            return None if returned is None else recorded
        if not isinstance(kind, Primitive):
            raise SpaceError(f"{kind.name} cannot be applied directly: use its method")
        try:
            values = kind.run(self.raw, content, self.values)
        except Exception as error:
            refused = self._refused(kind, content, error)
            if self._workload is not None and not isinstance(error, tvm_schedule.ScheduleError):
                self._restore()  # TVM checks first, but its own faults come halfway
            raise refused from None
        result = Result(values, kind.prefix * len(values), kind.single)
        return self._record(kind, content, result)

    def draw(self, kind: Sampling, args: Sequence[Any], site: str | None, decision: Any) -> Any:
        """Draw and record; a given ``decision`` is used instead of drawing, if it is permitted."""
        content = self._accept(kind, args)
        try:
            distribution = kind.distribution(self.raw, content, self.values)
        except (DistributionError, ValueError) as error:
            raise self._refused(kind, content, error) from None
        if site is not None and not isinstance(site, str):
            raise self._refused(kind, content, ValueError(f"name is a string, not {site!r}"))
        unique = free_site(self._sites, site or kind.name)
        if decision is None or self._workload is None:
            decision = self._decider.decide(unique, distribution)
        decision = plain_decision(decision)
        if not distribution.permits(decision):
            raise self._refused(
                kind,
                content,
                ValueError(
                    f"decision {decision} of {unique!r} is not in the support of {distribution}"
                ),
            )
        result = kind.result(self.raw, content, self.values, distribution, decision)
        claim_site(self._sites, site or kind.name)
        return self._record(kind, content, result, unique, decision, distribution)

    def fork(self, kind: Choice, name: str, options: Any, probs: Any, decision: int | None) -> Any:
        """Choose and record; the option of number ``decision`` is taken instead, if given."""
        shown = {"name": describe(name), "options": describe(options)}
        if not isinstance(name, str):
            raise self._unreadable(kind, f"argument 'name' takes a string, not {name!r}", shown)
        if isinstance(options, str) or not isinstance(options, Sequence):
            raise self._unreadable(kind, f"argument 'options' takes a list, not {options!r}", shown)
        labels = [option_label(option) for option in options]
        stored = [o if isinstance(o, (bool, int, str, float)) else option_label(o) for o in options]
        content = self._accept(kind, (stored, None if probs is None else list(probs)))
        try:
            distribution = kind.distribution(labels, probs)
        except DistributionError as error:
            raise self._refused(kind, content, error) from None
        self._choices += 1
        if self._choices > MAX_CHOICES:
            raise SpaceError(
                f"more than {MAX_CHOICES} choices in one trace, the last {name!r} in module "
                f"{self._module() or '(none)'}: a loop of choices that does not end?"
            )
        site = free_site(self._sites, name)
        if decision is None or self._workload is None:
            decision = self._decider.choose(site, distribution, labels)
        decision = plain_decision(decision)
        if not distribution.permits(decision):
            known = decision in range(len(options))
            why = "has probability 0" if known else f"is not in 0..{len(options) - 1}"
            raise self._refused(kind, content, ValueError(f"option {decision} of {site!r} {why}"))
        claim_site(self._sites, name)
        self._record(kind, content, Result([], "", False), site, decision, distribution)
        return options[decision]

    def _accept(self, kind: InstructionKind, args: Sequence[Any]) -> tuple[Any, ...]:
        named: dict[str, Any] = {}
        for parameter, value in zip(kind.parameters, args, strict=True):
            try:
                named[parameter.name] = parameter.argument.accept(self, value, named)
            except BadArgument as error:
                shown = {p.name: describe(a) for p, a in zip(kind.parameters, args, strict=True)}
                between = " " if str(error).startswith(("takes", "cannot")) else ": "
                why = f"argument {parameter.name!r}{between}{error}"
                raise self._unreadable(kind, why, shown) from None
        return tuple(named.values())

    @staticmethod
    def _unreadable(
        kind: InstructionKind, why: str, shown: dict[str, str] | None = None
    ) -> InstructionError:
        return InstructionError(kind.name, why, arguments=shown, location=user_location())

    def _record(
        self,
        kind: InstructionKind,
        args: tuple[Any, ...],
        result: Result,
        site: str = "",
        decision: Any = None,
        distribution: Distribution | None = None,
    ) -> Any:
        first = len(self.values)
        if len(self._instructions) >= MAX_INSTRUCTIONS:
            raise SpaceError(
                f"more than {MAX_INSTRUCTIONS} instructions: a loop that does not end?"
            )
        handles: list[Any] = [
            make_handle(prefix, first + k, value if prefix == "v" else 0)
            for k, (prefix, value) in enumerate(zip(result.prefixes, result.values, strict=True))
        ]
        self.values += result.values
        self.handles += handles
        if self._recording:
            self._instructions.append(
                Instruction(
                    kind,
                    args,
                    tuple(handles),
                    result.single,
                    site,
                    decision,
                    distribution,
                    self._module(),
                )
            )
        return handles[0] if result.single else handles

    def _refused(
        self, kind: InstructionKind, args: tuple[Any, ...], error: Exception
    ) -> SchedlangError:
        if isinstance(error, SchedlangError) and not isinstance(
            error, (DistributionError, WorkloadError)
        ):
            return error
        shown = {p.name: self._shown(a) for p, a in zip(kind.parameters, args, strict=True)}
        return InstructionError(
            kind.name,
            errors.reason_of(error),
            arguments=shown,
            location=user_location(),
            program=errors.program_of(error),
            module=self._module(),
        )

    def _shown(self, arg: Any) -> str:
        if isinstance(arg, tuple):
            return "[" + ", ".join(self._shown(a) for a in arg) + "]"
        if isinstance(arg, (BlockRV, LoopRV)):
            value = self.raw_value(arg)
            try:
                if isinstance(value, Location):
                    return f"{arg!r} ({'inlined' if value.position == analysis.INLINE else 'root'})"
                stmt = tvm_schedule.get_statement(self.raw, value)
            except Exception:  # the handle may be dead: its name must do
                return repr(arg)
            if isinstance(arg, BlockRV):
                return f"{arg!r} ({stmt.name_hint})"
            return f"{arg!r} ({stmt.loop_var.name} in {stmt.extent})"
        if isinstance(arg, IntRV):
            return f"{arg}={self.raw_value(arg)}"
        return describe(arg)

    # -- modules ---------------------------------------------------------------------------------

    def _module(self) -> str:
        return "/".join(self._modules)

    @contextmanager
    def within(self, module: str) -> Iterator[None]:
        """Instructions recorded inside belong to ``module``."""
        self._modules.append(module)
        try:
            yield
        finally:
            self._modules.pop()

    def mark(self) -> tuple[int, dict[str, int], int]:
        """The present state, for ``rollback``."""
        return len(self._instructions), dict(self._sites), self._choices

    def rollback(self, mark: tuple[int, dict[str, int], int]) -> None:
        """Undo everything recorded since ``mark``; handles from before stay valid."""
        count, self._sites, choices = mark
        self._decider.undone(self._choices - choices)
        self._choices = choices
        undone = self._instructions[count:]
        del self._instructions[count:]
        kept = sum(len(i.outputs) for i in self._instructions)
        del self.handles[kept:]
        if all(i.kind.pure for i in undone):
            del self.values[kept:]
            return
        self._restore()

    def _restore(self) -> None:
        """Make the program again from what is recorded."""
        from schedlang.interpreters.replay import reapply

        self.raw = tvm_schedule.new_schedule(self.workload.mod, detail=True)
        self.values = reapply(self.raw, self._instructions)
