"""Values of operators on known tensors, computed with numpy while a network is imported.

Weights are transposed, reshaped, sliced and scaled before they are used, and masks and positions
are computed from nothing at all. TVM's ``FoldConstant`` compiles a function for each of these and
runs it unscheduled, which takes minutes for a large network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 with numpy)
import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst

from schedlang.tvm.relax.network_program import operator, shape_of

Value = Any
"""A numpy array, or a tuple of them for an operator with several results."""


def evaluate(expr: Any, known: Callable[[Any], Value | None]) -> Value | None:
    """Return the value of an expression, or None if it is not known or has no rule here.

    ``known`` returns the value of a variable, or None.
    """
    if isinstance(expr, relax.Var):
        return known(expr)
    if isinstance(expr, GenericConst):
        return expr.value.numpy()
    if isinstance(expr, relax.Tuple):
        values = [evaluate(field, known) for field in expr.fields]
        return None if any(value is None for value in values) else tuple(values)
    if isinstance(expr, relax.TupleGetItem):
        whole = evaluate(expr.tuple_value, known)
        return None if whole is None else whole[int(expr.index)]
    rule = _RULES.get(operator(expr))
    if rule is None:
        return None
    arguments = []
    for argument in expr.args:
        value = _plain(argument)
        if value is None:
            value = evaluate(argument, known)
        if value is None:
            return None
        arguments.append(value)
    with np.errstate(all="ignore"):
        value = rule(expr.attrs, *arguments)
        return None if value is None else _typed(value, expr)


def _typed(value: Value, expr: Any) -> Value | None:
    """The value in the type of the expression; None where its shape is not what TVM inferred."""
    if isinstance(value, tuple):
        return value
    if not isinstance(expr.ty, relax.TensorType) or np.shape(value) != shape_of(expr):
        return None
    dtype = _dtype(expr.ty.dtype)
    if getattr(value, "dtype", None) == dtype:
        return value
    if 0 in getattr(value, "strides", ()):  # a view of fewer elements: convert those only
        return np.broadcast_to(compact(value).astype(dtype), value.shape)
    return np.asarray(value).astype(dtype)


def compact(value: np.ndarray) -> np.ndarray:
    """Return a tensor with extent 1 in each axis along which it repeats one element."""
    return value[tuple(slice(0, 1) if step == 0 else slice(None) for step in value.strides)]


def _dtype(dtype: Any) -> np.dtype[Any]:
    return np.dtype(str(dtype))


def _plain(argument: Any) -> Any:
    """Shapes, numbers and tuples of numbers among the arguments; None for a tensor."""
    if isinstance(argument, relax.ShapeExpr):
        return [int(extent) for extent in argument.values]
    if isinstance(argument, tirx.IntImm | tirx.FloatImm):
        return argument.value
    if isinstance(argument, relax.Tuple) and len(argument.fields):
        values = [_plain(field) for field in argument.fields]
        return None if any(value is None for value in values) else values
    return None


def _axes(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(int(axis) for axis in value)


def _split(attrs: Any, x: Any) -> tuple[Any, ...]:
    parts = attrs.indices_or_sections
    if isinstance(parts, tvm.runtime.Object) and not isinstance(parts, tirx.IntImm):
        return tuple(np.split(x, [int(place) for place in parts], axis=attrs.axis))
    sections = int(parts)
    size = -(-x.shape[attrs.axis] // sections)
    return tuple(np.split(x, [size * part for part in range(1, sections)], axis=attrs.axis))


def _slice(attrs: Any, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
    chosen = [slice(None)] * x.ndim
    for place, axis in enumerate(axes):
        step = 1 if strides is None else strides[place]
        if step < 0:
            return None
        chosen[axis] = slice(begin[place], end[place], step)
    return x[tuple(chosen)]


def _pad(attrs: Any, x: Any) -> Any:
    if str(attrs.pad_mode) != "constant":
        return None
    widths = [int(width) for width in attrs.pad_width]
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    return np.pad(x, pairs, constant_values=attrs.pad_value)


def _take(attrs: Any, x: Any, indices: Any) -> Any:
    axis, indices = None if attrs.axis is None else int(attrs.axis), np.asarray(indices)
    extent = np.size(x) if axis is None else np.shape(x)[axis]
    # What is out of range is left to the checks, which refuse it.
    if str(attrs.mode) == "fast" and not _within(indices, 0, extent):
        return None
    return np.take(x, indices, axis=axis, mode="clip")


def _gather(attrs: Any, x: Any, places: Any) -> Any:
    axis = int(attrs.axis)
    return np.take_along_axis(x, places, axis) if _within(places, 0, x.shape[axis]) else None


def _select(attrs: Any, x: Any, indices: Any) -> Any:
    pairs = zip(indices, np.shape(x), strict=False)
    return x[indices] if all(_within(one, -extent, extent) for one, extent in pairs) else None


def _within(places: Any, low: int, end: int) -> bool:
    return not np.size(places) or bool(np.min(places) >= low and np.max(places) < end)


def _rounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A division that rounds; of integers by zero there is none."""

    def rule(attrs: Any, left: Any, right: Any) -> Any:
        whole = np.issubdtype(np.result_type(right), np.integer)
        return None if whole and np.any(right == 0) else function(left, right)

    return rule


