"""How an integer of a program follows from the extents that it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from schedlang.codec import Stored

# Divisors of rounded quotients, as strides and unit sizes give them, and the largest factor of an
# extent that is more than a divisor.
_DIVISORS = range(2, 33)
_FACTOR = 4
_DEGREE = 3

Point = Mapping[str, int]


@Stored(row=True)
@dataclass(frozen=True)
class Formula:
    """An integer as a polynomial of extents, divided and rounded down.

    Attributes
    ----------
    terms: coefficient of each product of extents; the names of a product are in order.
    divisor: of the sum of all terms.
    """

    terms: tuple[tuple[tuple[str, ...], int], ...]
    divisor: int = 1

    @property
    def is_constant(self) -> bool:
        """Whether no extent counts."""
        return all(not names for names, _ in self.terms)

    def at(self, point: Point) -> int:
        """Return the integer for these extents."""
        return _value(self.terms, point) // self.divisor

    def inverse_of(self) -> tuple[str, int] | None:
        """Return an extent and a number that it is less than the integer by; None if it is not."""
        names = [names for names, _ in self.terms if names]
        if self.divisor != 1 or len(names) != 1 or len(names[0]) != 1:
            return None
        terms = dict(self.terms)
        return (names[0][0], terms.get((), 0)) if terms[names[0]] == 1 else None


def _value(terms: Sequence[tuple[tuple[str, ...], int]], point: Point) -> int:
    total = 0
    for names, coefficient in terms:
        for name in names:
            coefficient *= point[name]
        total += coefficient
    return total


def fit(values: Sequence[int], points: Sequence[Point]) -> Formula | None:
    """Return the simplest formula that has these values at these points; None without one.

    A formula has at most half as many terms as there are points, so that the others confirm it.
    """
    if len(set(values)) == 1:
        return Formula((((), values[0]),))
    names = list(points[0])
    wanted = np.array(values, dtype=float)
    for degree in range(1, _DEGREE + 1):
        products = [
            product
            for size in range(1, degree + 1)
            for product in combinations_with_replacement(names, size)
        ]
        # Products of fewer extents first: those of one, of two, of all.
        for chosen in _choices(products):
            found = _polynomial(wanted, points, [(), *chosen])
            if found is not None:
                return found
    return _quotient(values, points)


def _choices(products: Sequence[tuple[str, ...]]) -> list[list[tuple[str, ...]]]:
    single = [[one] for one in products]
    pairs = [[one, two] for k, one in enumerate(products) for two in products[k + 1 :]]
    return [*single, *pairs, list(products)]


def _polynomial(
    values: np.ndarray, points: Sequence[Point], products: Sequence[tuple[str, ...]]
) -> Formula | None:
    if 2 * len(products) > len(points):
        return None
    columns = [[_value([(one, 1)], point) for one in products] for point in points]
    table = np.array(columns, dtype=float)
    solved, _, rank, _ = np.linalg.lstsq(table, values, rcond=None)
    if rank < len(products):
        return None
    rounded = np.rint(solved).astype(int)
    terms = tuple((one, int(c)) for one, c in zip(products, rounded, strict=True) if c)
    formula = Formula(terms)
    exact = all(formula.at(p) == int(v) for p, v in zip(points, values, strict=True))
    return formula if exact else None


def _quotient(values: Sequence[int], points: Sequence[Point]) -> Formula | None:
    """Return a formula ``(a * extent + b) // divisor``."""
    for name in points[0]:
        extents = np.array([point[name] for point in points])
        wanted = np.array(values)
        for divisor in _DIVISORS:
            for factor in range(1, max(divisor, _FACTOR + 1)):
                # b lies between what each value allows.
                low = int((wanted * divisor - factor * extents).max())
                high = int(((wanted + 1) * divisor - 1 - factor * extents).min())
                if low <= high and np.gcd(factor, divisor) == 1:
                    # Of several the nearest to zero; more points leave one.
                    b = min(max(0, low), high)
                    terms = (((name,), factor), *((((), b),) if b else ()))
                    return Formula(terms, divisor)
    return None
