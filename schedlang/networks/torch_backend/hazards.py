"""What in a graph of torch may fail for some values: compiled code does not notice, and torch does.

An index that is out of range would reach foreign memory, a division of integers by zero would end
the process, and an assertion would be left out.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_INDEXING = {
    *("gather", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add"),
    *("index_copy", "index_fill", "index_put", "index_reduce", "take", "take_along_dim", "put"),
    *("embedding", "embedding_bag", "getitem", "setitem", "one_hot", "nll_loss", "cross_entropy"),
}
# Of their results, or the second of them, the integers are below the extent of an axis.
_PLACES, _SECOND_PLACES = {"argmax", "argmin", "argsort"}, {"sort", "topk", "max", "min"}
_SAME_VALUES = {"view", "reshape", "long", "int", "to", "contiguous", "flatten", "unsqueeze"}
_SAME_VALUES |= {"squeeze", "expand", "clone", "detach", "transpose", "permute"}
_DIVISIONS = {"floordiv", "ifloordiv", "mod", "imod", "remainder", "floor_divide", "fmod", "div"}
_DIVISIONS |= {"divide", "true_divide", "true_div", "truediv", "__floordiv__", "__mod__"}


@dataclass(frozen=True)
class Bound:
    """The integers of an input have to be from 0 to below ``end``."""

    number: int
    end: int

    def holds(self, inputs: Sequence[Any]) -> bool:
        """Look at the values."""
        tensor = inputs[self.number]
        return not tensor.numel() or bool(tensor.min() >= 0 and tensor.max() < self.end)


def hazards(module: Any, is_weight: Sequence[bool]) -> tuple[str, list[Bound]]:
    """Say why torch has to run a graph, if so; and what its inputs have to be, in each call."""
    bounds: list[Bound] = []
    nodes = list(module.graph.nodes)
    places = [node for node in nodes if node.op == "placeholder"]
    given = {node: k for k, node in enumerate(places) if not is_weight[k]}
    for node in nodes:
        name = _name(node)
        if "_assert" in name and "tensor_metadata" not in name:
            return f"it asserts something ({name})", []
        divisors = (*node.args[1:2], node.kwargs.get("other"))
        if {name, name.rstrip("_")} & _DIVISIONS and any(map(_is_integer, divisors)):
            return f"integers may be divided by zero ({name})", []
        if name.rstrip("_") not in _INDEXING:
            continue
        for index in _indices(node, name):
            end = _rows(node) if name == "embedding" else None
            if not _unknown(index, given) or _reaches(index) <= (end or _least(node, index)):
                continue
            source = _source(index)
            if end is None or source not in given:
                return f"an index may be out of range ({name})", []
            bounds.append(Bound(given[source], end))
    return "", bounds


def _name(node: Any) -> str:
    if not node.op.startswith("call_"):
        return ""
    target = node.target
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def _value(node: Any) -> Any:
    return node.meta.get("example_value") if hasattr(node, "meta") else None


def _is_integer(node: Any) -> bool:
    dtype = getattr(_value(node), "dtype", None)
    return dtype is not None and not (dtype.is_floating_point or dtype.is_complex)


def _indices(node: Any, name: str) -> list[Any]:
    """Return the nodes of integers that may be indices of a call."""
    if node.target in (operator.getitem, operator.setitem):
        found = node.args[1] if isinstance(node.args[1], tuple | list) else (node.args[1],)
    else:
        found = (*node.args, *node.kwargs.values())
        found = [one for part in found for one in (part if isinstance(part, list) else [part])]
    return [one for one in found if _is_integer(one)]


def _unknown(index: Any, given: Any) -> bool:
    """Tell whether integers depend on a tensor that is given in a call."""
    left, seen = [index], set()
    while left:
        node = left.pop()
        if node in given and getattr(_value(node), "dtype", None) is not None:
            return True
        if node not in seen:
            seen.add(node)
            left += node.all_input_nodes
    return False


def _reaches(index: Any) -> float:
    """Return what integers are below, where they are places along an axis; else infinity."""
    node = _source(index)
    if _name(node) == "getitem" and node.args[1] == 1 and _name(node.args[0]) in _SECOND_PLACES:
        node = node.args[0]
    elif _name(node) not in _PLACES:
        return math.inf
    value = _value(node.args[0]) if node.args else None
    extents = getattr(value, "shape", ())
    plain = extents and all(isinstance(one, int) for one in extents)
    # Without an axis, some of these count all elements.
    if not plain:
        return math.inf
    return float(max(extents) if len(node.args) + len(node.kwargs) > 1 else math.prod(extents))


def _least(node: Any, index: Any) -> float:
    """Return the least extent of the tensor that a call indexes; 0 where it is not known."""
    indexed = node.args[0] if node.args else None
    extents = getattr(_value(indexed), "shape", ())
    known = indexed is not index and extents and all(isinstance(one, int) for one in extents)
    return float(min(extents)) if known else 0.0


def _source(index: Any) -> Any:
    """Return the node that integers are from, through views and conversions."""
    while _name(index) in _SAME_VALUES and index.args:
        index = index.args[0]
    return index


def _rows(node: Any) -> int | None:
    """Return the number of rows of an embedding's table."""
    for one in (*node.args, *node.kwargs.values()):
        value = _value(one)
        if value is not None and not _is_integer(one):
            return int(value.shape[0])
    return None
