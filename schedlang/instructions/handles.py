"""Handles, which instructions take and return. A handle is valid only in its schedule."""

from __future__ import annotations

from typing import Any

from schedlang.expressions import IntRV


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
