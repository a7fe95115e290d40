"""Instructions, their kinds, and the one registry of kinds.

A kind has a name and parameters, and applies to a program state. The types of its parameters say
how arguments are read, checked, printed and stored.
"""

from __future__ import annotations

import inspect
import sys
import traceback
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from schedlang.distributions import Distribution
from schedlang.errors import SpaceError
from schedlang.instructions.arguments import InstructionArgument, argument_of
from schedlang.instructions.handles import Handle, ProgramState, describe, handle_name, handles_in

# -- Where in the user's own code a call came from ------------------------------------------------

_CORE = Path(__file__).resolve().parents[1]
_OURS = tuple(
    str(folder) + "/" for folder in (_CORE, _CORE.parent / "search", _CORE.parent / "targets")
)
_MODULE_FILES = str(_CORE / "modules") + "/"
_INSTALLED = ("/site-packages/", "/dist-packages/", f"/python{sys.version_info.major}.")


def user_location() -> str:
    """Return ``file:line`` of the innermost frame outside the language; empty without one.

    A transformation module counts as user code, the library's own too: it holds the instruction.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def raised_at(error: BaseException, *, installed: bool = True) -> str:
    """Return ``file:line`` of the innermost frame of user code that an exception came through.

    Frames of installed packages count only where there are no others, and only with ``installed``;
    empty without any frame.
    """
    inner = own = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if _is_users(name):
            inner = f"{name}:{line}"
            if _is_module(name) or not any(part in name for part in _INSTALLED):
                own = inner
    return own or (inner if installed else "")


def _is_users(name: str) -> bool:
    return (_is_module(name) or not name.startswith(_OURS)) and not name.startswith("<frozen")


def _is_module(name: str) -> bool:
    return name.startswith(_MODULE_FILES)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter of an instruction kind."""

    name: str
    argument: InstructionArgument
    default: Any
    keyword_only: bool
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What an instruction returned.

    Attributes
    ----------
    values: TVM's values.
    prefixes: the kind of each value: b, l or v.
    single: whether it returned one value, not a list.
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
    pure: it does not change the program; it can be removed when its results are unused.
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

    def run(self, state: ProgramState, args: Sequence[Any]) -> list[Any]:
        """Apply to a program and return TVM's value of each handle that it defines."""
        raise NotImplementedError(f"{type(self).__name__} does not apply by itself")

    @property
    def is_method(self) -> bool:
        """Whether it is called as ``sch.name(...)``; otherwise as ``name(sch, ...)``."""
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
        """Yield every handle in the arguments."""
        for arg in self.args:
            yield from handles_in(arg)

    def __str__(self) -> str:
        named = zip(self.kind.parameters, self.args, strict=True)
        call = ", ".join(f"{p.name}={describe(arg)}" for p, arg in named)
        outs = ", ".join(handle_name(h) for h in self.outputs)
        return f"{outs + ' = ' if outs else ''}{self.kind.name}({call})"


Line = tuple[Instruction, ...]
"""A sequence of instructions, which interpreters take and return."""

KINDS: dict[str, InstructionKind] = {}


# Importing it registers the instructions of the library's modules, which need these files.
_MODULES = "schedlang.modules"


def kind_called(name: str) -> InstructionKind | None:
    """Return a kind by name; the library's modules are imported where it is not known without."""
    if name not in KINDS:
        import_module(_MODULES)
    return KINDS.get(name)


def register(kind: InstructionKind) -> None:
    """Add a kind. The same function defined again replaces it.

    SpaceError when another function has the name already.
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
