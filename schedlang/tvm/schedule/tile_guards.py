"""Guards that cut off the last of the tiles of a loop, and the indices that they bound.

An index of tiled loops is a sum of digits, ``outer * 8 + inner``: multiples of parts of loops'
variables. ``last_tiles`` moves the last tile where its blocks do not depend on where it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from tvm import tirx
from tvm.tirx import BufferStore

from schedlang.tvm.statements import bindings_of, conjuncts_of
from schedlang.tvm.values import constant, found_in, has_loads, holds, variables_in

# -- Guards of the last tile ----------------------------------------------------------------------


@dataclass(frozen=True)
class Guard:
    """A condition that the tile is inside: ``start + inside < stop``.

    Attributes
    ----------
    start: the sum of what is known outside the tile.
    inside: the sum of the rest.
    """

    start: Linear
    inside: Linear
    stop: int

    @property
    def size(self) -> int:
        """The extent of a tile."""
        return self.inside.most + 1

    @property
    def latest(self) -> int:
        """The latest start of a tile of which all is inside."""
        return self.stop - self.size

    @property
    def whole(self) -> Linear:
        """The index in the whole loop, ``start + inside``."""
        return self.start.plus(self.inside)

    def is_like(self, other: Guard) -> bool:
        """Whether the last tile starts at the same place."""
        return self.start.terms == other.start.terms and self.latest == other.latest

    def is_apart(self, other: Guard) -> bool:
        """Whether the two starts are independent."""
        return self.start.is_apart(other.start)


def each_once(guards: Iterable[Guard]) -> list[Guard]:
    """Return a guard for each last tile."""
    found: list[Guard] = []
    for guard in guards:
        if not any(guard.is_like(other) for other in found):
            found.append(guard)
    return found


def guards_of(realize: Any, around: Around) -> list[Guard]:
    """Return the guards of a realized block that cut off tiles."""
    conditions = [around.less(part) for part in conjuncts_of(realize.predicate)]
    guards = [_guard_of(one, around) for one in conditions if one is not None]
    return [one for one in guards if one is not None]


def _guard_of(less: Linear, around: Around) -> Guard | None:
    """Return a condition as a guard, if its tiles are dense and the last one does not fit."""
    start, rest = around.split(less)
    inside, stop = Linear(rest.terms), -rest.constant
    size = inside.most + 1
    fits = start.most + size <= stop or size > stop
    if fits or not start.terms or not inside.terms:
        return None
    is_dense = inside.covers() and start.covers(size)
    return Guard(start, inside, stop) if is_dense else None


# -- Whether what a block stores depends on the index alone ---------------------------------------


def moves(realize: Any, guard: Guard, around: Around, *, in_tile: bool) -> bool:
    """Return whether a stored element depends on its index alone, not on the tile's start.

    ``guard`` is that of the tile. With ``in_tile``, the block stores in tensors of the tile, and
    may have other guards.
    """
    block, place = realize.block, guard.start if in_tile else guard.whole
    axes = [axis.var for axis in block.iter_vars]
    for variable in variables_in(block):
        if not isinstance(variable.ty, tirx.BufferType) and not holds(axes, variable):
            return False
    moving: list[tuple[Any, Linear]] = []
    indices: list[Linear] = []
    for axis, value in bindings_of(realize):
        linear = linear_of(value, around.extents)
        factor = None if linear is None else linear.factor_of(place)
        if linear is None or factor is None:
            return False
        inside = linear.without(place)
        # Between tiles of tensors of a tile, nothing is left that was not computed before.
        if in_tile and inside.most - inside.least + 1 < abs(factor) * guard.size:
            return False
        indices.append(linear)
        if factor:
            moving.append((axis.var, linear))
    # Where it is in the tile is in one index alone.
    for _, index in moving:
        inside = index.without(place)
        if not all(one is index or inside.is_apart(one) for one in indices):
            return False
    # Conditions are about the indices that move, or about what does not.
    for part in conjuncts_of(realize.predicate):
        less = around.less(part)
        factor = None if less is None else less.factor_of(place)
        if less is None or factor is None or (factor and not moving):
            return False
        if any(less.factor_of(index) is None for _, index in moving):
            return False
    stores = found_in([one for one in (block.init, block.body) if one is not None], BufferStore)
    return all(_has_indices(store, [variable for variable, _ in moving]) for store in stores)


def _has_indices(store: Any, variables: Sequence[Any]) -> bool:
    """Return whether each variable is an index of a store, or one with a constant added."""
    if any(map(has_loads, store.indices)):
        return False
    plain = []
    for index in store.indices:
        is_sum = isinstance(index, tirx.Add | tirx.Sub) and constant(index.b) is not None
        plain.append(index.a if is_sum else index)
    return all(holds(plain, variable) for variable in variables)


# -- The loops around blocks, and the conditions of blocks as sums --------------------------------


@dataclass(frozen=True)
class Around:
    """What is known of the loops around blocks.

    Attributes
    ----------
    extents: of the loops' variables, which begin with 0.
    outside: variables of loops that are held fixed: one iteration of these runs one tile.
    """

    extents: Mapping[Any, int]
    outside: Sequence[Any]

    def split(self, linear: Linear) -> tuple[Linear, Linear]:
        """Return the terms of loops outside, and the others with the constant."""
        outer = {
            digit: factor
            for digit, factor in linear.terms.items()
            if any(digit.variable.same_as(one) for one in self.outside)
        }
        inner = {digit: factor for digit, factor in linear.terms.items() if digit not in outer}
        return Linear(outer), Linear(inner, linear.constant)

    def less(self, condition: Any) -> Linear | None:
        """Return what is below 0 exactly where a condition holds; None for other conditions."""
        if not isinstance(condition, tirx.LT):
            return None
        left, right = (linear_of(side, self.extents) for side in (condition.a, condition.b))
        return None if left is None or right is None else left.plus(right, -1)


# -- Sums of digits: multiples of parts of loops' variables ---------------------------------------


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
