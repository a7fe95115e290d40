"""The kinds of instruction: TVM primitives, macros, draws, choices, and TVM's counterparts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedlang.distributions import Categorical, Distribution
from schedlang.errors import ConstraintError
from schedlang.expressions import Predicate, random_variables
from schedlang.instructions.argument import TVMReader
from schedlang.instructions.handles import ProgramState, resolve, resolve_content
from schedlang.instructions.instruction import Instruction, InstructionKind, Line, Result

Places = dict[int, int]
"""Drawn locations that are no loops (inlined, at the root), by the index of their handle."""

TVMLines = Callable[[Instruction, Places], list[str] | None]
"""Writes an instruction as Python that needs TVM alone; ``None`` leaves it to the default."""


@dataclass(frozen=True, slots=True)
class TVMInstruction:
    """TVM's instruction that does the same.

    Attributes
    ----------
    name: in TVM's traces, such as ``"Split"``.
    inputs: the parameters that TVM's traces store among the inputs, the others being attributes;
        ``None`` where the types of the arguments say which.
    """

    name: str
    inputs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TVMDraw(TVMInstruction):
    """TVM's draw that does the same.

    Attributes
    ----------
    record: ``record(tvm_schedule, distribution, decision, *values)`` draws in a schedule that
        records a TVM trace and returns TVM's random variables; ``None`` where TVM cannot draw this.
    read_decision: ``read_decision(reader, given, stored, where)`` returns the decision that a TVM
        trace stores. It may change the arguments ``given`` to what TVM takes them for.
    """

    record: Callable[..., list[Any] | None]
    read_decision: Callable[[TVMReader, dict[str, Any], Any, str], Any]


class Primitive(InstructionKind):
    """One call of a TVM schedule primitive; ``apply(tvm_schedule, *values)`` does it.

    Attributes
    ----------
    prefix: of the handles that it returns; empty when it returns nothing.
    single: it returns one handle, not a list.
    tvm: TVM's instruction; ``None`` where TVM has none.
    tvm_method: the method of TVM's ``Schedule``.
    tvm_lines: writes it as Python that needs TVM alone, where that is not a call of the method.
    hides: after it TVM does not know all that blocks read and write.
    about_loops: it is right whatever blocks read and write.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        apply: Callable[..., Any],
        *,
        prefix: str = "",
        single: bool = False,
        pure: bool = False,
        hides: bool = False,
        about_loops: bool = False,
        tvm: TVMInstruction | None = None,
        tvm_method: str = "",
        tvm_lines: TVMLines | None = None,
    ) -> None:
        super().__init__(function.__name__, function, pure=pure)
        self.apply = apply
        self.prefix = prefix
        self.single = single
        self.tvm = tvm
        self.tvm_method = tvm_method
        self.tvm_lines = tvm_lines
        self.hides = hides
        self.about_loops = about_loops or pure

    def run(self, state: ProgramState, args: Sequence[Any]) -> list[Any]:
        if state.notes.hidden_by and not self.about_loops:
            raise ValueError(
                f"after {state.notes.hidden_by} TVM does not know all that blocks read and write; "
                f"use {self.name} before it"
            )
        values = state.values
        result = self.apply(state.raw, *[resolve(arg, values) for arg in args])
        if self.hides:
            state.notes = replace(state.notes, hidden_by=self.name)
        if self.single:
            return [result]
        # A slice of an FFI array is three times cheaper than iterating over it.
        return result[:] if self.prefix else []


class Overlapping(Primitive):
    """Makes tiles overlap that do not fit; TVM has no such primitive."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, function)

    def run(self, state: ProgramState, args: Sequence[Any]) -> list[Any]:
        state.notes = replace(state.notes, overlaps=True)
        return []


class Constraint(Primitive):
    """Requires that a condition on drawn integers holds; it leaves the program as it is."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, function, pure=True)

    def run(self, state: ProgramState, args: Sequence[Any]) -> list[Any]:
        condition, why = args
        if not resolve(condition, state.values):
            raise ConstraintError(why, _explained(condition, state))
        return []


