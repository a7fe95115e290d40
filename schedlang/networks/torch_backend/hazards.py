"""What in a graph of torch may fail for some values: compiled code does not notice, and torch does.

An index that is out of range would reach foreign memory, a division of integers by zero would end
the process, and an assertion would be left out.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_INDEXING = {
    *("gather", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add"),
    *("index_copy", "index_fill", "index_put", "take", "take_along_dim", "embedding_bag"),
    *("embedding", "getitem", "one_hot", "select_scatter", "slice_scatter", "put"),
}
# Their integers are within what they are asked of.
_IN_RANGE = {"argmax", "argmin", "argsort", "sort", "topk", "max", "min", "arange", "bucketize"}
_SAME_VALUES = {"view", "reshape", "long", "int", "to", "contiguous", "flatten", "unsqueeze"}
_SAME_VALUES |= {"squeeze", "expand", "clone", "detach", "transpose", "permute"}
_DIVISIONS = {"floordiv", "mod", "remainder", "floor_divide", "fmod", "div", "divide"}
_DIVISIONS |= {"true_divide", "true_div", "truediv", "__floordiv__", "__mod__"}


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
        if name in _DIVISIONS and any(map(_is_integer, node.args[1:2])):
            return f"integers may be divided by zero ({name})", []
        if name.rstrip("_") not in _INDEXING:
            continue
        for index in _indices(node, name):
            unknown = _unknown(index, given)
            if not unknown:
                continue
            end = _rows(node) if name == "embedding" else None
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
    if node.target is operator.getitem or name == "__getitem__":
        found = node.args[1] if isinstance(node.args[1], tuple | list) else (node.args[1],)
    else:
        found = (*node.args, *node.kwargs.values())
        found = [one for part in found for one in (part if isinstance(part, list) else [part])]
    return [one for one in found if _is_integer(one)]


def _unknown(index: Any, given: Any) -> bool:
    """Tell whether integers depend on what is given in a call, and may be any."""
    left, seen = [index], set()
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in given:
            return getattr(_value(node), "dtype", None) is not None
        name = _name(node)
        if name == "getitem" and _name(node.args[0]) in _IN_RANGE:
            continue  # of topk, sort or max: their values are tensors, and their places in range
        if name not in _IN_RANGE:
            left += node.all_input_nodes
    return False


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
