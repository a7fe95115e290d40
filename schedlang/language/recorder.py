"""The recording interpreter: it applies an instruction, and notes it as the trace's next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from schedlang.distributions import Distribution
from schedlang.distributions.categorical import INLINE
from schedlang.errors import (
    ConstraintError,
    DistributionError,
    InstructionError,
    SchedlangError,
    SpaceError,
    WorkloadError,
)
from schedlang.expressions import Comparison, IntRV, as_plain, random_variables
from schedlang.instructions.choices import (
    Decider,
    Draw,
    Restriction,
    claim_site,
    free_site,
    option_label,
    plain_decision,
)
from schedlang.instructions.handles import BadArgument, BlockRV, LoopRV, ProgramState, describe
from schedlang.instructions.instruction import Instruction, InstructionKind, Result, user_location
from schedlang.instructions.kinds import Choice, Constraint, Macro, Primitive, Sampling
from schedlang.interpreters.replay import Interpreter, apply_to
from schedlang.tvm import errors, schedule as tvm_schedule
from schedlang.tvm.schedule.primitives import Location
from schedlang.workloads.workload import Workload

MAX_CHOICES = 1_000
MAX_INSTRUCTIONS = 100_000

Mark = tuple[int, dict[str, int], int]
"""Numbers of instructions and choices, and the sites taken, at one moment."""

START: Mark = (0, {}, 0)


class Recorder(ProgramState):
    """A program that records the instructions applied to it.

    Parameters
    ----------
    raw: TVM's schedule.
    decider: who decides at draws and choices.
    workload: the program before scheduling; None inside a macro.
    recording: whether to keep the instructions.
    restriction: of what draws and choices may take; by default there is none.
    """

    def __init__(
        self,
        raw: Any,
        *,
        decider: Decider,
        workload: Workload | None,
        recording: bool = True,
        restriction: Restriction | None = None,
    ) -> None:
        super().__init__(raw)
        self._decider = decider
        self._restriction = Restriction() if restriction is None else restriction
        self._workload = workload
        self._recording = recording
        self._instructions: list[Instruction] = []
        self._sites: dict[str, int] = {}
        self._choices = 0
        self._modules: list[str] = []

    @property
    def workload(self) -> Workload:
        """The program before scheduling."""
        if self._workload is None:
            raise SpaceError(
                "inside an instruction there is no workload: only the program, sch.mod"
            )
        return self._workload

    # -- instructions ----------------------------------------------------------------------------

    def run(self, kind: InstructionKind, *args: Any) -> Any:
        """Apply and record an instruction of ``kind``; arguments in the order of its parameters."""
        content = self._accept(kind, args)
        if isinstance(kind, Macro):
            return self._run_macro(kind, content)
        if not isinstance(kind, Primitive):
            raise SpaceError(f"{kind.name} cannot be applied directly: use its method")
        try:
            values = kind.run(self, content)
        except Exception as error:
            refusal = self._refused(kind, content, error)
            if not (
                kind.pure or self._workload is None or isinstance(error, tvm_schedule.ScheduleError)
            ):
                self._restore()  # TVM checks first, but its own faults come halfway
            raise refusal from None
        return self._record(kind, content, Result(values, kind.prefix * len(values), kind.single))

    def _run_macro(self, kind: Macro, content: tuple[Any, ...]) -> Any:
        if self._workload is None:  # called by another macro: part of that macro's body
            return kind.call(self, content)
        try:
            expansion = kind.expand(self, content)
        except Exception:
            self._restore()  # what it did before it failed is in no trace
            raise
        handles = expansion.handles
        values = [expansion.state.raw_value(handle) for handle in handles]
        single = bool(handles) and not isinstance(expansion.returned, list)
        result = Result(values, "".join(h.prefix for h in handles), single)
        recorded = self._record(kind, content, result)
        return None if expansion.returned is None else recorded

    def draw(self, kind: Sampling, args: Sequence[Any], site: str | None, decision: Any) -> Any:
        """Draw and record; a given ``decision`` is used instead of drawing, if it is permitted."""
        content = self._accept(kind, args)
        try:
            distribution = self._restriction.draw(kind.distribution(self, content))
        except (DistributionError, ValueError) as error:
            raise self._refused(kind, content, error) from None
        if site is not None and not isinstance(site, str):
            raise self._refused(kind, content, ValueError(f"name is a string, not {site!r}"))
        unique = free_site(self._sites, site or kind.name)
        if decision is None or self._workload is None:
            decision = self._decider.decide(unique, distribution)
        decision = plain_decision(decision)
        if not distribution.permits(decision):
            why = f"decision {decision} of {unique!r} is not in the support of {distribution}"
            raise self._refused(kind, content, ValueError(why))
        result = kind.result(self, content, distribution, decision)
        claim_site(self._sites, site or kind.name)
        return self._record(kind, content, result, unique, decision, distribution)

    def constrain(self, kind: Constraint, condition: Any, why: str) -> None:
        """State a constraint; ``ConstraintError``, with its sites, where it is violated."""
        try:
            self.run(kind, condition, why)
        except ConstraintError as error:
            error.module = error.module or self.module_path
            if isinstance(condition, Comparison) and condition.condition is not None:
                drawn = {handle.index: i.site for i in self._instructions for handle in i.outputs}
                found = random_variables(condition.condition)
                error.sites = frozenset(drawn.get(v.index, "") for v in found)
            raise

    def may_draw_again(self, error: ConstraintError, mark: Mark = START) -> bool:
        """Return whether draws made since ``mark``, made again, may satisfy a constraint."""
        made = {i.site for i in self._instructions[mark[0] :] if i.site}
        return (
            isinstance(self._decider, Draw)
            and bool(made & error.sites if error.sites else made)
            and self._decider.draws_again(error)
        )

    def fork(self, kind: Choice, name: str, options: Any, probs: Any, decision: int | None) -> Any:
        """Choose and record; the option of number ``decision`` is taken instead, if given."""
        shown = {"name": describe(name), "options": describe(options)}
        if not isinstance(name, str):
            raise unreadable(kind, f"argument 'name' takes a string, not {name!r}", shown)
        if isinstance(options, str) or not isinstance(options, Sequence):
            raise unreadable(kind, f"argument 'options' takes a list, not {options!r}", shown)
        labels = [option_label(option) for option in options]
        plain = [as_plain(option) for option in options]
        stored = [o if isinstance(o, (bool, int, str, float)) else option_label(o) for o in plain]
        content = self._accept(kind, (stored, None if probs is None else list(probs)))
        site = free_site(self._sites, name)
        try:
            distribution = self._restriction.choice(site, kind.distribution(labels, probs))
        except DistributionError as error:
            raise self._refused(kind, content, error) from None
        self._choices += 1
        if self._choices > MAX_CHOICES:
            raise SpaceError(
                f"more than {MAX_CHOICES} choices in one trace, the last {name!r} in module "
                f"{self.module_path or '(none)'}: is there an endless loop of choices?"
            )
        if decision is None or self._workload is None:
            decision = self._decider.choose(site, distribution, labels)
        decision = plain_decision(decision)
        if not distribution.permits(decision):
            known = decision in range(len(options))
            why = "has probability 0" if known else f"is not in 0..{len(options) - 1}"
            raise self._refused(kind, content, ValueError(f"option {decision} of {site!r} {why}"))
        claim_site(self._sites, name)
        self._restriction.chosen(site, decision)
        self._record(kind, content, Result([], "", False), site, decision, distribution)
        return options[decision]

    def _accept(self, kind: InstructionKind, args: Sequence[Any]) -> tuple[Any, ...]:
        named: dict[str, Any] = {}
        for parameter, value in zip(kind.parameters, args, strict=True):
            try:
                if parameter.variadic and not value and isinstance(kind, Primitive):
                    raise BadArgument("takes one loop or more, and there is none")
                named[parameter.name] = parameter.argument.accept(self, value, named)
            except BadArgument as error:
                raise bad_argument(kind, args, parameter.name, error) from error.__cause__
        return tuple(named.values())

    def _refused(self, kind: InstructionKind, args: tuple[Any, ...], error: Exception) -> Exception:
        return refused(self, kind, args, error, self.module_path)

    def _record(
        self,
        kind: InstructionKind,
        args: tuple[Any, ...],
        result: Result,
        site: str = "",
        decision: Any = None,
        distribution: Distribution | None = None,
    ) -> Any:
        if len(self._instructions) >= MAX_INSTRUCTIONS:
            raise SpaceError(
                f"more than {MAX_INSTRUCTIONS} instructions: is there an endless loop?"
            )
        handles = self.define(result.prefixes, result.values)
        if self._recording:
            outputs, module = tuple(handles), self.module_path
            self._instructions.append(
                Instruction(
                    kind, args, outputs, result.single, site, decision, distribution, module
                )
            )
        return handles[0] if result.single else handles

    # -- modules ---------------------------------------------------------------------------------

    @property
    def module_path(self) -> str:
        """Names of the modules that are being applied, outermost first; empty outside of them."""
        return "/".join(self._modules)

    @contextmanager
    def within(self, module: str) -> Iterator[None]:
        """Note ``module`` as the origin of all instructions recorded inside."""
        self._modules.append(module)
        try:
            yield
        finally:
            self._modules.pop()

    # -- undoing ---------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return the present state, for ``rollback``."""
        return len(self._instructions), dict(self._sites), self._choices

    def rollback(self, mark: Mark) -> None:
        """Undo everything recorded since ``mark``; handles from before stay valid."""
        count, sites, choices = mark
        self._sites = dict(sites)
        self._decider.undone(self._choices - choices)
        self._restriction.undone(self._choices - choices)
        self._choices = choices
        undone = self._instructions[count:]
        del self._instructions[count:]
        kept = sum(len(i.outputs) for i in self._instructions)
        del self.handles[kept:]
        del self.values[kept:]
        if not all(i.kind.pure for i in undone):
            self._restore()

    def _restore(self) -> None:
        """Rebuild the program from the recorded instructions."""
        line = tuple(self._instructions)
        again = apply_to(self.workload, line, Interpreter(), detail=True).state
        self.raw, self.values, self.handles = again.raw, again.values, again.handles
        self.notes = again.notes


