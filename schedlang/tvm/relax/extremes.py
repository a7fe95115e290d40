"""Rules of legalisation about the order of numbers: maxima, minima, pooling, their places, sorting.

They keep NaN, as torch, numpy and ONNX do. At the end is what all rules of legalisation share.
TVM's ``max(a, b)`` is ``b`` if one of the two is NaN. With a bound for ``a`` that is enough, and
as fast as before; between two tensors, and in reductions, a NaN in ``a`` is kept by a choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx, topi
from tvm.ir import GenericConst

from schedlang.tvm.relax.network_program import shape_of
from schedlang.tvm.values import dtype_of, is_floating

# -- Maxima and minima that keep NaN, and pooling of windows --------------------------------------


def _keeping(name: str) -> Callable[[Any, Any], Any]:
    """The maximum or minimum of two numbers, either of which may be NaN."""
    return lambda a, b: tirx.Select(is_number(b), _CHOOSE[name](b, a), b)


_CHOOSE = {"max": tirx.max, "min": tirx.min}


def reducer(name: str) -> Any:
    """Return the reduction ``"max"`` or ``"min"`` of floating-point numbers, which keeps NaN.

    It computes on the numbers as they are. Its identity is infinite: that of ``te.max`` is the
    lowest finite number.
    """
    worst = -math.inf if name == "max" else math.inf
    return te.comm_reducer(_keeping(name), lambda dtype: tirx.const(worst, dtype), name)


def relu(bb: Any, call: Any) -> Any:
    """``max(0, x)``."""
    x = call.args[0]
    zero = tirx.const(0, dtype_of(x))
    return bb.call_te(_elementwise(lambda value: tirx.max(zero, value), "relu"), x)


def clip(bb: Any, call: Any) -> Any:
    """``min(high, max(low, x))``: where the bounds are crossed, the upper one counts."""
    x, low, high = call.args
    return _bounded(bb, x, float(low.value), float(high.value), "tir_clip")


def _bounded(bb: Any, x: Any, low: float, high: float, name: str) -> Any:
    dtype = dtype_of(x)

    def within(value: Any) -> Any:
        if low != -math.inf:
            value = tirx.max(_bound(low, dtype), value)
        return value if high == math.inf else tirx.min(_bound(high, dtype), value)

    return bb.call_te(_elementwise(within, name), x)


def _bound(value: float, dtype: str) -> Any:
    return tirx.const(value if is_floating(dtype) else int(value), dtype)


def _elementwise(function: Callable[[Any], Any], name: str) -> Callable[[te.Tensor], te.Tensor]:
    def made(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *place: function(x[place]), "compute")

    made.__name__ = name
    return made


def pairwise(name: str) -> Rule:
    """Return the rule of ``relax.maximum`` or ``relax.minimum``."""

    def rule(bb: Any, call: Any) -> Any:
        one, other = call.args
        if not is_floating(one):
            return default(bb, call)
        for bound, tensor in ((one, other), (other, one)):
            value = number(bound)
            if value is not None and not math.isnan(value):
                low, high = (value, math.inf) if name == "max" else (-math.inf, value)
                return _bounded(bb, tensor, low, high, f"{name}imum")
        return bb.call_te(paired(_keeping(name)), one, other, primfunc_name_hint=f"{name}imum")

    return rule


def reduction(name: str) -> Rule:
    """Return the rule of ``relax.max`` or ``relax.min``."""

    def rule(bb: Any, call: Any) -> Any:
        x, dtype = call.args[0], dtype_of(call.args[0])
        if dtype == "bool":
            if 0 in shape_of(x):  # a reduction without steps writes nothing
                return bb.call_te(topi.full, shape_of(call), "bool", name == "min")
            return relax.op.astype(computed_as(bb, call, "uint8"), "bool")
        if not is_floating(dtype):
            return default(bb, call)
        axes = None if call.attrs.axis is None else [int(axis) for axis in call.attrs.axis]
        keep = bool(call.attrs.keepdims)

        return bb.call_te(lambda data: reduced(data, axes, keep), x, primfunc_name_hint=name)

    def reduced(x: te.Tensor, axes: Sequence[int] | None, keep: bool) -> te.Tensor:
        rank, reduce = len(x.shape), te.max if name == "max" else te.min
        chosen = {axis % rank for axis in (range(rank) if axes is None else axes)}
        inner = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in sorted(chosen)}
        left = [axis for axis in range(rank) if keep or axis not in chosen]

        def element(*place: Any) -> Any:
            outer = dict(zip(left, place, strict=True))
            index = tuple(inner[axis] if axis in inner else outer[axis] for axis in range(rank))
            value = key(x[index], str(x.dtype), unknown_first=name == "min")
            return reduce(value, axis=list(inner.values()))

        shape = [1 if axis in chosen else x.shape[axis] for axis in left]
        return numbers(te.compute(shape, element, f"x_red_{name}"), str(x.dtype))

    return rule


def max_pool(bb: Any, call: Any) -> Any:
    """The maximum of each window, of 1, 2 or 3 spatial axes in any place."""
    attrs, x = call.attrs, call.args[0]
    layout = str(attrs.layout)
    if not is_floating(x) or not layout.isalpha() or str(attrs.out_layout) != layout:
        return default(bb, call)
    axes = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    count, shape, after = len(axes), shape_of(x), shape_of(call)
    sizes, strides, dilation, padding = (
        [int(value) for value in values]
        for values in (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding)
    )
    front, back = [0] * len(shape), [0] * len(shape)
    for place, axis in enumerate(axes):
        front[axis] = padding[place]
        reach = (after[axis] - 1) * strides[place] + (sizes[place] - 1) * dilation[place] + 1
        # With `ceil_mode` the last window reaches further than the padding.
        back[axis] = max(padding[count + place], reach - shape[axis] - padding[place])
        back[axis] = max(back[axis], 0)

    def pooled(data: te.Tensor) -> te.Tensor:
        padded = data
        if any(front) or any(back):
            lowest = tirx.const(-math.inf, data.dtype)
            padded = topi.nn.pad(data, front, back, lowest, name="pad_temp")
        inner = [te.reduce_axis((0, size), f"rv{place}") for place, size in enumerate(sizes)]

        def element(*index: Any) -> Any:
            chosen = list(index)
            for place, axis in enumerate(axes):
                chosen[axis] = index[axis] * strides[place] + inner[place] * dilation[place]
            return reducer("max")(padded[tuple(chosen)], axis=inner)

        return te.compute(after, element, "pool_max", tag="pool_max")

    return bb.call_te(pooled, x, primfunc_name_hint=f"max_pool{count}d")


def adaptive_mean(bb: Any, call: Any) -> Any:
    """The mean of each window, where the windows of an axis may differ in size.

    The reduction is as long as the longest window; in shorter ones its last steps add zero.
    """
    x, layout = call.args[0], str(call.attrs.layout)
    axes = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    before, after = shape_of(x), shape_of(call)
    uneven = [axis for axis in axes if before[axis] % after[axis]]
    if not uneven or not layout.isalpha():
        return default(bb, call)

    def start(axis: int, place: Any) -> Any:
        return place * before[axis] // after[axis]

    def end(axis: int, place: Any) -> Any:
        return -((-(place + 1) * before[axis]) // after[axis])

    longest = {
        axis: max(end(axis, place) - start(axis, place) for place in range(after[axis]))
        for axis in axes
    }

    def symbolic_start(axis: int, place: Any) -> Any:
        return tirx.floordiv(place * before[axis], after[axis])

    def symbolic_end(axis: int, place: Any) -> Any:
        return tirx.floordiv((place + 1) * before[axis] + after[axis] - 1, after[axis])

    def pooled(data: te.Tensor) -> te.Tensor:
        inner = {axis: te.reduce_axis((0, longest[axis]), f"rv{axis}") for axis in axes}
        zero = tirx.const(0, data.dtype)

        def total(*index: Any) -> Any:
            chosen, inside = list(index), []
            for axis in axes:
                chosen[axis] = symbolic_start(axis, index[axis]) + inner[axis]
                if axis in uneven:
                    inside.append(chosen[axis] < symbolic_end(axis, index[axis]))
            value = data[tuple(chosen)]
            value = tirx.if_then_else(tirx.all(*inside), value, zero)
            return te.sum(value, axis=list(inner.values()))

        sums = te.compute(after, total, "adaptive_pool_sum", tag="adaptive_pool_sum")

        def mean(*index: Any) -> Any:
            count = tirx.const(1, "int32")
            for axis in axes:
                count = count * (
                    symbolic_end(axis, index[axis]) - symbolic_start(axis, index[axis])
                )
            return sums[index] / count.astype(data.dtype)

        return te.compute(after, mean, "adaptive_pool_avg")

    return bb.call_te(pooled, x, primfunc_name_hint=f"adaptive_avg_pool{len(axes)}d")


# -- Where the largest and the smallest numbers are, and their order ------------------------------


def first_place(name: str) -> Rule:
    """Return the rule of ``relax.argmax`` or ``relax.argmin``.

    The first of several equal numbers is taken, and a NaN before all others in both.
    """

    def rule(bb: Any, call: Any) -> Any:
        x, axis = call.args[0], call.attrs.axis
        shape, dtype = shape_of(x), dtype_of(x)
        if dtype in ("bool", "bfloat16"):  # neither can be passed on from step to step
            x = bb.emit(relax.op.astype(x, "int8" if dtype == "bool" else "float32"))
        if axis is None:
            x = bb.emit(relax.op.reshape(x, (math.prod(shape),)))
        place = 0 if axis is None else int(axis) % len(shape)
        made = bb.emit(
            bb.call_te(lambda data: searched(data, place), x, primfunc_name_hint=f"arg{name}")
        )
        made = made if dtype_of(made) == dtype_of(call) else relax.op.astype(made, dtype_of(call))
        return relax.op.reshape(made, shape_of(call))

    def searched(data: te.Tensor, axis: int) -> te.Tensor:
        dtype = str(data.dtype)
        find = topi.argmax if name == "max" else topi.argmin
        if is_floating(dtype):
            return find(keys(data, unknown_first=name == "min"), axis)
        # Of the lowest numbers alone, TVM finds none.
        return find(topi.cast(data, "int64") if dtype != "int64" else data, axis)

    return rule


_SORTED = ("int32", "int64")
"""Element types that TVM's sorting knows, in which NaN cannot be."""


