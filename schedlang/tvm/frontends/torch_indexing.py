"""Elements of tensors at indices: embeddings, selections and slices of torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

from schedlang.tvm.frontends.torch_arguments import Converter, Hopeless, argument, cast
from schedlang.tvm.relax.integer_ranges import check_call, index_check, outside
from schedlang.tvm.relax.network_program import shape_of
from schedlang.tvm.values import dtype_of, is_integer


def _embedding(importer: Any, node: Any) -> Any:
    weight, indices = argument(importer, node, 0, "weight"), argument(importer, node, 1, "indices")
    return importer.block_builder.emit(relax.op.take(weight, indices, axis=0))


def _index_select(importer: Any, node: Any) -> Any:
    x, axis, index = (argument(importer, node, place, "") for place in range(3))
    return importer.block_builder.emit(relax.op.take(x, index, axis=axis % len(shape_of(x))))


def _index(importer: Any, node: Any) -> Any:
    """``x[i, :, j]``: one ``take`` along the indexed axes, which become one axis."""
    x, indices = argument(importer, node, 0, "input"), argument(importer, node, 1, "indices")
    given, emit = _given(indices), importer.block_builder.emit
    if len(given) == 1:
        ((axis, index),) = given.items()
        return emit(relax.op.take(x, _wrapped(importer, x, axis, index), axis=axis))
    table = _table(importer, x, given)
    made = emit(relax.op.take(table.rows, table.places, axis=0))
    return emit(relax.op.permute_dims(made, table.order)) if table.order else made


def _given(indices: Sequence[Any]) -> dict[int, Any]:
    """The indices by their axis."""
    given = {axis: index for axis, index in enumerate(indices) if index is not None}
    if any(dtype_of(index) == "bool" for index in given.values()):
        raise Hopeless("indexing by a mask gives a dynamic shape")
    return given


def _index_put(importer: Any, node: Any) -> Any:
    """``x[i, :, j] = values``, or ``+=``: rows that are written along the indexed axes."""
    x, indices, values = (argument(importer, node, place, "") for place in range(3))
    adds = bool(argument(importer, node, 3, "accumulate", False))
    emit = importer.block_builder.emit
    table = _table(importer, x, _given(indices))
    selected = (*shape_of(table.places), *shape_of(table.rows)[1:])
    turned = tuple(selected[axis] for axis in table.order) or selected
    values = emit(relax.op.broadcast_to(cast(importer, values, dtype_of(x)), turned))
    if table.order:
        back = [table.order.index(axis) for axis in range(len(selected))]
        values = emit(relax.op.permute_dims(values, back))
    count = math.prod(shape_of(table.places))
    last = shape_of(table.rows)[0] - 1
    places = emit(relax.op.reshape(table.places, (count, 1)))
    # A place outside would be written in foreign memory.
    places = emit(relax.op.clip(places, 0, last))
    values = emit(relax.op.reshape(values, (count, *shape_of(table.rows)[1:])))
    written = emit(relax.op.scatter_nd(table.rows, places, values, "add" if adds else "update"))
    shape = [shape_of(x)[axis] for axis in table.axes]
    written = emit(relax.op.reshape(written, tuple(shape)))
    return emit(
        relax.op.permute_dims(written, [table.axes.index(axis) for axis in range(len(shape))])
    )


@dataclass(frozen=True)
class _IndexedTensors:
    """A tensor whose indexed axes are one axis, the first.

    Attributes
    ----------
    rows: the tensor.
    axes: of the original tensor, the indexed ones first.
    places: the rows that are indexed; indices are broadcast against each other.
    order: of the axes of a selection as torch orders them: where the first indexed axis was, or
        first where the indexed ones are apart; empty where that is the order of ``take``.
    """

    rows: Any
    axes: list[int]
    places: Any
    order: list[int]


def _table(importer: Any, x: Any, given: Mapping[int, Any]) -> _IndexedTensors:
    emit, shape = importer.block_builder.emit, shape_of(x)
    axes = list(given)
    others = [axis for axis in range(len(shape)) if axis not in given]
    places = None
    for axis, index in given.items():
        index = cast(importer, _wrapped(importer, x, axis, index), "int64")
        # One that is too large would be another row of the table.
        index = emit(index_check(index, shape[axis], "[...]"))
        if places is None:
            places = index
        else:
            scaled = emit(relax.op.multiply(places, relax.const(shape[axis], "int64")))
            places = emit(relax.op.add(scaled, index))
    front = emit(relax.op.permute_dims(x, [*axes, *others]))
    count, left = math.prod(shape[axis] for axis in axes), [shape[axis] for axis in others]
    rows = emit(relax.op.reshape(front, (count, *left)))
    rank = len(shape_of(places))
    before = sum(axis < axes[0] for axis in others)
    order: list[int] = []
    if before and axes == list(range(axes[0], axes[-1] + 1)):
        whole = rank + len(others)
        order = [*range(rank, rank + before), *range(rank), *range(rank + before, whole)]
    return _IndexedTensors(rows, [*axes, *others], places, order)


def _wrapped(importer: Any, x: Any, axis: int, index: Any) -> Any:
    emit, dtype = importer.block_builder.emit, dtype_of(index)
    below = emit(relax.op.less(index, relax.const(0, dtype)))
    above = emit(relax.op.add(index, relax.const(shape_of(x)[axis], dtype)))
    return emit(relax.op.where(below, above, index))


def _select(importer: Any, node: Any) -> Any:
    x, axis, place = (argument(importer, node, position, "") for position in range(3))
    axis %= len(shape_of(x))
    place %= shape_of(x)[axis]
    one = importer.block_builder.emit(relax.op.strided_slice(x, [axis], [place], [place + 1]))
    return importer.block_builder.emit(relax.op.squeeze(one, [axis]))


def _scatter(importer: Any, node: Any) -> Any:
    """TVM's ``scatter``, where negative indices count from the end, which torch refuses."""
    x, axis, index = (argument(importer, node, place, "") for place in range(3))
    given = importer.env[node.args[2]]
    extent = shape_of(x)[axis] if shape_of(x) else 1
    importer.env[node.args[2]] = importer.block_builder.emit(index_check(index, extent, "scatter"))
    try:
        return importer.convert_map[node.target.__name__](node)
    finally:
        importer.env[node.args[2]] = given


def _within(importer: Any, node: Any) -> Any:
    """What an operator demands of values before torch decomposes it: see ``demands``."""
    x, low, high, what = (argument(importer, node, place, "") for place in range(4))
    emit = importer.block_builder.emit
    message = outside(what, low, high)
    if is_integer(x):
        return emit(check_call(x, (int(low), int(high)), message))
    dtype = dtype_of(x)
    above = emit(relax.op.greater_equal(x, relax.const(low, dtype)))
    below = emit(relax.op.less_equal(x, relax.const(high, dtype)))
    inside = emit(relax.op.astype(emit(relax.op.logical_and(above, below)), "int32"))
    passed = emit(check_call(inside, (1, 1), message))
    return emit(relax.op.multiply(x, emit(relax.op.astype(passed, dtype))))


INDEXING: dict[str, Converter] = {
    "embedding.default": _embedding,
    "index.Tensor": _index,
    "index_put.default": _index_put,
    "index_select.default": _index_select,
    "select.int": _select,
    "scatter.src": _scatter,
    "scatter.value": _scatter,
    "within.default": _within,
}
