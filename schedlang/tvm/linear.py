"""Sums of digits: indices of tiled loops, as multiples of parts of loops' variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from tvm import tirx

from schedlang.tvm.values import constant


class Digit(NamedTuple):
    """``variable // low % (high // low)``, of a variable with the extent ``whole``.

    Of ``low``, ``high`` and ``whole``, each divides the next.
    """

    variable: Any
    low: int
    high: int
    whole: int

    @property
    def extent(self) -> int:
        """The number of its values, from 0 on."""
        return self.high // self.low

    @property
    def expression(self) -> Any:
        """It as an expression."""
        value = self.variable if self.low == 1 else tirx.floordiv(self.variable, self.low)
        return value if self.high == self.whole else tirx.floormod(value, self.extent)

    def is_apart(self, other: Digit) -> bool:
        """Whether it shares no part of a variable with another digit."""
        apart = self.high <= other.low or other.high <= self.low
        return apart or not self.variable.same_as(other.variable)


@dataclass(frozen=True)
class Linear:
    """A sum of multiples of digits, and a constant."""

    terms: Mapping[Digit, int]
    constant: int = 0

    @property
    def most(self) -> int:
        """The largest value."""
        steps = ((digit.extent - 1) * factor for digit, factor in self.terms.items())
        return self.constant + sum(max(0, step) for step in steps)

    @property
    def least(self) -> int:
        """The smallest value."""
        steps = ((digit.extent - 1) * factor for digit, factor in self.terms.items())
        return self.constant + sum(min(0, step) for step in steps)

    def plus(self, other: Linear, times: int = 1) -> Linear:
        """Return the sum with a multiple of another."""
        terms = dict(self.terms)
        for digit, factor in other.terms.items():
            terms[digit] = terms.get(digit, 0) + factor * times
        left = {digit: factor for digit, factor in terms.items() if factor}
        return Linear(left, self.constant + other.constant * times)

    def factor_of(self, other: Linear) -> int | None:
        """Return the factor of another in this sum, without its constant; 0 for no term of it.

        None where they are in it by different factors, or other digits tell of them.
        """
        factors = set()
        for digit, factor in other.terms.items():
            times, rest = divmod(self.terms.get(digit, 0), factor)
            if rest:
                return None
            factors.add(times)
        is_apart = self.without(other).is_apart(other)
        return factors.pop() if is_apart and len(factors) == 1 else None

    def without(self, other: Linear) -> Linear:
        """Return the terms with digits that another does not have."""
        return Linear({digit: one for digit, one in self.terms.items() if digit not in other.terms})

    def is_apart(self, other: Linear) -> bool:
        """Whether no digit shares a part of a variable with the other's."""
        return all(one.is_apart(digit) for one in self.terms for digit in other.terms)

    def covers(self, step: int = 1) -> bool:
        """Whether its values are all multiples of ``step`` from 0 on, each once."""
        for digit, factor in sorted(self.terms.items(), key=lambda term: term[1]):
            if factor != step:
                return False
            step *= digit.extent
        return self.has_digits_apart and not self.constant

    @property
    def has_digits_apart(self) -> bool:
        """Whether no two digits share a part of a variable."""
        return all(one.is_apart(other) for one, other in combinations(self.terms, 2))

    @property
    def is_contiguous(self) -> bool:
        """Whether its values are all numbers from the smallest to the largest.

        That is if its digits are apart.
        """
        reached = 0
        for digit, factor in sorted(self.terms.items(), key=lambda term: abs(term[1])):
            if abs(factor) > reached + 1:
                return False
            reached += abs(factor) * (digit.extent - 1)
        return True

    def expression(self, dtype: str) -> Any:
        """Return it as an expression."""
        total = tirx.const(self.constant, dtype)
        for digit, factor in self.terms.items():
            total = total + digit.expression * factor
        return total


def linear_of(expression: Any, extents: Mapping[Any, int]) -> Linear | None:
    """Return an expression as a sum of digits; None for any other.

    ``extents`` has the variables of loops, which begin with 0.
    """
    known = constant(expression)
    if known is not None:
        return Linear({}, known)
    if isinstance(expression, tirx.Add | tirx.Sub):
        left, right = linear_of(expression.a, extents), linear_of(expression.b, extents)
        if left is None or right is None:
            return None
        return left.plus(right, 1 if isinstance(expression, tirx.Add) else -1)
    if isinstance(expression, tirx.Mul):
        for factor, other in ((expression.a, expression.b), (expression.b, expression.a)):
            times, part = constant(factor), linear_of(other, extents)
            if times is not None and part is not None:
                return Linear({}).plus(part, times)
        return None
    digit = _digit_of(expression, extents)
    if digit is None:
        return None
    return Linear({digit: 1} if digit.extent > 1 else {})


def _digit_of(expression: Any, extents: Mapping[Any, int]) -> Digit | None:
    if isinstance(expression, tirx.Var):
        whole = extents.get(expression)
        return None if whole is None else Digit(expression, 1, whole, whole)
    if not isinstance(expression, tirx.FloorDiv | tirx.FloorMod):
        return None
    digit, by = _digit_of(expression.a, extents), constant(expression.b)
    if digit is None or by is None or by < 1 or digit.extent % by:
        return None
    middle = digit.low * by
    if isinstance(expression, tirx.FloorDiv):
        return digit._replace(low=middle)
    return digit._replace(high=middle)
