"""Handles, which instructions take and return, and the program in which they have values.

A handle stands for a block or a loop (``BlockRV``, ``LoopRV``). ``ProgramState`` is a program while
instructions are applied to it: it knows the block or loop of each handle.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from schedlang.distributions import Distribution
from schedlang.errors import SchedlangError
from schedlang.expressions import IndexMap, IntExpr, IntOp, IntRV, Predicate, random_variables
from schedlang.tvm import schedule as tvm_schedule
from schedlang.tvm.schedule import primitives as tvm_primitives
from schedlang.tvm.schedule.last_tiles import with_overlapping_tiles
from schedlang.tvm.values import to_tvm

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


class BlockRV:
    """A block of the program that a schedule works on."""

    __slots__ = ("index",)
    prefix = "b"

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"b{self.index}"


class LoopRV:
    """A loop of the program that a schedule works on."""

    __slots__ = ("index",)
    prefix = "l"

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"l{self.index}"


Handle = BlockRV | LoopRV | IntRV


def handle_name(handle: Handle) -> str:
    """Return the name of a handle in printed and stored traces: b0, l1, v2."""
    return str(handle) if isinstance(handle, IntRV) else repr(handle)


def handle_prefix(handle: Handle) -> str:
    """Return b for a block, l for a loop, v for an integer."""
    return "v" if isinstance(handle, IntRV) else handle.prefix


def make_handle(prefix: str, index: int, value: int = 0) -> Any:
    """Make the handle with a prefix (b, l or v); KeyError for another prefix."""
    if prefix == "v":
        return IntRV(index, value)
    return {"b": BlockRV, "l": LoopRV}[prefix](index)


def numbered(handle: Handle, index: int) -> Handle:
    """Return a handle of the same kind and value with another number."""
    if isinstance(handle, IntRV):
        return IntRV(index, handle.value)
    return type(handle)(index)


Values = Sequence[Any]


def describe(arg: Any) -> str:
    """Write an argument for a message."""
    if isinstance(arg, tuple):
        return "[" + ", ".join(describe(a) for a in arg) + "]"
    if inspect.isfunction(arg):
        return arg.__name__
    return repr(arg) if isinstance(arg, (str, Distribution)) else str(arg)


def handles_in(arg: Any) -> Iterator[Handle]:
    """Yield every handle in a stored argument."""
    if isinstance(arg, (BlockRV, LoopRV, IntRV)):
        yield arg
    elif isinstance(arg, (IntOp, Predicate)):
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
    """Replace every handle in an argument; expressions are rebuilt around them."""
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
    if kind is Predicate:
        return arg.map(lambda side: map_handles(side, change))
    return arg


def resolve(arg: Any, values: Values) -> Any:
    """Replace every handle in an argument by what it stands for; hot in replay."""
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
    if kind is Predicate:
        return arg.holds(lambda side: resolve(side, values))
    return arg


def resolve_content(arg: Any, values: Values) -> Any:
    """Like ``resolve``, but sequences stay tuples: arguments without handles stay hashable."""
    kind = type(arg)
    if kind is LoopRV or kind is BlockRV or kind is IntRV:
        return values[arg.index]
    if kind is tuple:
        return tuple(resolve_content(item, values) for item in arg) if arg else arg
    return resolve(arg, values)


# -- ``ProgramState``: a program while instructions are applied to it -----------------------------

H = TypeVar("H", bound=BlockRV | LoopRV | IntRV)


class BadArgument(SchedlangError):
    """A value that an argument does not take; an instruction turns it into an InstructionError."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What instructions leave behind besides TVM's schedule.

    Attributes
    ----------
    overlaps: tiles that do not fit overlap in the program (``overlap_last_tiles``). TVM's schedule
        has their guards, so that its primitives still know each loop.
    hidden_by: the instruction after which TVM does not know all that blocks read and write.
    """

    overlaps: bool = False
    hidden_by: str = ""


class ProgramState:
    """A TVM schedule, and what the handles of the instructions applied to it stand for.

    Attributes
    ----------
    raw: the TVM schedule.
    values: TVM's random variable, or the integer, of each handle, by the handle's index.
    handles: the handles themselves, by index.
    held: the program that was last given away; later instructions leave it as it is.
    notes: what instructions leave behind besides.
    """

    def __init__(
        self, raw: Any, values: Iterable[Any] = (), handles: Iterable[Handle] = ()
    ) -> None:
        self.raw = raw
        self.held = tvm_schedule.HeldProgram()
        self.notes = Notes()
        self._overlapping: tuple[Any, Any] | None = None
        self.values = list(values)
        self.handles = list(handles)

    def own(self, handle: H) -> H:
        """Return the handle if it belongs to this program; raise ``BadArgument`` otherwise."""
        index = handle.index
        if index < len(self.handles) and self.handles[index] is handle:
            return handle
        raise BadArgument(f"{handle!r} is a handle of another schedule, or was undone")

    def own_expr(self, expr: IntExpr) -> IntExpr:
        """Return the expression if all its random variables belong to this program."""
        for variable in random_variables(expr):
            self.own(variable)
        return expr

    def raw_value(self, handle: Handle) -> Any:
        """Return what the handle stands for: TVM's random variable, or an integer."""
        return self.values[handle.index]

    def adopt(self, handle: Handle, value: Any) -> Any:
        """Make a handle here for ``value``, of the kind of another program's ``handle``."""
        return self.define(handle_prefix(handle), [value])[0]

    def define(self, prefixes: str, values: Sequence[Any]) -> list[Any]:
        """Make the next handles for ``values``: a block (b), loop (l) or integer (v) for each."""
        first = len(self.values)
        made = [
            make_handle(prefix, first + k, value if prefix == "v" else 0)
            for k, (prefix, value) in enumerate(zip(prefixes, values, strict=True))
        ]
        self.values += values
        self.handles += made
        return made

    def get_block(self, name: str) -> BlockRV:
        """Return a handle of the block called ``name``; a schedule records that it looked."""
        block: BlockRV = self.define("b", [tvm_primitives.get_block(self.raw, name, None)])[0]
        return block

    @property
    def mod(self) -> TensorProgram:
        """The program as it is now; later instructions leave this module as it is."""
        mod = self.guarded_mod
        if not self.notes.overlaps:
            return mod
        if self._overlapping is None or not self._overlapping[0].same_as(mod):
            self._overlapping = mod, with_overlapping_tiles(mod)
        return self._overlapping[1]

    @property
    def guarded_mod(self) -> TensorProgram:
        """The program with a guard for each tile that does not fit, as TVM's schedule has it."""
        mod = tvm_schedule.get_module(self.raw)
        self.held.hold(mod)
        return mod

    def get(self, handle: BlockRV | LoopRV) -> Any:
        """Return the TVM statement (``SBlock`` or ``For``) of a block or loop, for analysis.

        Later instructions leave it as it is.
        """
        self.held.hold(tvm_schedule.get_module(self.raw))
        return tvm_schedule.get_statement(self.raw, self.raw_value(self.own(handle)))

    def extent(self, loop: LoopRV) -> int:
        """Return the loop's extent, in iterations."""
        return tvm_schedule.loop_extent(self.raw, self.raw_value(self.own(loop)))
