"""Arguments that may be anything that a trace can store."""

from __future__ import annotations

from typing import Annotated, Any

from schedlang.distributions import Distribution
from schedlang.expressions import IndexMap, IntExpr
from schedlang.instructions.arguments.base import Argument, Earlier, TVMPart, TVMReading, described
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.instructions.state import BadArgument, ProgramState


class LiteralArgument(Argument):
    """Anything that a trace can store, including values of no other argument type."""

    name = "literal"
    takes = "anything that a trace can store: numbers, strings, handles, lists, dicts"
    takes_drawn = True
    tvm_reading: TVMReading = "value"
    tvm_part: TVMPart | None = "inputs"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        if value is None or isinstance(value, (bool, int, float, str, Distribution)):
            return value
        if isinstance(value, (BlockRV, LoopRV)):
            return state.own(value)
        if isinstance(value, IntExpr):
            return state.own_expr(value)
        if isinstance(value, IndexMap):
            return own_map(state, value)
        if isinstance(value, (list, tuple)):
            return tuple(self.accept(state, item, earlier) for item in value)
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise BadArgument(f"takes dicts with string keys, not {described(key)}")
            return {key: self.accept(state, value[key], earlier) for key in sorted(value)}
        raise BadArgument(f"cannot be stored in a trace: {described(value)}")


def own_map(state: ProgramState, value: IndexMap) -> IndexMap:
    """Return an index map as a trace stores it, if its random variables belong to the program."""
    value = value.with_plain_names()
    outputs = (state.own_expr(e) if isinstance(e, IntExpr) else e for e in value.outputs)
    return IndexMap(value.inputs, tuple(outputs))


Literal = Annotated[Any, LiteralArgument()]