# -- Errors of an instruction that does not apply: the call, its place, the reason ----------------


def bad_argument(
    kind: InstructionKind, args: Sequence[Any], name: str, error: BadArgument
) -> InstructionError:
    """Return the error for an argument that cannot be read."""
    between = " " if str(error).startswith(("takes", "cannot")) else ": "
    shown = {p.name: describe(a) for p, a in zip(kind.parameters, args, strict=True)}
    return unreadable(kind, f"argument {name!r}{between}{error}", shown)


def unreadable(kind: InstructionKind, why: str, shown: dict[str, str]) -> InstructionError:
    """Return the error for arguments that cannot be read, given as text."""
    return InstructionError(kind.name, why, arguments=shown, location=user_location())


def refused(
    state: ProgramState,
    kind: InstructionKind,
    args: tuple[Any, ...],
    error: Exception,
    module: str,
) -> SchedlangError:
    """Return the error for an instruction, in ``module``, that did not apply to a program."""
    if isinstance(error, SchedlangError) and not isinstance(
        error, (DistributionError, WorkloadError)
    ):
        return error
    return InstructionError(
        kind.name,
        errors.reason_of(error),
        arguments={p.name: _shown(state, a) for p, a in zip(kind.parameters, args, strict=True)},
        location=user_location(),
        program=errors.program_of(error),
        module=module,
    )


def _shown(state: ProgramState, arg: Any) -> str:
    if isinstance(arg, tuple):
        return "[" + ", ".join(_shown(state, a) for a in arg) + "]"
    if isinstance(arg, (BlockRV, LoopRV)):
        value = state.raw_value(arg)
        try:
            if isinstance(value, Location):
                return f"{arg!r} ({'inlined' if value.position == INLINE else 'root'})"
            stmt = tvm_schedule.get_statement(state.raw, value)
        except Exception:  # the handle may be dead: its name must do
            return repr(arg)
        if isinstance(arg, BlockRV):
            return f"{arg!r} ({stmt.name_hint})"
        return f"{arg!r} ({stmt.loop_var.name} in {stmt.extent})"
    if isinstance(arg, IntRV):
        return f"{arg}={state.raw_value(arg)}"
    return describe(arg)
