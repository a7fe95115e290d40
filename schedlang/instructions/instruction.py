"""Instructions, their kinds, and the one registry of kinds.

A kind says its name, how it reads its arguments, how it applies, how it prints (as a method call or
as a call of the user's function) and, through its arguments, how it goes to and from JSON.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlang.distributions import Distribution
from schedlang.errors import SpaceError
from schedlang.expressions import IndexMap, IntOp, IntRV
from schedlang.instructions.arguments import Argument, argument_of
from schedlang.instructions.handles import BlockRV, Handle, LoopRV, handle_name
from schedlang.tvm.expressions import to_tvm

if TYPE_CHECKING:
    from schedlang.language.schedule import Schedule

Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter of an instruction kind."""

    name: str
    argument: Argument
    default: Any
    keyword_only: bool
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What applying gave: TVM's values, the kind of each (b, l or v), and whether it is one
    value.
    """

    values: list[Any]
    prefixes: str
    single: bool


class InstructionKind:
    """A kind of instruction.

    Attributes
    ----------
    name: unique in the registry; the method's or function's name.
    parameters: declared by the signature it was made from.
    pure: it only looks or draws; without uses of its results it can be left out.
    function: the user's or our Python function that declares it.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        pure: bool,
        not_stored: Collection[str] = (),
    ) -> None:
        self.name = name
        self.function = function
        self.pure = pure
        self.signature = inspect.signature(function)
        self.parameters = _parameters_of(function, not_stored)

    def run(self, raw: Any, args: Sequence[Any], values: Values) -> list[Any]:
        """Apply to a TVM schedule; ``values`` are what the handles in ``args`` stand for."""
        raise NotImplementedError(f"{type(self).__name__} does not apply by itself")

    @property
    def is_method(self) -> bool:
        """Whether it is written ``sch.name(...)``; else ``name(sch, ...)``."""
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


def _parameters_of(
    function: Callable[..., Any], not_stored: Collection[str]
) -> tuple[Parameter, ...]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError:  # annotations of names that only a type checker imports: any literal will do
        hints = {}
    parameters = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.name in not_stored:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            raise SpaceError(f"{function.__name__}: an instruction cannot take **{parameter.name}")
        argument = argument_of(hints.get(parameter.name, Any))
        is_list = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        if is_list:
            argument = argument_of(list[hints.get(parameter.name, Any)])  # type: ignore[misc]
        parameters.append(
            Parameter(
                parameter.name,
                argument,
                () if is_list else parameter.default,
                parameter.kind is inspect.Parameter.KEYWORD_ONLY,
                is_list,
            )
        )
    return tuple(parameters)


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One recorded step.

    Attributes
    ----------
    args: content of the arguments, in the order of ``kind.parameters``.
    outputs: the handles it defined.
    single: whether it returned one handle, not a list.
    site: name of the random draw or choice, unique in its trace; "" for other instructions.
    decision, distribution: what was drawn and from what.
    module: name of the module that recorded it, outermost first; "" outside modules.
    """

    kind: InstructionKind
    args: tuple[Any, ...]
    outputs: tuple[Handle, ...] = ()
    single: bool = False
    site: str = ""
    decision: Any = None
    distribution: Distribution | None = None
    module: str = ""

    def inputs(self) -> Iterator[Handle]:
        """Every handle that the arguments mention."""
        for arg in self.args:
            yield from handles_in(arg)

    def __str__(self) -> str:
        named = zip(self.kind.parameters, self.args, strict=True)
        call = ", ".join(f"{p.name}={describe(arg)}" for p, arg in named)
        outs = ", ".join(handle_name(h) for h in self.outputs)
        return f"{outs + ' = ' if outs else ''}{self.kind.name}({call})"


def describe(arg: Any) -> str:
    """An argument as text for messages."""
    if isinstance(arg, tuple):
        return "[" + ", ".join(describe(a) for a in arg) + "]"
    if inspect.isfunction(arg):
        return arg.__name__
    return repr(arg) if isinstance(arg, (str, Distribution)) else str(arg)


def handles_in(arg: Any) -> Iterator[Handle]:
    """Every handle that a stored argument mentions."""
    if isinstance(arg, (BlockRV, LoopRV, IntRV)):
        yield arg
    elif isinstance(arg, IntOp):
        yield from handles_in(arg.left)
        yield from handles_in(arg.right)
    elif isinstance(arg, tuple):
        for item in arg:
            yield from handles_in(item)
    elif isinstance(arg, dict):
        for item in arg.values():
            yield from handles_in(item)
    elif isinstance(arg, IndexMap):
        for item in arg.outputs:
            yield from handles_in(item)


def map_handles(arg: Any, change: Callable[[Any], Any]) -> Any:
    """The argument with every handle replaced; expressions are rebuilt around them."""
    kind = type(arg)
    if kind is LoopRV or kind is BlockRV or kind is IntRV:
        return change(arg)
    if kind is tuple:
        return tuple(map_handles(item, change) for item in arg)
    if kind is IntOp:
        return IntOp(arg.operation, map_handles(arg.left, change), map_handles(arg.right, change))
    if kind is dict:
        return {key: map_handles(item, change) for key, item in arg.items()}
    if kind is IndexMap:
        return IndexMap(arg.inputs, tuple(map_handles(item, change) for item in arg.outputs))
    return arg


def resolve(arg: Any, values: Values) -> Any:
    """The argument with every handle replaced by what it stands for; hot in replay."""
    kind = type(arg)
    if kind is LoopRV or kind is BlockRV or kind is IntRV:
        return values[arg.index]
    if kind is tuple:
        return [resolve(item, values) for item in arg]
    if kind is IntOp:
        return to_tvm(arg, lambda v: values[v.index], [])
    if kind is dict:
        return {key: resolve(item, values) for key, item in arg.items()}
    if kind is IndexMap:
        return arg.substitute(lambda v: values[v.index])
    return arg


def resolve_content(arg: Any, values: Values) -> Any:
    """Like ``resolve``, but sequences stay tuples, so that what holds no handle stays hashable."""
    kind = type(arg)
    if kind is LoopRV or kind is BlockRV or kind is IntRV:
        return values[arg.index]
    if kind is tuple:
        return tuple(resolve_content(item, values) for item in arg) if arg else arg
    return resolve(arg, values)


KINDS: dict[str, InstructionKind] = {}


def register(kind: InstructionKind) -> None:
    """Add a kind; defining the same function again replaces it, another one of that name does
    not.
    """
    known = KINDS.get(kind.name)
    if known is not None:
        ours = (known.function.__module__, known.function.__qualname__)
        theirs = (kind.function.__module__, kind.function.__qualname__)
        if ours != theirs:
            raise SpaceError(
                f"instruction {kind.name!r} is defined in {ours[0]} already; "
                f"give the one in {theirs[0]} another name"
            )
    KINDS[kind.name] = kind


def call_with(schedule: Schedule, kind: InstructionKind, *args: Any, **kwargs: Any) -> Any:
    """Bind a free function's call to its parameters and record it."""
    try:
        bound = kind.signature.bind(schedule, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{kind.name}: {error}") from None
    bound.apply_defaults()
    return schedule.run(kind, *list(bound.arguments.values())[1:])
