"""Arguments that are functions of indices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

from schedlang.errors import SchedlangError, TraceFormatError
from schedlang.expressions import IndexMap
from schedlang.instructions.argument import (
    Earlier,
    InstructionArgument,
    Render,
    described,
    expression,
    is_of,
    tvm_expression,
)
from schedlang.instructions.handles import BadArgument, ProgramState
from schedlang.instructions.value_arguments import own_map
from schedlang.tvm import analysis
from schedlang.tvm import schedule as tvm_schedule
from schedlang.tvm.values import element_of, index_map_from_tvm


class MapArgument(InstructionArgument):
    """A map from indices, of the buffer or the block in the arguments before, to others."""

    name = "index map"
    takes = "a function of indices that returns a tuple of indices, or an `IndexMap`"
    stored = (IndexMap,)
    tvm_reading = "index_map"
    tvm_part = "inputs"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> IndexMap:
        if hasattr(value, "final_indices"):
            try:
                value = index_map_from_tvm(value)
            except TypeError as error:
                raise BadArgument(str(error)) from None
        elif not isinstance(value, IndexMap):
            if not callable(value):
                raise BadArgument(
                    f"takes a function of indices or an IndexMap, not {described(value)}"
                )
            value = _traced(value, _dimensions(state, earlier))
        return own_map(state, value)


class RangesArgument(InstructionArgument):
    """A function of the block's variables that gives an index or a range in each dimension.

    It is stored as an index map with two outputs, begin and end, for each dimension.
    """

    name = "ranges"
    takes = "a function of the block's variables; an index or a `(begin, end)` a dimension"
    stored = (IndexMap,)

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> IndexMap:
        if not isinstance(value, IndexMap):
            if not callable(value):
                raise BadArgument(
                    f"takes a function of the block's variables, not {described(value)}"
                )
            value = _traced(_begins_and_ends(value), _dimensions(state, earlier))
        elif len(value.outputs) % 2:
            raise BadArgument(f"takes a begin and an end for each dimension, not {value}")
        return own_map(state, value)

    def check_stored(self, content: Any, where: str) -> None:
        super().check_stored(content, where)
        if len(content.outputs) % 2:
            raise TraceFormatError(where, "must have a begin and an end for each dimension")

    def as_python(self, content: Any) -> str:
        return _pairs(content, expression)

    def as_tvm_python(self, content: Any) -> str:
        return _pairs(content, tvm_expression)


class PaddingArgument(InstructionArgument):
    """The fill value of elements that exist only in the new layout."""

    name = "padding"
    takes = "a number, a function of the new indices, or `None`"
    stored = (int, float, IndexMap, type(None))
    tvm_reading = "padding"
    tvm_part = "attributes"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        if value is None:
            return None
        if is_of(value, (int, float)):
            role, index = earlier["buffer"]
            block = state.raw_value(earlier["block"])
            buffer = tvm_schedule.buffer_of(state.raw, block, role, index)
            try:
                return element_of(value, str(buffer.ty.dtype))
            except (ValueError, OverflowError) as error:
                raise BadArgument(str(error)) from None
        if not isinstance(value, IndexMap):
            if isinstance(value, str) or not callable(value):
                raise BadArgument(
                    f"takes a number or a function of indices, not {described(value)}"
                )
            value = _traced(value, len(earlier["index_map"].outputs))
        return own_map(state, value)


def _traced(function: Callable[..., Any], dimensions: int | None) -> IndexMap:
    try:
        return IndexMap.from_function(function, dimensions)
    except SchedlangError:
        raise
    except Exception as error:  # the function is the user's
        why = str(error) if isinstance(error, TypeError) else f"{type(error).__name__}: {error}"
        raise BadArgument(why) from error


def _dimensions(state: ProgramState, earlier: Earlier) -> int | None:
    """Return the number of indices of the buffer, or of the block, in the arguments before."""
    block = earlier.get("block")
    if block is None:
        return None
    raw_block = state.raw_value(block)
    if "buffer" in earlier:
        role, position = earlier["buffer"]
        return len(tvm_schedule.buffer_of(state.raw, raw_block, role, position).ty.shape)
    facts = analysis.block_facts(state.raw, raw_block)
    return len(facts.spatial_extents) + len(facts.reduction_extents)


def _begins_and_ends(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    @functools.wraps(function)  # its variables keep their names
    def flattened(*indices: Any) -> tuple[Any, ...]:
        flat: list[Any] = []
        given = function(*indices)
        for item in given if isinstance(given, (tuple, list)) else (given,):
            if isinstance(item, (tuple, list)):
                if len(item) != 2:
                    raise TypeError(f"a range is a (begin, end) pair, got {item!r}")
                flat += item
            else:
                flat += [item, item + 1]
        return tuple(flat)

    return flattened


def _pairs(index_map: IndexMap, render: Render) -> str:
    """Write a function from a block's variables to one (begin, end) pair in each dimension."""
    ends = iter(index_map.outputs)
    pairs = [f"({render(begin)}, {render(end)})" for begin, end in zip(ends, ends, strict=True)]
    return f"lambda {', '.join(index_map.inputs)}: ({', '.join(pairs)},)"


Map = Annotated[IndexMap | Callable[..., Any], MapArgument()]
Ranges = Annotated[IndexMap | Callable[..., Any], RangesArgument()]
Padding = Annotated[int | float | IndexMap | Callable[..., Any] | None, PaddingArgument()]
