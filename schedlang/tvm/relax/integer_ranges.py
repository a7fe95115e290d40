"""Between which values the integers of a network are, whatever its inputs are.

And the call that checks integers while a network is imported. It becomes the call of a tensor
function (``integer_checks``), or what it checks where that is proven by the ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst, StringImm

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


def range_of_type(dtype: str) -> Range:
    """Return the range of an element type of integers or booleans."""
    if dtype == "bool":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


class Ranges:
    """The ranges of the values of ``main``; ``values`` are those of its parameters that are known.

    What is added, multiplied or divided must fit the type, else any value of it may come out.
    """

    def __init__(self, mod: Any, values: Mapping[Any, np.ndarray]) -> None:
        self._bound = dict(bindings(mod))
        self._values = values
        self._known: dict[Any, Range] = {}
        for var in self._bound:  # in order, so that none asks for many before it
            if isinstance(var.ty, relax.TensorType) and _is_whole(dtype_of(var)):
                self.of(var)

    def of(self, item: Any) -> Range:
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

    def _of_value(self, value: Any) -> Range:
        """Return the range of a binding's value, of which the type is an upper bound."""
        if isinstance(value, relax.Var | GenericConst):
            return self.of(value)
        if isinstance(value, relax.TupleGetItem):
            return self._of_field(value)
        low, high = range_of_type(dtype_of(value))
        rule = _RULES.get(operator(value))
        found = rule(self, value) if rule is not None else None
        return found if found is not None and low <= found[0] <= found[1] <= high else (low, high)

    def _of_field(self, item: Any) -> Range:
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


def _of_array(values: np.ndarray) -> Range:
    return (int(values.min()), int(values.max())) if values.size else (0, 0)


def _union(*ranges: Range) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


Rule = Callable[[Ranges, Any], Range | None]


def _place(_: Ranges, call: Any) -> Range | None:
    """Places along an axis, or in the whole tensor."""
    shape, axis = shape_of(call.args[0]), call.attrs.axis
    return 0, max((math.prod(shape) if axis is None else shape[int(axis)]) - 1, 0)


def _same(ranges: Ranges, call: Any) -> Range | None:
    return ranges.of(call.args[0])


def _either(ranges: Ranges, call: Any) -> Range | None:
    return _union(*map(ranges.of, call.args[-2:]))


def _any_of(ranges: Ranges, call: Any) -> Range | None:
    parts = call.args[0]
    return _union(*map(ranges.of, parts.fields)) if isinstance(parts, relax.Tuple) else None


def _cast(ranges: Ranges, call: Any) -> Range | None:
    return ranges.of(call.args[0]) if _is_whole(dtype_of(call.args[0])) else None


def _clip(ranges: Ranges, call: Any) -> Range | None:
    low, high = ranges.of(call.args[0])
    least, most = (float(bound.value) for bound in call.args[1:3])
    return int(min(max(low, least), most)), int(min(max(high, least), most))


def _corners(function: Callable[[int, int], int]) -> Rule:
    """A function that is monotone in each operand."""

    def rule(ranges: Ranges, call: Any) -> Range | None:
        one, other = map(ranges.of, call.args)
        found = [function(a, b) for a in one for b in other]
        return min(found), max(found)

    return rule


def _quotient(ranges: Ranges, call: Any) -> Range | None:
    low, high = ranges.of(call.args[1])
    return _corners(lambda a, b: a // b)(ranges, call) if low > 0 else None


def _rest(ranges: Ranges, call: Any) -> Range | None:
    low, high = ranges.of(call.args[1])
    return (0, high - 1) if low > 0 else None


def _checked(ranges: Ranges, call: Any) -> Range | None:
    """What passes a check of indices."""
    check = check_of(call)
    if check is None:
        return None
    if check.bounds is None:
        return ranges.of(check.item)
    (low, high), (least, most) = ranges.of(check.item), check.bounds
    return max(low, least), min(high, most)


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
    "relax.maximum": _corners(max),
    "relax.minimum": _corners(min),
    "relax.add": _corners(lambda a, b: a + b),
    "relax.subtract": _corners(lambda a, b: a - b),
    "relax.multiply": _corners(lambda a, b: a * b),
    "relax.floor_divide": _quotient,
    "relax.floor_mod": _rest,
    "relax.astype": _cast,
    "relax.clip": _clip,
    "relax.bucketize": lambda _, call: (0, shape_of(call.args[1])[0]),
    "relax.call_pure_packed": _checked,
}
