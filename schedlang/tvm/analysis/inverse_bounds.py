"""From bounds of an expression to bounds of the tensor elements in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.sym import Analyzer, ConstIntBound
from tvm_ffi import structural_equal

from schedlang.tvm.errors import comes_back
from schedlang.tvm.values import called, choice_of, has_loads, is_integer

_LIKELY = "prim.likely"
_FLIPPED: dict[type, type] = {
    tirx.LT: tirx.GT, tirx.GT: tirx.LT, tirx.LE: tirx.GE, tirx.GE: tirx.LE,
}  # fmt: skip

Bounds = tuple[int | None, int | None]
"""Lowest and highest value; None where there is no bound."""

Demand = Callable[[Any, Bounds], None]
"""Receives a load, and the bounds that its value must keep."""


@comes_back
class NoBounds(Exception):
    """An expression that no bounds of its elements can be read off."""


class InverseBounds:
    """Finds bounds of elements that suffice for bounds of an expression over them.

    All elements of a tensor are bounded alike. Where an expression has several, each gets a part of
    what it may add, so that any values within the bounds are right, whatever the others are.

    Parameters
    ----------
    analyzer: knows the ranges of the variables.
    demand: called for each load with the bounds of its value.
    """

    def __init__(self, analyzer: Analyzer, demand: Demand) -> None:
        self._analyzer = analyzer
        self._demand = demand

    def require(self, expression: Any, low: int | None, high: int | None) -> None:
        """Demand of the loads what keeps ``low <= expression <= high``.

        Raises ``NoBounds`` where that cannot be read off the expression; some loads may then have
        been demanded already.
        """
        if not has_loads(expression):
            return
        least, most = self._bounds(expression)
        low = None if low is not None and least is not None and least >= low else low
        high = None if high is not None and most is not None and most <= high else high
        if low is None and high is None:
            return
        if isinstance(expression, TensorLoad):
            self._demand(expression, (low, high))
            return
        rule = _RULES.get(type(expression))
        if rule is None:
            raise NoBounds(str(expression))
        rule(self, expression, low, high)

    def _bounds(self, expression: Any) -> Bounds:
        """Return the bounds that hold whatever the elements are."""
        found = self._analyzer.const_int_bound(expression)
        low = None if found.min_value == ConstIntBound.NEG_INF else int(found.min_value)
        high = None if found.max_value == ConstIntBound.POS_INF else int(found.max_value)
        return low, high

    def _fixed(self, expression: Any) -> tuple[int, int]:
        """Return the bounds of an expression without loads."""
        low, high = self._bounds(expression)
        if low is None or high is None or has_loads(expression):
            raise NoBounds(str(expression))
        return low, high

    def _add(self, sum_: Any, low: int | None, high: int | None) -> None:
        one, other = sum_.a, sum_.b
        if not has_loads(one):
            one, other = other, one
        if not has_loads(other):
            least, most = self._fixed(other)
            self.require(one, _minus(low, least), _minus(high, most))
            return
        half_low = None if low is None else low // 2
        half_high = None if high is None else high // 2
        self.require(one, half_low, half_high)
        self.require(other, _minus(low, half_low), _minus(high, half_high))

    def _subtract(self, difference: Any, low: int | None, high: int | None) -> None:
        if not has_loads(difference.b):
            least, most = self._fixed(difference.b)
            self.require(difference.a, _plus(low, most), _plus(high, least))
            return
        least, most = self._fixed(difference.a)
        self.require(
            difference.b,
            None if high is None else most - high,
            None if low is None else least - low,
        )

    def _multiply(self, product: Any, low: int | None, high: int | None) -> None:
        one, other = product.a, product.b
        if not has_loads(one):
            one, other = other, one
        if has_loads(other):
            if high is not None and high < 0:
                raise NoBounds(str(product))
            for factor in (one, other):
                self.require(factor, _factor(low), None if high is None else math.isqrt(high))
            return
        least, most = self._fixed(other)
        if least == most and least != 0:
            if least < 0:
                low, high = _negated((low, high))
            scale = abs(least)
            self.require(
                one,
                None if low is None else -(-low // scale),
                None if high is None else high // scale,
            )
            return
        if least < 0 or (least == 0 and _factor(low) > 0):
            raise NoBounds(str(product))
        self.require(one, _factor(low), None if high is None or most == 0 else high // most)

    def _divide(self, quotient: Any, low: int | None, high: int | None) -> None:
        least, most = self._fixed(quotient.b)
        if least != most or least <= 0:
            raise NoBounds(str(quotient))
        self.require(
            quotient.a,
            None if low is None else low * least,
            None if high is None else high * least + least - 1,
        )

    def _modulo(self, remainder: Any, low: int | None, high: int | None) -> None:
        least, _ = self._fixed(remainder.b)
        # From 0 to below the divisor, the remainder is the number itself.
        self.require(
            remainder.a, max(low or 0, 0), least - 1 if high is None else min(high, least - 1)
        )

    def _minimum(self, minimum: Any, low: int | None, high: int | None) -> None:
        self._extremum(minimum, low, high, kept=1)

    def _maximum(self, maximum: Any, low: int | None, high: int | None) -> None:
        self._extremum(maximum, low, high, kept=0)

    def _extremum(self, node: Any, low: int | None, high: int | None, *, kept: int) -> None:
        """Bound both operands; the one without loads may keep the bound ``kept`` for both."""
        bounds = [low, high]
        for operand in (node.a, node.b):
            if not has_loads(operand):
                fixed, bound = self._fixed(operand), bounds[kept]
                if bound is not None and (fixed[1] <= bound if kept else fixed[0] >= bound):
                    bounds[kept] = None
        for operand in (node.a, node.b):
            self.require(operand, *bounds)

    def _cast(self, cast: Any, low: int | None, high: int | None) -> None:
        if not is_integer(cast.value):
            raise NoBounds(str(cast))
        self.require(cast.value, low, high)

    def _call(self, call: Any, low: int | None, high: int | None) -> None:
        if called(call) == _LIKELY:
            self.require(call.args[0], low, high)
        else:
            self._choice(call, low, high)

    def _choice(self, choice: Any, low: int | None, high: int | None) -> None:
        """Bound ``condition ? yes : no``.

        Where the sign of an element decides, as in programs that count negative indices from the
        end, each case bounds the elements of its sign; all are from 0 on where it cannot be read
        off which negative ones are right.
        """
        parts = choice_of(choice)
        if parts is None:
            raise NoBounds(str(choice))
        condition, yes, no = parts
        tested = _sign_test(condition)
        if tested is None:
            self.require(yes, low, high)
            self.require(no, low, high)
        else:
            element, taken = tested
            others, own = (no, yes) if taken else (yes, no)
            negative = self._bounds_of(element, others, low, high)
            positive = self._bounds_of(element, own, low, high)
            if _hold(negative, -1) and _hold(positive, 0):
                assert negative is not None and positive is not None
                self._demand(element, (negative[0], positive[1]))
                return
            self.require(element, 0, None)
            self.require(own, low, high)

    def _bounds_of(
        self, element: Any, expression: Any, low: int | None, high: int | None
    ) -> Bounds | None:
        """Return the bounds of ``element`` that keep an expression of it alone within bounds.

        None where these cannot be read off, or depend on other elements.
        """
        demands: list[tuple[Any, Bounds]] = []

        def demand(load: Any, bounds: Bounds) -> None:
            demands.append((load, bounds))

        try:
            InverseBounds(self._analyzer, demand).require(expression, low, high)
        except NoBounds:
            return None
        if not all(structural_equal(load, element) for load, _ in demands):
            return None
        lows = [least for _, (least, _) in demands if least is not None]
        highs = [most for _, (_, most) in demands if most is not None]
        return max(lows, default=None), min(highs, default=None)


def _sign_test(condition: Any) -> tuple[Any, bool] | None:
    """Return the element in ``element < 0`` or its opposite, and the value for elements from 0 on.

    None for any other condition.
    """
    kind = type(condition)
    if kind not in _FLIPPED:
        return None
    one, other = condition.a, condition.b
    if not has_loads(one):
        kind, one, other = _FLIPPED[kind], other, one
    while isinstance(one, tirx.Cast):
        one = one.value
    if not isinstance(one, TensorLoad) or int(getattr(other, "value", 1)) != 0:
        return None
    value = {tirx.LT: False, tirx.GE: True}.get(kind)
    return None if value is None else (one, value)


def _hold(bounds: Bounds | None, number: int) -> bool:
    """Whether there are bounds that hold a number."""
    if bounds is None:
        return False
    low, high = bounds
    return (low is None or low <= number) and (high is None or number <= high)


def _factor(low: int | None) -> int:
    """Return the lowest value of factors whose product is to be at least ``low``."""
    return 0 if low is None or low <= 0 else math.isqrt(low - 1) + 1


def _plus(bound: int | None, number: int | None) -> int | None:
    return None if bound is None or number is None else bound + number


def _minus(bound: int | None, number: int | None) -> int | None:
    return None if bound is None or number is None else bound - number


def _negated(bounds: Bounds) -> Bounds:
    low, high = bounds
    return (None if high is None else -high), (None if low is None else -low)


_RULES: dict[type, Callable[[InverseBounds, Any, int | None, int | None], None]] = {
    tirx.Add: InverseBounds._add,
    tirx.Sub: InverseBounds._subtract,
    tirx.Mul: InverseBounds._multiply,
    tirx.FloorDiv: InverseBounds._divide,
    tirx.Div: InverseBounds._divide,
    tirx.FloorMod: InverseBounds._modulo,
    tirx.Mod: InverseBounds._modulo,
    tirx.Min: InverseBounds._minimum,
    tirx.Max: InverseBounds._maximum,
    tirx.Cast: InverseBounds._cast,
    tirx.Select: InverseBounds._choice,
    Call: InverseBounds._call,
}
