"""What torch demands of values in operators that it decomposes into others, which demand less.

``index_add`` refuses negative indices, and ``index_put``, which it becomes, does not;
``binary_cross_entropy`` becomes logarithms, which take any number. So their decompositions begin
with a call of an operator of our own that states the demand; its converter checks it in each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping
from functools import cache
from typing import Any

Within = Callable[[Any, float, float, str], Any]
Demand = Callable[[dict[str, Any], Within], None]
"""Changes the arguments of a call, by name, to ones whose values are looked at."""


def state_demands(torch: Any, table: MutableMapping[Any, Callable[..., Any]]) -> None:
    """Let the decompositions of a table state what their operators demand."""
    for operator in list(table.keys()):
        demand = _DEMANDS.get(str(operator))
        if demand is not None:
            table[operator] = _stating(torch, operator, table[operator], demand)


def _stating(
    torch: Any, operator: Any, decomposition: Callable[..., Any], demand: Demand
) -> Callable[..., Any]:
    parameters = operator._schema.arguments
    within = _within(torch)

    def decomposed(*args: Any, **kwargs: Any) -> Any:
        call = {one.name: one.default_value for one in parameters if one.has_default_value()}
        call.update(zip((one.name for one in parameters), args, strict=False))
        call.update(kwargs)
        demand(call, within)
        positional = [call[one.name] for one in parameters if not one.kwarg_only]
        named = {one.name: call[one.name] for one in parameters if one.kwarg_only}
        return decomposition(*positional, **named)

    return decomposed


def _rows(call: Mapping[str, Any]) -> int:
    x = call["self"]
    return int(x.shape[call["dim"]]) if x.dim() else 1


def _from_zero(name: str, end: Callable[[Mapping[str, Any]], int], of: str) -> Demand:
    """Demand that an argument is from 0 to below an end."""

    def demand(call: dict[str, Any], within: Within) -> None:
        call[name] = within(call[name], 0.0, float(end(call) - 1), f"an index of {of}")

    return demand


def _probabilities(call: dict[str, Any], within: Within) -> None:
    call["self"] = within(call["self"], 0.0, 1.0, "a probability of binary_cross_entropy")
    call["target"] = within(call["target"], 0.0, 1.0, "a target of binary_cross_entropy")


def _from_end(call: dict[str, Any], _: Within) -> None:
    """Let negative indices count from the end: torch makes an ``index_copy`` of it, which not."""
    index = call["index"]
    call["index"] = (index < 0) * _rows(call) + index


def _pooled(call: Mapping[str, Any]) -> int:
    return math.prod(call["output_size"])


_DEMANDS: Mapping[str, Demand] = {
    "aten.index_add.default": _from_zero("index", _rows, "index_add"),
    "aten.index_copy.default": _from_zero("index", _rows, "index_copy"),
    "aten.index_fill.int_Scalar": _from_end,
    "aten.index_fill.int_Tensor": _from_end,
    "aten.max_unpool2d.default": _from_zero("indices", _pooled, "max_unpool2d"),
    "aten.max_unpool3d.default": _from_zero("indices", _pooled, "max_unpool3d"),
    "aten.one_hot.default": _from_zero("self", lambda call: call["num_classes"], "one_hot"),
    "aten.binary_cross_entropy.default": _probabilities,
}


@cache
def _within(torch: Any) -> Any:
    """Return the operator that gives back a tensor whose values are in a range."""

    def within(x: Any, low: float, high: float, what: str) -> Any:
        return x.clone()

    schema = "(Tensor x, float low, float high, str what) -> Tensor"
    made = torch.library.custom_op("schedlang::within", within, mutates_args=(), schema=schema)
    made.register_fake(within)
    return torch.ops.schedlang.within.default
