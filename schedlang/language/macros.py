"""Instructions as Python functions over a schedule: users' macros, and rewritings TVM lacks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from schedlang.distributions import Distribution
from schedlang.instructions.handles import BlockRV, LoopRV, ProgramState, map_handles
from schedlang.instructions.instruction import InstructionKind, register
from schedlang.instructions.kinds import Expansion, Macro, Primitive, Sampling, integers
from schedlang.language.schedule import Schedule
from schedlang.tvm.schedule import (
    chains as _chains,
    updates as _updates,
    vector_math as _vector_math,
)

P = ParamSpec("P")
R = TypeVar("R")


class UserMacro(Macro):
    """A macro that is a Python function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function.__name__, function, pure=False)

    def expand(
        self, state: ProgramState, args: Sequence[Any], *, recording: bool = False
    ) -> Expansion:
        inner, taken = _enter(state, args, recording=recording)
        returned = self.call(inner, taken)
        state.notes = inner.notes
        if isinstance(returned, tuple):
            returned = list(returned)
        expansion = Expansion(inner, inner.trace.instructions, taken, returned)
        for handle in expansion.handles:
            if not isinstance(handle, (BlockRV, LoopRV)):
                raise TypeError(f"{self.name} returned {handle!r}; it may return handles only")
            inner.own(handle)
        return expansion

    def call(self, program: Any, args: Sequence[Any]) -> Any:
        return _call(self, program, args)


class UserSampling(Sampling):
    """A sampling instruction whose distribution a user's Python function makes."""

    def __init__(self, function: Callable[..., Distribution]) -> None:
        super().__init__(function, function, integers)

    @property
    def is_method(self) -> bool:
        return False

    def distribution(self, state: ProgramState, args: Sequence[Any]) -> Distribution:
        made = _call(self, *_enter(state, args, recording=False))
        if not isinstance(made, Distribution):
            raise TypeError(f"{self.name} must return a Distribution, not {type(made).__name__}")
        return made


def _enter(
    state: ProgramState, args: Sequence[Any], *, recording: bool
) -> tuple[Schedule, list[Any]]:
    """Make the schedule that a user's function works on, and its arguments with handles of it."""
    inner = Schedule.inside(state, recording=recording)
    values = state.values
    return inner, [map_handles(arg, lambda h: inner.adopt(h, values[h.index])) for arg in args]


def _call(kind: InstructionKind, sch: Schedule, args: Sequence[Any]) -> Any:
    """Call the function that declares a kind with stored arguments."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter, value in zip(kind.parameters, args, strict=True):
        if parameter.keyword_only:
            named[parameter.name] = value
        elif parameter.variadic:
            positional += value
        else:
            positional.append(value)
    return kind.function(sch, *positional, **named)


def call_with(schedule: Schedule, kind: InstructionKind, *args: Any, **kwargs: Any) -> Any:
    """Bind the call of an instruction that is a function to its parameters, and record it."""
    try:
        bound = kind.signature.bind(schedule, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{kind.name}: {error}") from None
    bound.apply_defaults()
    return schedule.run(kind, *list(bound.arguments.values())[1:])


def instruction(
    function: Callable[Concatenate[Schedule, P], R],
) -> Callable[Concatenate[Schedule, P], R]:
    """Make an instruction of a Python function: one step in the trace, run again at every replay.

    ::

        @sl.instruction
        def vectorize_inner(sch: sl.Schedule, block: sl.BlockRV, lanes: int) -> None:
            *_, inner = sch.get_loops(block)
            _, lanes_loop = sch.split(inner, [None, lanes])
            sch.vectorize(lanes_loop)

        vectorize_inner(sch, block, 16)

    The body may look at the program and use other instructions, but draws nothing: pass drawn
    values in. It returns None, a handle, or a list of handles. Parameters are checked by their
    annotations.
    """
    kind = UserMacro(cast(Callable[..., Any], function))
    register(kind)

    @functools.wraps(function)
    def call(sch: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, call_with(sch, kind, *args, **kwargs))

    call.kind = kind  # type: ignore[attr-defined]
    return call


def sampling_instruction(function: Callable[..., Distribution]) -> Callable[..., Any]:
    """Make a sampling instruction of a function that looks at the program and returns a
    Distribution.

    The call takes also ``name=`` (the site) and ``decision=``; it returns an ``IntRV`` or a list.
    """
    kind = UserSampling(function)
    register(kind)

    @functools.wraps(function)
    def call(
        sch: Schedule, /, *args: Any, name: str | None = None, decision: Any = None, **kwargs: Any
    ) -> Any:
        bound = kind.signature.bind(sch, *args, **kwargs)
        bound.apply_defaults()
        return sch.draw(kind, list(bound.arguments.values())[1:], name, decision)

    return call


MATH_FUNCTIONS = _vector_math.NAMES
put_arithmetic_for_calls = _vector_math.replace_calls
privatize = _updates.privatize
chain_updates = _chains.update_in_chains


def blocks_with_calls(sch: Schedule, functions: Sequence[str]) -> list[str]:
    """Return the names of the innermost blocks that call one of the mathematical ``functions``.

    A name that several of them have comes not at all: no instruction could say which it means.
    """
    names = _vector_math.blocks_with_calls(sch.mod, functions)
    return [name for name in names if names.count(name) == 1]


class Rewriting(Primitive):
    """A primitive of this library, which TVM's traces cannot hold."""

    @property
    def is_method(self) -> bool:
        return False


def rewriting(
    apply: Callable[..., Any],
) -> Callable[
    [Callable[Concatenate[Schedule, P], R]],
    Callable[Concatenate[Schedule, P], R],
]:
    """Make an instruction of a declaration; ``apply(tvm_schedule, *values)`` applies it.

    The declaration has the name, the parameters and the docstring; its body is not run.
    """

    def decorate(
        function: Callable[Concatenate[Schedule, P], R],
    ) -> Callable[Concatenate[Schedule, P], R]:
        kind = Rewriting(function, apply)
        register(kind)

        @functools.wraps(function)
        def call(sch: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> R:
            result: R = call_with(sch, kind, *args, **kwargs)
            return result

        return call

    return decorate