def argsort(bb: Any, call: Any) -> Any:
    """The stable order of integers that are ordered as the numbers, with NaN last."""
    x = call.args[0]
    if dtype_of(x) in _SORTED:
        return call
    attrs = call.attrs
    return relax.op.argsort(_keys(bb, x), int(attrs.axis), bool(attrs.descending), dtype_of(call))


def sort(bb: Any, call: Any) -> Any:
    """The numbers in the order of ``argsort``."""
    x, axis = call.args[0], int(call.attrs.axis)
    if dtype_of(x) in _SORTED:
        return call
    places = bb.emit(relax.op.argsort(_keys(bb, x), axis, bool(call.attrs.descending), "int64"))
    return relax.op.gather_elements(x, places, axis % len(shape_of(x)))


def topk(bb: Any, call: Any) -> Any:
    """The first of the numbers in the order of ``argsort``, and their places."""
    x, attrs = call.args[0], call.attrs
    if dtype_of(x) in _SORTED:
        return call
    axis, kind = int(attrs.axis) % len(shape_of(x)), str(attrs.ret_type)
    places = bb.emit(relax.op.argsort(_keys(bb, x), axis, bool(attrs.largest), "int64"))
    places = bb.emit(relax.op.strided_slice(places, [axis], [0], [int(attrs.k)]))
    values = bb.emit(relax.op.gather_elements(x, places, axis))
    places = bb.emit(relax.op.astype(places, str(attrs.dtype)))
    if kind == "both":
        return relax.Tuple([values, places])
    return values if kind == "values" else places


