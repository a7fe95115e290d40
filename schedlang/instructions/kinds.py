"""The four kinds of instruction: TVM primitives, macros in Python, sampling, and choices."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from schedlang.distributions import Categorical, Distribution
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.instructions.instruction import (
    InstructionKind,
    Result,
    Values,
    call_with,
    map_handles,
    register,
    resolve,
    resolve_content,
)
from schedlang.instructions.tvm_counterparts import TVMDraw, TVMInstruction, TVMLines

if TYPE_CHECKING:
    from schedlang.language.schedule import Schedule

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class Primitive(InstructionKind):
    """One call of a TVM schedule primitive; ``apply(tvm_schedule, *values)`` does it.

    Attributes
    ----------
    prefix: of the handles that it returns; empty when it returns nothing.
    single: it returns one handle, not a list.
    tvm: TVM's instruction; ``None`` where TVM has none.
    tvm_method: the method of TVM's ``Schedule``.
    tvm_lines: writes it as Python that needs TVM alone, where that is not a call of the method.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        apply: Callable[..., Any],
        *,
        prefix: str = "",
        single: bool = False,
        pure: bool = False,
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

    def run(self, raw: Any, args: Sequence[Any], values: Values) -> list[Any]:
        result = self.apply(raw, *[resolve(arg, values) for arg in args])
        if self.single:
            return [result]
        # A slice of an FFI array is three times cheaper than iterating over it.
        return result[:] if self.prefix else []


def _call(kind: InstructionKind, sch: Schedule, args: Sequence[Any]) -> Any:
    """Call the function that a user's kind was made of with stored arguments."""
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


def handles_returned(returned: Any) -> list[Any]:
    """What a user's function returned, as a list of handles."""
    if returned is None:
        return []
    return returned if isinstance(returned, list) else [returned]


class Macro(InstructionKind):
    """A Python function over other instructions, run again at every replay (design, section 3)."""

    def __init__(self, function: Callable[..., Any], *, pure: bool) -> None:
        super().__init__(function.__name__, function, pure=pure)

    @property
    def is_method(self) -> bool:
        return False

    def expand(
        self, raw: Any, args: Sequence[Any], values: Values, *, recording: bool = False
    ) -> tuple[Schedule, list[Any], Any]:
        """Run the function on an inner schedule.

        Returns the inner schedule, its arguments, and what it returned: None, a handle of the inner
        schedule or a list of them. Only a ``recording`` inner schedule keeps its instructions.
        """
        from schedlang.language.schedule import Schedule

        inner = Schedule.inside(raw, recording=recording)
        taken = [map_handles(arg, lambda h: inner.adopt(h, values[h.index])) for arg in args]
        returned = self.call(inner, taken)
        if isinstance(returned, tuple):
            returned = list(returned)
        for handle in handles_returned(returned):
            if not isinstance(handle, (BlockRV, LoopRV)):
                raise TypeError(f"{self.name} returned {handle!r}; it may return handles only")
            inner.own(handle)
        return inner, taken, returned

    def call(self, sch: Schedule, args: Sequence[Any]) -> Any:
        """Call the Python function with stored arguments."""
        return _call(self, sch, args)

    def run(self, raw: Any, args: Sequence[Any], values: Values) -> list[Any]:
        inner, _, returned = self.expand(raw, args, values)
        return [inner.raw_value(handle) for handle in handles_returned(returned)]


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

    def distribution(self, raw: Any, args: Sequence[Any], values: Values) -> Distribution:
        return self.make(raw, *[resolve_content(arg, values) for arg in args])

    def result(
        self,
        raw: Any,
        args: Sequence[Any],
        values: Values,
        distribution: Distribution,
        decision: Any,
    ) -> Result:
        return self.results(
            raw, distribution, decision, *[resolve_content(arg, values) for arg in args]
        )

    def record_in_tvm(
        self,
        raw: Any,
        args: Sequence[Any],
        values: Values,
        distribution: Distribution,
        decision: Any,
    ) -> list[Any]:
        """Draw in a schedule that records a TVM trace, as TVM's own draw where it has one."""
        if self.tvm is not None:
            resolved = [resolve_content(arg, values) for arg in args]
            drawn = self.tvm.record(raw, distribution, decision, *resolved)
            if drawn is not None:
                return drawn
        return self.result(raw, args, values, distribution, decision).values


class UserSampling(Sampling):
    """A sampling instruction whose distribution a user's Python function makes."""

    def __init__(self, function: Callable[..., Distribution]) -> None:
        super().__init__(function, function, integers)

    @property
    def is_method(self) -> bool:
        return False

    def distribution(self, raw: Any, args: Sequence[Any], values: Values) -> Distribution:
        from schedlang.language.schedule import Schedule

        inner = Schedule.inside(raw, recording=False)
        taken = [map_handles(arg, lambda h: inner.adopt(h, values[h.index])) for arg in args]
        made = _call(self, inner, taken)
        if not isinstance(made, Distribution):
            raise TypeError(f"{self.name} must return a Distribution, not {type(made).__name__}")
        return made


class Choice(InstructionKind):
    """A structural fork taken by the host program; in a trace it only carries what was taken."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function.__name__, function, pure=True, not_stored=("name", "decision"))

    def distribution(self, options: Sequence[str], probs: Sequence[float] | None) -> Categorical:
        """The draw over option numbers."""
        return Categorical(tuple(range(len(options))), None if probs is None else tuple(probs))

    def run(self, raw: Any, args: Sequence[Any], values: Values) -> list[Any]:
        return []


def integers(raw: Any, distribution: Distribution, decision: Any, *args: Any) -> Result:
    """A drawn decision as integers."""
    outputs = distribution.outputs(decision)
    if isinstance(outputs, tuple):
        return Result(list(outputs), "v" * len(outputs), False)
    return Result([outputs], "v", True)


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
    kind = Macro(cast(Callable[..., Any], function), pure=False)
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
        bound = inspect.signature(function).bind(sch, *args, **kwargs)
        bound.apply_defaults()
        return sch.draw(kind, list(bound.arguments.values())[1:], name, decision)

    return call
