"""How instructions read their arguments: each kind of argument checks, and makes content of, a
value.

The content is what a trace stores: handles, plain Python values, expressions, index maps. An
argument kind is chosen by the parameter's annotation, so an instruction declares its arguments just
once.
"""

from __future__ import annotations

import collections.abc
import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from schedlang.distributions import Distribution
from schedlang.expressions import IndexMap, IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.instructions.state import BadArgument, ProgramState
from schedlang.tvm import analysis

Accept = Callable[[ProgramState, Any, dict[str, Any]], Any]


def _describe(value: Any) -> str:
    text = repr(value)
    if len(text) > 60:
        text = text[:57] + "..."
    return f"{type(value).__name__} {text}"


@dataclass(frozen=True)
class Argument:
    """One way to read an argument: ``accept(state, value, earlier)`` knows the arguments before."""

    name: str
    accept: Accept


def accept_block(state: ProgramState, value: Any, earlier: dict[str, Any]) -> BlockRV:
    if isinstance(value, str):
        return state.get_block(value)
    if isinstance(value, BlockRV):
        return state.own(value)
    raise BadArgument(f"takes a block (BlockRV, or its name), not {_describe(value)}")


def accept_loop(state: ProgramState, value: Any, earlier: dict[str, Any]) -> LoopRV:
    if isinstance(value, LoopRV):
        return state.own(value)
    hint = "; get_loops returns a list: pass one of them" if isinstance(value, list) else ""
    raise BadArgument(f"takes a loop (LoopRV), not {_describe(value)}{hint}")


def accept_block_or_loop(
    state: ProgramState, value: Any, earlier: dict[str, Any]
) -> BlockRV | LoopRV:
    if isinstance(value, (BlockRV, LoopRV)):
        return state.own(value)
    if isinstance(value, str):
        return state.get_block(value)
    raise BadArgument(f"takes a block or a loop, not {_describe(value)}")


def accept_loop_or_blocks(
    state: ProgramState, value: Any, earlier: dict[str, Any]
) -> LoopRV | tuple[BlockRV, ...]:
    if isinstance(value, LoopRV):
        return state.own(value)
    if isinstance(value, (list, tuple)):
        return tuple(accept_block(state, item, earlier) for item in value)
    raise BadArgument(f"takes a loop or a list of blocks, not {_describe(value)}")


def accept_int(state: ProgramState, value: Any, earlier: dict[str, Any]) -> int | IntExpr:
    if isinstance(value, IntExpr):
        return state.own_expr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise BadArgument(f"takes an integer (int or IntRV), not {_describe(value)}")


def accept_plain_int(state: ProgramState, value: Any, earlier: dict[str, Any]) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise BadArgument(f"takes a plain int, not {_describe(value)}")


def accept_factor(state: ProgramState, value: Any, earlier: dict[str, Any]) -> int | IntExpr | None:
    return None if value is None else accept_int(state, value, earlier)


def accept_bool(state: ProgramState, value: Any, earlier: dict[str, Any]) -> bool:
    if isinstance(value, bool):
        return value
    raise BadArgument(f"takes True or False, not {_describe(value)}")


def accept_str(state: ProgramState, value: Any, earlier: dict[str, Any]) -> str:
    if isinstance(value, str):
        return value
    raise BadArgument(f"takes a string, not {_describe(value)}")


def accept_optional_str(state: ProgramState, value: Any, earlier: dict[str, Any]) -> str | None:
    return None if value is None else accept_str(state, value, earlier)


def accept_number(state: ProgramState, value: Any, earlier: dict[str, Any]) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise BadArgument(f"takes a number, not {_describe(value)}")


def sequence_of(item: Accept, what: str) -> Accept:
    """An argument that is a sequence of another kind."""

    def accept(state: ProgramState, value: Any, earlier: dict[str, Any]) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise BadArgument(f"takes a list of {what}, not {_describe(value)}")
        return tuple(item(state, v, earlier) for v in value)

    return accept


def optional(item: Accept) -> Accept:
    """An argument that may be None."""
    return lambda state, value, earlier: None if value is None else item(state, value, earlier)


def accept_index_map(state: ProgramState, value: Any, earlier: dict[str, Any]) -> IndexMap:
    if not isinstance(value, IndexMap):
        value = _trace_map(state, value, earlier)
    value = value.with_plain_names()
    return IndexMap(value.inputs, tuple(accept_index(state, e) for e in value.outputs))


def accept_index(state: ProgramState, value: Any) -> int | IntExpr:
    return state.own_expr(value) if isinstance(value, IntExpr) else value


