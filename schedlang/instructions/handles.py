"""Handles, which instructions take and return, and the arguments that hold them.

A handle is valid only in its schedule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from schedlang.distributions import Distribution
from schedlang.expressions import IndexMap, IntOp, IntRV, Predicate
from schedlang.tvm.expressions import to_tvm


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
