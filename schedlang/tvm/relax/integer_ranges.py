"""Between which values the integers of a network are, whatever its inputs are.

And the call that checks integers while a network is imported. It becomes the call of a tensor
function (``integer_checks``), or what it checks where that is proven by the ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst, StringImm

from schedlang.tvm.analysis.intervals import Operation, ValueInterval, quotient, range_of_type
from schedlang.tvm.relax.network_program import bindings, operator, shape_of
from schedlang.tvm.values import dtype_of, is_integer

# -- The call that checks integers: what is checked, and its bounds -------------------------------

_NAME = "schedlang.check"

Range = tuple[int, int]
"""The least and the largest value."""


@dataclass(frozen=True)
class IntegerCheck:
    """A check of a tensor of integers.

    Attributes
    ----------
    item: the tensor.
    bounds: between which values it has to be, both included; None for all but zero.
    message: the error of a call in which it is not.
    """

    item: Any
    bounds: Range | None
    message: str


def outside(what: str, low: float, high: float) -> str:
    """Return the message for a value that is out of range."""
    return f"{what} is out of range: it has to be from {low} to {high}"


def check_call(item: Any, bounds: Range | None, message: str) -> Any:
    """Return a call that gives integers back, and is an error where one is out of bounds."""
    numbers = [relax.prim_value(bound) for bound in bounds or ()]
    text = StringImm(message)
    return relax.call_pure_packed(_NAME, item, text, *numbers, ty_args=item.ty)


def index_check(item: Any, extent: int, operator: str, *, negative: bool = False) -> Any:
    """Return the check of indices of an axis; ``negative`` ones count from its end."""
    low, high = (-extent if negative else 0), max(extent, 1) - 1
    return check_call(item, (low, high), outside(f"an index of {operator}", low, high))


def check_of(call: Any) -> IntegerCheck | None:
    """Return the check that a call makes; None for another call."""
    if operator(call) != "relax.call_pure_packed" or call.args[0].global_symbol != _NAME:
        return None
    item, message, *numbers = call.args[1:]
    bounds = (int(numbers[0].value), int(numbers[1].value)) if numbers else None
    return IntegerCheck(item, bounds, str(message.value))


class Ranges:
    """The ranges of the values of ``main``; ``values`` are those of its parameters that are known.

    What is added, multiplied or divided must fit the type, else any value of it may come out.
    """

    def __init__(self, mod: Any, values: Mapping[Any, np.ndarray]) -> None:
        self._bound = dict(bindings(mod))
        self._values = values
        self._known: dict[Any, ValueInterval] = {}
        for var in self._bound:  # in order, so that none asks for many before it
            if isinstance(var.ty, relax.TensorType) and _is_whole(dtype_of(var)):
                self.of(var)

    def of(self, item: Any) -> ValueInterval:
        """Return the range of a tensor of integers or booleans."""
        if isinstance(item, GenericConst):
            return _of_array(item.value.numpy())
        if not isinstance(item, relax.Var):
            return self._of_value(item)
        if item not in self._known:
            value = self._values.get(item)
            if value is not None:
                self._known[item] = _of_array(value)
            elif item in self._bound:
                self._known[item] = self._of_value(self._bound[item])
            else:
                self._known[item] = range_of_type(dtype_of(item))
        return self._known[item]

    def _of_value(self, value: Any) -> ValueInterval:
        """Return the range of a binding's value, of which the type is an upper bound."""
        if isinstance(value, relax.Var | GenericConst):
            return self.of(value)
        if isinstance(value, relax.TupleGetItem):
            return self._of_field(value)
        known = range_of_type(dtype_of(value))
        rule = _RULES.get(operator(value))
        found = known if rule is None else rule(self, value) or known
        return found if known.holds(found) and found.low <= found.high else known

    def _of_field(self, item: Any) -> ValueInterval:
        whole = self._bound.get(item.tuple_value, item.tuple_value)
        if isinstance(whole, relax.Tuple):
            return self.of(whole.fields[int(item.index)])
        if operator(whole) == "relax.topk" and int(item.index) == 1:
            return _place(self, whole) or range_of_type(dtype_of(item))
        if operator(whole) in ("relax.topk", "relax.split"):
            return self.of(whole.args[0])
        return range_of_type(dtype_of(item))


def _is_whole(dtype: str) -> bool:
    return dtype == "bool" or is_integer(dtype)


def _of_array(values: np.ndarray) -> ValueInterval:
    ends = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return ValueInterval(*ends)


Rule = Callable[[Ranges, Any], ValueInterval | None]


def _place(_: Ranges, call: Any) -> ValueInterval | None:
    """Places along an axis, or in the whole tensor."""
    shape, axis = shape_of(call.args[0]), call.attrs.axis
    last = (math.prod(shape) if axis is None else shape[int(axis)]) - 1
    return ValueInterval(0, max(last, 0))


def _same(ranges: Ranges, call: Any) -> ValueInterval | None:
    return ranges.of(call.args[0])


def _either(ranges: Ranges, call: Any) -> ValueInterval | None:
    one, other = map(ranges.of, call.args[-2:])
    return one.joined(other)


def _any_of(ranges: Ranges, call: Any) -> ValueInterval | None:
    parts = call.args[0]
    if not isinstance(parts, relax.Tuple):
        return None
    return reduce(ValueInterval.joined, map(ranges.of, parts.fields))


def _cast(ranges: Ranges, call: Any) -> ValueInterval | None:
    return ranges.of(call.args[0]) if _is_whole(dtype_of(call.args[0])) else None


def _clip(ranges: Ranges, call: Any) -> ValueInterval | None:
    least, most = (float(bound.value) for bound in call.args[1:3])
    low, high = (int(min(max(end, least), most)) for end in ranges.of(call.args[0]))
    return ValueInterval(low, high)


def _of_both(operation: Operation) -> Rule:
    """Return the rule of an operator of two operands."""
    return lambda ranges, call: operation(*map(ranges.of, call.args))


def _rest(ranges: Ranges, call: Any) -> ValueInterval | None:
    low, high = ranges.of(call.args[1])
    return ValueInterval(0, high - 1) if low > 0 else None


def _checked(ranges: Ranges, call: Any) -> ValueInterval | None:
    """What passes a check of indices."""
    check = check_of(call)
    if check is None:
        return None
    if check.bounds is None:
        return ranges.of(check.item)
    return ranges.of(check.item).clipped(ValueInterval(*check.bounds))


_MOVING = (
    *("reshape", "permute_dims", "expand_dims", "squeeze", "flatten", "broadcast_to", "flip"),
    *("strided_slice", "repeat", "tile", "take", "gather_elements", "gather_nd", "index_tensor"),
    *("max", "min", "sort"),
)
_RULES: dict[str, Rule] = {
    **{f"relax.{name}": _same for name in _MOVING},
    **{f"relax.{name}": _place for name in ("argmax", "argmin", "argsort")},
    **{f"relax.{name}": _any_of for name in ("concat", "stack")},
    "relax.where": _either,
    "relax.maximum": _of_both(ValueInterval.maximum),
    "relax.minimum": _of_both(ValueInterval.minimum),
    "relax.add": _of_both(ValueInterval.plus),
    "relax.subtract": _of_both(ValueInterval.minus),
    "relax.multiply": _of_both(ValueInterval.product),
    "relax.floor_divide": _of_both(quotient),
    "relax.floor_mod": _rest,
    "relax.astype": _cast,
    "relax.clip": _clip,
    "relax.bucketize": lambda _, call: ValueInterval(0, shape_of(call.args[1])[0]),
    "relax.call_pure_packed": _checked,
}