def _trace_map(state: ProgramState, value: Any, earlier: dict[str, Any]) -> IndexMap:
    from schedlang.tvm import expressions

    try:
        if hasattr(value, "final_indices"):
            return expressions.index_map_from_tvm(value)
        if callable(value):
            return IndexMap.from_function(value, _map_dimensions(state, earlier))
    except TypeError as error:
        raise BadArgument(str(error)) from None
    raise BadArgument(f"takes a function of indices or an IndexMap, not {_describe(value)}")


def _map_dimensions(state: ProgramState, earlier: dict[str, Any]) -> int | None:
    block = earlier.get("block")
    if block is None:
        return None
    raw, raw_block = state.raw, state.raw_value(block)
    if "buffer" in earlier:
        role, position = earlier["buffer"]
        return len(analysis.buffer_of(raw, raw_block, role, position).ty.shape)
    return len(analysis.block_facts(raw, raw_block).spatial_extents) + len(
        analysis.block_facts(raw, raw_block).reduction_extents
    )


def accept_padding(state: ProgramState, value: Any, earlier: dict[str, Any]) -> Any:
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        role, index = earlier["buffer"]
        buffer = analysis.buffer_of(state.raw, state.raw_value(earlier["block"]), role, index)
        return float(value) if "float" in str(buffer.ty.dtype) else int(value)
    if isinstance(value, str) or not (isinstance(value, IndexMap) or callable(value)):
        raise BadArgument(f"takes a number or a function of indices, not {_describe(value)}")
    if not isinstance(value, IndexMap):
        try:
            value = IndexMap.from_function(value, len(earlier["index_map"].outputs))
        except TypeError as error:
            raise BadArgument(str(error)) from None
    return accept_index_map(state, value, earlier)


def accept_ranges(state: ProgramState, value: Any, earlier: dict[str, Any]) -> IndexMap:
    """A function of the block's variables that gives an index or a (begin, end) pair a
    dimension.
    """
    if isinstance(value, IndexMap):
        if len(value.outputs) % 2:
            raise BadArgument(f"takes a begin and an end for each dimension, not {value}")
        return accept_index_map(state, value, earlier)
    if not callable(value):
        raise BadArgument(f"takes a function of the block's variables, not {_describe(value)}")

    @functools.wraps(value)  # its variables keep their names
    def flattened(*indices: Any) -> tuple[Any, ...]:
        flat: list[Any] = []
        given = value(*indices)
        for item in given if isinstance(given, (tuple, list)) else (given,):
            if isinstance(item, (tuple, list)):
                if len(item) != 2:
                    raise TypeError(f"a range is a (begin, end) pair, got {item!r}")
                flat += item
            else:
                flat += [item, item + 1]
        return tuple(flat)

    try:
        traced = IndexMap.from_function(flattened, _map_dimensions(state, earlier))
    except TypeError as error:
        raise BadArgument(str(error)) from None
    return accept_index_map(state, traced, earlier)


def accept_buffer(role: str | None) -> Accept:
    """A buffer of the block in the argument before: by index, by name, or as (role, index)."""

    def accept(state: ProgramState, value: Any, earlier: dict[str, Any]) -> Any:
        block = earlier["block"]
        raw, raw_block = state.raw, state.raw_value(block)
        if isinstance(value, str):
            return _buffer_by_name(raw, raw_block, value, role)
        if role is not None:
            return accept_plain_int(state, value, earlier)
        if (
            isinstance(value, (tuple, list))
            and len(value) == 2
            and value[0] in ("read", "write")
            and type(value[1]) is int
        ):
            try:
                analysis.buffer_of(raw, raw_block, *value)
            except IndexError as error:
                raise BadArgument(str(error)) from None
            return (value[0], value[1])
        raise BadArgument(
            f'takes a buffer name or ("read" or "write", index), not {_describe(value)}'
        )

    return accept


def _buffer_by_name(raw: Any, block: Any, name: str, role: str | None) -> Any:
    reasons = []
    for candidate in (role,) if role else ("write", "read"):
        try:
            index = analysis.buffer_index(raw, block, name, candidate)
        except ValueError as error:
            reasons.append(str(error))
        else:
            return index if role else (candidate, index)
    raise BadArgument("; ".join(reasons))


def accept_weights(state: ProgramState, value: Any, earlier: dict[str, Any]) -> Any:
    """{level: {factor: weight}} as a trace stores it: ((level, ((factor, weight), ...)), ...)."""
    if value is None:
        return None
    try:
        tables = sorted(value.items()) if isinstance(value, Mapping) else list(value)
        stored = tuple((level, _weight_table(table)) for level, table in tables)
        for level, table in stored:
            accept_plain_int(state, level, earlier)
            for factor, weight in table:
                accept_plain_int(state, factor, earlier)
                accept_number(state, weight, earlier)
    except (BadArgument, TypeError, ValueError):
        raise BadArgument(f"takes {{level: {{factor: weight}}}}, not {_describe(value)}") from None
    return stored