def _keys(bb: Any, x: Any) -> Any:
    if not is_floating(x):
        return bb.emit(relax.op.astype(x, "int64" if dtype_of(x) == "uint32" else "int32"))
    made = bb.call_te(lambda data: keys(data), x, primfunc_name_hint="sort_key")
    return bb.emit(made)


# -- What all rules of legalisation share; integers in the order of numbers -----------------------
#
# Among these keys, NaN is larger than all others. The code generator has an instruction for the
# maximum of integers, and TVM's schedule primitives know the reduction: a reduction of these keys
# is as fast as one of numbers that loses NaN.

Rule = Callable[[Any, Any], Any]
"""From the block builder and the call of an operator to an expression without it."""


def default(bb: Any, call: Any) -> Any:
    """Return what TVM makes of a call of an operator."""
    return call.op.get_attr("FLegalize")(bb, call)


def computed_as(bb: Any, call: Any, dtype: str) -> Any:
    """Emit a call of the same operator on its arguments in another element type."""
    values = [bb.emit(relax.op.astype(value, dtype)) for value in call.args]
    return bb.emit(relax.Call(call.op, values, call.attrs))


def number(value: Any) -> float | None:
    """Return the value of a constant without axes; None for any other expression."""
    if isinstance(value, GenericConst) and not shape_of(value):
        return float(value.value.numpy())
    return None


