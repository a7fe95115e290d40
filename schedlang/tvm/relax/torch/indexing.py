"""Elements of tensors at indices: embeddings, selections and slices of torch."""

from __future__ import annotations

from typing import Any

from tvm import relax

from schedlang.tvm.relax.program import dtype_of, shape_of
from schedlang.tvm.relax.torch.arguments import Converter, argument


def _embedding(importer: Any, node: Any) -> Any:
    weight, indices = argument(importer, node, 0, "weight"), argument(importer, node, 1, "indices")
    return importer.block_builder.emit(relax.op.take(weight, indices, axis=0))


def _index_select(importer: Any, node: Any) -> Any:
    x, axis, index = (argument(importer, node, place, "") for place in range(3))
    return importer.block_builder.emit(relax.op.take(x, index, axis=axis % len(shape_of(x))))


def _index(importer: Any, node: Any) -> Any:
    """``x[i, :, j]``: negative indices count from the end, which TVM's operators do not know."""
    x, indices = argument(importer, node, 0, "input"), argument(importer, node, 1, "indices")
    given = {axis: index for axis, index in enumerate(indices) if index is not None}
    if any(dtype_of(index) == "bool" for index in given.values()):
        raise ValueError("indexing by a mask gives a dynamic shape")
    wrapped = {axis: _wrapped(importer, x, axis, index) for axis, index in given.items()}
    if len(wrapped) == 1:
        ((axis, index),) = wrapped.items()
        return importer.block_builder.emit(relax.op.take(x, index, axis=axis))
    nodes = {node.args[1][axis]: index for axis, index in wrapped.items()}
    before = {item: importer.env[item] for item in nodes}
    importer.env.update(nodes)
    try:
        return importer.convert_map["index.Tensor"](node)
    finally:
        importer.env.update(before)


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


INDEXING: dict[str, Converter] = {
    "embedding.default": _embedding,
    "index.Tensor": _index,
    "index_select.default": _index_select,
    "select.int": _select,
}
