"""Reductions of torch, running sums and medians; normalisations, and attention.

Normalisations reduce over a batch, a layer or a group; attention normalises its scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from schedlang.tvm.relax.network_program import shape_of
from schedlang.tvm.relax.torch_arguments import (
    Converter,
    Hopeless,
    accumulator,
    argument,
    cast,
    first_of_three,
    result_type,
)
from schedlang.tvm.values import dtype_of, is_floating


def _extreme(operator: Callable[..., Any]) -> Converter:
    """A reduction over some axes, or all: ``amax``, ``amin`` and ``prod``."""

    def convert(importer: Any, node: Any) -> Any:
        x = cast(importer, argument(importer, node, 0, "input"), result_type(node))
        return _reduced(importer, node, operator, x)

    return convert


def _reduced(importer: Any, node: Any, operator: Callable[..., Any], x: Any) -> Any:
    axes = argument(importer, node, 1, "dim")
    axes = [axes] if isinstance(axes, int) else axes
    keep = bool(argument(importer, node, 2, "keepdim", False))
    return importer.block_builder.emit(operator(x, axes or None, keepdims=keep))


def _any(importer: Any, node: Any) -> Any:
    """Whether an element is not zero: the maximum of booleans."""
    x = cast(importer, argument(importer, node, 0, "input"), "bool")
    return _reduced(importer, node, relax.op.max, x) if shape_of(x) else x


def _with_place(extreme: Callable[..., Any], place: Callable[..., Any]) -> Converter:
    """``max`` or ``min`` along an axis, and where it is."""

    def convert(importer: Any, node: Any) -> Any:
        x, axis = argument(importer, node, 0, "input"), argument(importer, node, 1, "dim")
        keep = bool(argument(importer, node, 2, "keepdim", False))
        emit = importer.block_builder.emit
        found = emit(place(x, axis, keepdims=keep))
        return emit(extreme(x, axis, keepdims=keep)), cast(importer, found, "int64")

    return convert


def _running(operator: Callable[..., Any]) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        dtype = result_type(node)
        x = cast(importer, argument(importer, node, 0, "input"), dtype)
        if not shape_of(x):
            return x
        axis = argument(importer, node, 1, "dim")
        return importer.block_builder.emit(operator(x, axis, dtype))

    return convert


def _sort(importer: Any, node: Any) -> Any:
    """The numbers in order, and their places; equal ones stay in theirs, as TVM sorts stably."""
    x, emit = argument(importer, node, 0, "input"), importer.block_builder.emit
    if not shape_of(x):
        raise ValueError("there is no axis to sort along")
    # The overload `stable` has one more argument, by name only.
    shift = 1 if node.target.__name__ == "sort.stable" else 0
    axis = argument(importer, node, 1 + shift, "dim", -1) % len(shape_of(x))
    descending = bool(argument(importer, node, 2 + shift, "descending", False))
    places = emit(relax.op.argsort(x, axis, descending, "int64"))
    return emit(relax.op.gather_elements(x, places, axis)), places


def _median(importer: Any, node: Any) -> Any:
    """The lower of the two middle numbers and its place; the first NaN where there is one."""
    x, emit = argument(importer, node, 0, "input"), importer.block_builder.emit
    along_axis = node.target.__name__ == "median.dim"
    axis = argument(importer, node, 1, "dim", -1)
    keep = argument(importer, node, 2, "keepdim", False)
    if not along_axis:
        x, axis, keep = emit(relax.op.reshape(x, (math.prod(shape_of(x)),))), 0, False
    axis %= len(shape_of(x))
    middle = (shape_of(x)[axis] - 1) // 2
    order = emit(relax.op.argsort(x, axis, False, "int64"))
    places = emit(relax.op.strided_slice(order, [axis], [middle], [middle + 1]))
    values = emit(relax.op.gather_elements(x, places, axis))
    if is_floating(x):
        largest = emit(relax.op.max(x, [axis], keepdims=True))
        first = cast(importer, emit(relax.op.argmax(x, axis, keepdims=True)), "int64")
        unknown = emit(relax.op.isnan(largest))
        values = emit(relax.op.where(unknown, largest, values))
        places = emit(relax.op.where(unknown, first, places))
    if not keep:
        values, places = (emit(relax.op.squeeze(made, [axis])) for made in (values, places))
    return (values, places) if along_axis else values


def _variance_and_mean(importer: Any, node: Any) -> Any:
    x = argument(importer, node, 0, "input")
    axes = argument(importer, node, 1, "dim")
    axes = list(range(len(shape_of(x)))) if axes is None else list(axes)
    correction = argument(importer, node, 2, "correction", 1)
    keep = bool(argument(importer, node, 3, "keepdim", False))
    count = math.prod(shape_of(x)[axis] for axis in axes)
    emit = importer.block_builder.emit
    spread = emit(relax.op.variance(x, axes, keepdims=keep))
    factor = relax.const(count / max(count - correction, 0), dtype_of(x))
    return emit(relax.op.multiply(spread, factor)), emit(relax.op.mean(x, axes, keepdims=keep))


REDUCTIONS: dict[str, Converter] = {
    "amax.default": _extreme(relax.op.max),
    "amin.default": _extreme(relax.op.min),
    "prod.dim_int": _extreme(relax.op.prod),
    "any.default": _any,
    "any.dim": _any,
    "any.dims": _any,
    "max.dim": _with_place(relax.op.max, relax.op.argmax),
    "min.dim": _with_place(relax.op.min, relax.op.argmin),
    "sort.default": _sort,
    "sort.stable": _sort,
    "median.default": _median,
    "median.dim": _median,
    "cumsum.default": _running(relax.op.cumsum),
    "cumprod.default": _running(relax.op.cumprod),
    "var_mean.correction": _variance_and_mean,
}


# -- Normalisations and attention -----------------------------------------------------------------
#
# Attention is two products and a softmax, without torch's safe softmax. Torch decomposes attention
# with a mask into a softmax, a search for rows that are masked as a whole, and a choice: three more
# passes over the scores. Here such rows give zeros because the divisor of the softmax is at least
# the smallest normal number; that costs one comparison a row.


def _filled(importer: Any, given: Any, default: int, shape: Any, dtype: str) -> Any:
    """A weight in an element type; a constant where the layer has none."""
    if given is None:
        return relax.const(np.full(shape, default), dtype)
    return cast(importer, given, dtype)


def _batch_norm(importer: Any, node: Any) -> Any:
    names = ("", "weight", "bias", "running_mean", "running_var")
    x, weight, bias, mean, variance = (
        argument(importer, node, place, name) for place, name in enumerate(names)
    )
    if node.target.__name__ == "batch_norm.default":
        training, epsilon = (
            argument(importer, node, 5, "training"),
            argument(importer, node, 7, "eps"),
        )
    else:
        training, epsilon = False, argument(importer, node, 6, "eps")
    if training or mean is None or variance is None:
        raise Hopeless("it normalises by the statistics of the batch, as in training")
    channels, dtype = shape_of(mean)[0], dtype_of(mean)
    weight = _filled(importer, weight, 1, channels, dtype)
    bias = _filled(importer, bias, 0, channels, dtype)
    made = importer.block_builder.emit(
        relax.op.nn.batch_norm(
            x, weight, bias, mean, variance, axis=1, epsilon=epsilon, training=False
        )
    )
    return importer.block_builder.emit(made[0])


def _layer_norm(importer: Any, node: Any) -> Any:
    x, shape = argument(importer, node, 0, "input"), argument(importer, node, 1, "shape")
    weight, bias = argument(importer, node, 2, "weight"), argument(importer, node, 3, "bias")
    epsilon = argument(importer, node, 4, "eps", 1e-5)
    builder, dtype = importer.block_builder, dtype_of(x)
    axes = list(range(-len(shape), 0))
    if dtype == "float64":  # TVM's operator knows float32 and float16
        centred = builder.emit(relax.op.subtract(x, relax.op.mean(x, axes, keepdims=True)))
        squares = relax.op.mean(relax.op.multiply(centred, centred), axes, keepdims=True)
        spread = builder.emit(relax.op.add(squares, relax.const(epsilon, dtype)))
        made = builder.emit(relax.op.multiply(centred, relax.op.rsqrt(spread)))
        made = made if weight is None else builder.emit(relax.op.multiply(made, weight))
        return made if bias is None else builder.emit(relax.op.add(made, bias))
    wide = accumulator(dtype)
    weight = _filled(importer, weight, 1, shape, wide)
    bias = _filled(importer, bias, 0, shape, wide)
    made = relax.op.nn.layer_norm(cast(importer, x, wide), weight, bias, axes=axes, epsilon=epsilon)
    return cast(importer, builder.emit(made), dtype)


def _group_norm(importer: Any, node: Any) -> Any:
    x = argument(importer, node, 0, "input")
    if node.target.__name__ == "group_norm.default":
        places = {"num_groups": 1, "weight": 2, "bias": 3, "eps": 4}
    else:  # native_group_norm: x, weight, bias, batches, channels, elements, groups, epsilon
        places = {"weight": 1, "bias": 2, "num_groups": 6, "eps": 7}
    groups, weight, bias, epsilon = (
        argument(importer, node, places[name], name, default)
        for name, default in (("num_groups", 1), ("weight", None), ("bias", None), ("eps", 1e-5))
    )
    shape, dtype = shape_of(x), dtype_of(x)
    if dtype == "float64":
        raise ValueError("TVM normalises groups in float32 at most")
    wide = accumulator(dtype)
    weight = _filled(importer, weight, 1, shape[1], wide)
    bias = _filled(importer, bias, 0, shape[1], wide)
    axes = list(range(2, len(shape)))
    made = relax.op.nn.group_norm(
        cast(importer, x, wide), weight, bias, groups, 1, axes, epsilon=epsilon
    )
    return cast(importer, importer.block_builder.emit(made), dtype)


def _of_batch(name: str) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        if dtype_of(argument(importer, node, 0, "input")) == "float64":
            raise ValueError("TVM normalises in float32 at most")
        return importer.convert_map[name](node)

    return convert


def _attention(importer: Any, node: Any) -> Any:
    builder = importer.block_builder
    query, key, value = (argument(importer, node, place, "") for place in range(3))
    mask = argument(importer, node, 3, "attn_mask")
    if argument(importer, node, 4, "dropout_p", 0.0) > 0:
        raise Hopeless("it drops values at random, as in training; export the model in eval mode")
    causal = argument(importer, node, 5, "is_causal", False)
    scale = argument(importer, node, 6, "scale")
    if argument(importer, node, 7, "enable_gqa", False):
        key, value = (_repeated(builder, tensor, shape_of(query)[-3]) for tensor in (key, value))
    dtype, rank = dtype_of(query), len(shape_of(query))
    wide = accumulator(dtype)
    turned = [*range(rank - 2), rank - 1, rank - 2]
    transposed = builder.emit(relax.op.permute_dims(key, turned))
    scores = builder.emit(relax.op.matmul(query, transposed, wide))
    factor = 1 / math.sqrt(shape_of(query)[-1]) if scale is None else scale
    scores = builder.emit(relax.op.multiply(scores, relax.const(factor, wide)))
    if causal:
        allowed = np.tril(np.ones(shape_of(scores)[-2:], dtype=bool))
        scores = _kept(builder, scores, relax.const(allowed), wide)
    elif mask is not None and dtype_of(mask) == "bool":
        scores = _kept(builder, scores, mask, wide)
    elif mask is not None:
        scores = builder.emit(relax.op.add(scores, cast(importer, mask, wide)))
    if mask is None:
        weights = builder.emit(relax.op.nn.softmax(scores))
    else:
        weights = builder.emit_te(masked_softmax, scores, primfunc_name_hint="masked_softmax")
    weights = cast(importer, weights, dtype)
    return cast(importer, builder.emit(relax.op.matmul(weights, value, wide)), dtype)


def _repeated(builder: Any, tensor: Any, heads: int) -> Any:
    count = heads // shape_of(tensor)[-3]
    return tensor if count == 1 else builder.emit(relax.op.repeat(tensor, count, -3))


def _kept(builder: Any, scores: Any, allowed: Any, dtype: str) -> Any:
    return builder.emit(relax.op.where(allowed, scores, relax.const(-math.inf, dtype)))


def masked_softmax(scores: te.Tensor) -> te.Tensor:
    """Return the softmax over the last axis; a row of ``-inf`` gives zeros."""
    shape = [int(extent) for extent in scores.shape]
    rows, columns = shape[:-1], shape[-1]
    first, second = (te.reduce_axis((0, columns), name=name) for name in ("k", "k2"))
    # The identity of `te.max` is the lowest finite number, so a masked row has a finite maximum.
    maximum = te.compute(
        rows, lambda *i: te.max(scores[(*i, first)], axis=first), name="T_softmax_maxelem"
    )
    exponential = te.compute(
        shape, lambda *i: te.exp(scores[i] - maximum[i[:-1]]), name="T_softmax_exp"
    )
    total = te.compute(
        rows, lambda *i: te.sum(exponential[(*i, second)], axis=second), name="T_softmax_expsum"
    )
    smallest = tirx.const(float(np.finfo(str(scores.dtype)).tiny), str(scores.dtype))
    return te.compute(
        shape,
        lambda *i: exponential[i] / tirx.max(total[i[:-1]], smallest),
        name="T_softmax_norm",
    )


NORMALISATION: dict[str, Converter] = {
    "batch_norm.default": _batch_norm,
    "_native_batch_norm_legit_no_training.default": first_of_three(_batch_norm),
    **{
        name: _of_batch(name)
        for name in (
            "instance_norm.default",
            "_native_batch_norm_legit.no_stats",
            "_native_batch_norm_legit_functional.default",
        )
    },
    "layer_norm.default": _layer_norm,
    "native_layer_norm.default": first_of_three(_layer_norm),
    "group_norm.default": _group_norm,
    "native_group_norm.default": first_of_three(_group_norm),
    "scaled_dot_product_attention.default": _attention,
}