def paired(function: Callable[[Any, Any], Any]) -> Callable[[te.Tensor, te.Tensor], te.Tensor]:
    """Return a function of two tensors, broadcast against each other, from one of two elements."""

    def made(one: te.Tensor, other: te.Tensor) -> te.Tensor:
        shape = topi.utils.get_const_tuple(topi.add(one, other).shape)
        one, other = topi.broadcast_to(one, shape), topi.broadcast_to(other, shape)
        return te.compute(shape, lambda *place: function(one(*place), other(*place)), "compute")

    return made


_BITS = {"float64": 64}


def is_number(value: Any) -> Any:
    """Return whether a number of a tensor program is not NaN.

    The comparison becomes a vector instruction, and ``isnan`` does not; TVM's simplifier takes
    ``x == x`` for true, but not this one.
    """
    return tirx.LE(value, value)


def key_type(dtype: str) -> str:
    """Return the element type of the keys of a floating-point type."""
    return f"int{_BITS.get(dtype, 32)}"


def _wide(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def _magnitude(dtype: str) -> Any:
    """All bits but the sign's."""
    kind = key_type(dtype)
    return tirx.const(2 ** (int(kind[3:]) - 1) - 1, kind)


def _quiet(dtype: str) -> Any:
    """The bits of NaN, which are its key."""
    kind = key_type(dtype)
    return tirx.const(0x7FF8 << 48 if kind == "int64" else 0x7FC0 << 16, kind)


def key(value: Any, dtype: str, *, ties: bool = False, unknown_first: bool = False) -> Any:
    """Return the key of a number of a tensor program.

    Parameters
    ----------
    dtype: the element type of the number.
    ties: whether both zeros have one key; else -0.0 comes before 0.0.
    unknown_first: whether NaN is smaller than all others instead.
    """
    kind, magnitude, zero = key_type(dtype), _magnitude(dtype), tirx.const(0, _wide(dtype))
    value = value.astype(_wide(dtype))
    if ties:
        value = tirx.Select(value.equal(zero), zero, value)
    bits = tirx.reinterpret(kind, value)
    turned = bits ^ ((bits >> tirx.const(int(kind[3:]) - 1, kind)) & magnitude)
    quiet = _quiet(dtype)
    unknown = ~quiet if unknown_first else quiet
    return tirx.Select(is_number(value), turned, unknown)


def keys(x: te.Tensor, *, unknown_first: bool = False) -> te.Tensor:
    """Return the keys of a tensor, one for both zeros; see ``key``."""
    return te.compute(
        x.shape,
        lambda *place: key(x[place], str(x.dtype), ties=True, unknown_first=unknown_first),
        "key",
    )


def numbers(made: te.Tensor, dtype: str) -> te.Tensor:
    """Return the numbers of keys; ``dtype`` is the element type that these were made from."""
    kind, magnitude = key_type(dtype), _magnitude(dtype)
    sign = tirx.const(int(kind[3:]) - 1, kind)

    def number(*place: Any) -> Any:
        turned = made[place]
        bits = turned ^ ((turned >> sign) & magnitude)
        return tirx.reinterpret(_wide(dtype), bits).astype(dtype)

    return te.compute(made.shape, number, "number")