def _weight_table(table: Any) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(table.items()) if isinstance(table, Mapping) else map(tuple, table))


def accept_distribution(state: ProgramState, value: Any, earlier: dict[str, Any]) -> Distribution:
    if isinstance(value, Distribution):
        return value
    raise BadArgument(f"takes a Distribution, not {_describe(value)}")


def accept_literal(state: ProgramState, value: Any, earlier: dict[str, Any]) -> Any:
    """Anything a trace can store: numbers, strings, handles, expressions, lists and dicts of
    them.
    """
    if value is None or isinstance(value, (bool, int, float, str, Distribution)):
        return value
    if isinstance(value, (BlockRV, LoopRV)):
        return state.own(value)
    if isinstance(value, IntExpr):
        return state.own_expr(value)
    if isinstance(value, IndexMap):
        return accept_index_map(state, value, earlier)
    if isinstance(value, (list, tuple)):
        return tuple(accept_literal(state, v, earlier) for v in value)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise BadArgument(f"takes dicts with string keys, not {_describe(key)}")
        return {key: accept_literal(state, value[key], earlier) for key in sorted(value)}
    raise BadArgument(f"cannot be stored in a trace: {_describe(value)}")


Block = Annotated[BlockRV | str, Argument("block", accept_block)]
Loop = Annotated[LoopRV, Argument("loop", accept_loop)]
BlockOrLoop = Annotated[BlockRV | LoopRV | str, Argument("block or loop", accept_block_or_loop)]
LoopOrBlocks = Annotated[
    LoopRV | Sequence[BlockRV | str], Argument("loop or blocks", accept_loop_or_blocks)
]
Loops = Annotated[Sequence[LoopRV], Argument("loops", sequence_of(accept_loop, "loops"))]
Blocks = Annotated[Sequence[BlockRV | str], Argument("blocks", sequence_of(accept_block, "blocks"))]
Integer = Annotated[int | IntExpr, Argument("integer", accept_int)]
Integers = Annotated[
    Sequence[int | IntExpr], Argument("integers", sequence_of(accept_int, "integers"))
]
Factors = Annotated[
    Sequence[int | IntExpr | None],
    Argument("factors", sequence_of(accept_factor, "factors (int, IntRV or None)")),
]
ReadBuffer = Annotated[int | str, Argument("read buffer", accept_buffer("read"))]
WriteBuffer = Annotated[int | str, Argument("write buffer", accept_buffer("write"))]
AnyBuffer = Annotated[tuple[str, int] | str, Argument("buffer", accept_buffer(None))]
Map = Annotated[IndexMap | Callable[..., Any], Argument("index map", accept_index_map)]
Ranges = Annotated[IndexMap | Callable[..., Any], Argument("ranges", accept_ranges)]
Padding = Annotated[
    int | float | IndexMap | Callable[..., Any] | None, Argument("padding", accept_padding)
]
LevelWeights = Annotated[
    Mapping[int, Mapping[int, float]] | Sequence[Any] | None, Argument("weights", accept_weights)
]
Literal = Annotated[Any, Argument("literal", accept_literal)]
DistributionValue = Annotated[Distribution, Argument("distribution", accept_distribution)]

_PLAIN: dict[Any, Argument] = {
    BlockRV: Argument("block", accept_block),
    LoopRV: Argument("loop", accept_loop),
    int: Argument("integer", accept_int),
    bool: Argument("bool", accept_bool),
    str: Argument("string", accept_str),
    float: Argument("number", accept_number),
    IndexMap: Argument("index map", accept_index_map),
    Distribution: Argument("distribution", accept_distribution),
    (str | None): Argument("string or None", accept_optional_str),
    (int | IntExpr): Argument("integer", accept_int),
}
_LITERAL = Argument("literal", accept_literal)


def argument_of(annotation: Any) -> Argument:
    """The argument kind of an annotation; what is not known takes anything a trace can store."""
    if typing.get_origin(annotation) is Annotated:
        for extra in typing.get_args(annotation)[1:]:
            if isinstance(extra, Argument):
                return extra
    origin = typing.get_origin(annotation)
    if origin in (list, collections.abc.Sequence):
        item = argument_of(typing.get_args(annotation)[0])
        return Argument(f"list of {item.name}s", sequence_of(item.accept, f"{item.name}s"))
    try:
        return _PLAIN.get(annotation, _LITERAL)
    except TypeError:
        return _LITERAL