def _explained(condition: bool | Predicate, state: ProgramState) -> str:
    """Return a condition with the values of its variables, as text; empty for a bool."""
    if isinstance(condition, bool):
        return ""
    values = {str(v): state.raw_value(v) for v in random_variables(condition)}
    shown = ", ".join(f"{name}={value}" for name, value in values.items())
    return f"{condition}, where {shown}" if shown else str(condition)


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a macro ran.

    Attributes
    ----------
    state: the program, with the handles that the macro saw and made.
    line: the instructions that it ran; empty unless they were recorded.
    args: the macro's arguments, with handles of ``state``.
    returned: a handle of ``state``, a list of them, or None.
    """

    state: ProgramState
    line: Line
    args: list[Any]
    returned: Any

    @property
    def handles(self) -> list[Any]:
        """What it returned, as a list."""
        if self.returned is None:
            return []
        return self.returned if isinstance(self.returned, list) else [self.returned]


class Macro(InstructionKind):
    """An instruction made of others, which run again at every replay (design, section 3)."""

    @property
    def is_method(self) -> bool:
        return False

    def expand(
        self, state: ProgramState, args: Sequence[Any], *, recording: bool = False
    ) -> Expansion:
        """Run it on a program; a ``recording`` expansion keeps its instructions."""
        raise NotImplementedError

    def call(self, program: Any, args: Sequence[Any]) -> Any:
        """Run it as part of another macro that works on ``program``."""
        raise NotImplementedError

    def run(self, state: ProgramState, args: Sequence[Any]) -> list[Any]:
        expansion = self.expand(state, args)
        return [expansion.state.raw_value(handle) for handle in expansion.handles]


class Sampling(InstructionKind):
    """A draw: ``make(tvm_schedule, *values)`` is the distribution at this point of the program.

    Attributes
    ----------
    prefix: of the handles that it returns.
    tvm: TVM's own draw; ``None`` where TVM has none.
    tvm_lines: writes it as Python that needs TVM alone, where the drawn integers do not.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        make: Callable[..., Distribution],
        results: Callable[..., Result],
        *,
        prefix: str = "v",
        tvm: TVMDraw | None = None,
        tvm_lines: TVMLines | None = None,
    ) -> None:
        super().__init__(function.__name__, function, pure=True, not_stored=("name", "decision"))
        self.make = make
        self.results = results
        self.prefix = prefix
        self.tvm = tvm
        self.tvm_lines = tvm_lines

    def distribution(self, state: ProgramState, args: Sequence[Any]) -> Distribution:
        """Return the distribution of the decision at this point of the program."""
        values = state.values
        return self.make(state.raw, *[resolve_content(arg, values) for arg in args])

    def result(
        self, state: ProgramState, args: Sequence[Any], distribution: Distribution, decision: Any
    ) -> Result:
        """Return what a decision stands for."""
        values = state.values
        resolved = [resolve_content(arg, values) for arg in args]
        return self.results(state.raw, distribution, decision, *resolved)

    def record_in_tvm(
        self, state: ProgramState, args: Sequence[Any], distribution: Distribution, decision: Any
    ) -> list[Any]:
        """Draw in a schedule that records a TVM trace, as TVM's own draw where it has one."""
        if self.tvm is not None:
            resolved = [resolve_content(arg, state.values) for arg in args]
            drawn = self.tvm.record(state.raw, distribution, decision, *resolved)
            if drawn is not None:
                return drawn
        return self.result(state, args, distribution, decision).values


class Choice(InstructionKind):
    """A fork in the host program; in a trace it only says which option was taken."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function.__name__, function, pure=True, not_stored=("name", "decision"))

    def distribution(self, options: Sequence[str], probs: Sequence[float] | None) -> Categorical:
        """Return the distribution over option numbers."""
        return Categorical(tuple(range(len(options))), None if probs is None else tuple(probs))

    def run(self, state: ProgramState, args: Sequence[Any]) -> list[Any]:
        return []


def integers(raw: Any, distribution: Distribution, decision: Any, *args: Any) -> Result:
    """Return a drawn decision as one integer, or a list of them."""
    outputs = distribution.outputs(decision)
    if isinstance(outputs, tuple):
        return Result(list(outputs), "v" * len(outputs), False)
    return Result([outputs], "v", True)