def _statistic(function: Callable[..., Any]) -> Callable[..., Any]:
    def rule(attrs: Any, x: Any) -> Any:
        return function(x, axis=_axes(attrs.axis), keepdims=bool(attrs.keepdims))

    return rule


def _numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda attrs, *arguments: function(*arguments)


def _divide(attrs: Any, left: Any, right: Any) -> Any:
    if np.issubdtype(np.result_type(left), np.integer):
        return None
    return np.divide(left, right)


def _squeeze(attrs: Any, x: Any) -> Any:
    return np.squeeze(x, axis=_axes(attrs.axis))


def _expand(attrs: Any, x: Any) -> Any:
    return np.expand_dims(x, axis=_axes(attrs.axis) or ())


def _filled(attrs: Any, value: int, shape: Sequence[int]) -> Any:
    """A tensor of one value, as a view of one element."""
    return np.broadcast_to(np.asarray(value, _dtype(attrs.dtype)), shape)


def _running_sum(attrs: Any, x: Any) -> Any:
    if attrs.exclusive:
        return None
    dtype = x.dtype if attrs.dtype is None else _dtype(attrs.dtype)
    return np.cumsum(x, axis=None if attrs.axis is None else int(attrs.axis), dtype=dtype)


def _repeat(attrs: Any, x: Any) -> Any:
    return np.repeat(x, int(attrs.repeats), axis=None if attrs.axis is None else int(attrs.axis))


def _concat(attrs: Any, parts: Sequence[Any]) -> Any:
    return np.concatenate(parts, axis=0 if attrs.axis is None else int(attrs.axis))


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negative": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "square": np.square,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_not": np.invert,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
    "where": np.where,
    "clip": np.clip,
}
_RULES: dict[str, Callable[..., Any]] = {
    **{f"relax.{name}": _numpy(function) for name, function in _ELEMENTWISE.items()},
    "relax.divide": _divide,
    "relax.floor_divide": _rounded(np.floor_divide),
    "relax.floor_mod": _rounded(np.mod),
    "relax.reshape": _numpy(np.reshape),
    "relax.broadcast_to": _numpy(np.broadcast_to),
    "relax.permute_dims": lambda attrs, x: np.transpose(x, _axes(attrs.axes)),
    "relax.expand_dims": _expand,
    "relax.squeeze": _squeeze,
    "relax.astype": lambda attrs, x: np.asarray(x).astype(_dtype(attrs.dtype)),
    "relax.strided_slice": _slice,
    "relax.split": _split,
    "relax.concat": _concat,
    "relax.nn.pad": _pad,
    "relax.stack": lambda attrs, parts: np.stack(parts, axis=int(attrs.axis or 0)),
    "relax.flip": lambda attrs, x: np.flip(x, axis=int(attrs.axis)),
    "relax.repeat": _repeat,
    "relax.cumsum": _running_sum,
    "relax.index_tensor": _select,
    "relax.gather_elements": _gather,
    "relax.tile": lambda attrs, x: np.tile(x, tuple(int(count) for count in attrs.repeats)),
    "relax.take": _take,
    "relax.matmul": lambda attrs, left, right: np.matmul(left, right),
    "relax.sum": _statistic(np.sum),
    "relax.mean": _statistic(np.mean),
    "relax.arange": lambda attrs, start, end, step: np.arange(start, end, step),
    "relax.full": lambda attrs, shape, value: np.broadcast_to(value, shape),
    "relax.zeros": lambda attrs, shape: _filled(attrs, 0, shape),
    "relax.ones": lambda attrs, shape: _filled(attrs, 1, shape),
    "relax.zeros_like": lambda attrs, x: np.broadcast_to(np.zeros((), x.dtype), x.shape),
    "relax.ones_like": lambda attrs, x: np.broadcast_to(np.ones((), x.dtype), x.shape),
    "relax.full_like": lambda attrs, x, value: np.broadcast_to(value, x.shape),
    "relax.tril": lambda attrs, x, diagonal: np.tril(x, diagonal),
    "relax.triu": lambda attrs, x, diagonal: np.triu(x, diagonal),
}
