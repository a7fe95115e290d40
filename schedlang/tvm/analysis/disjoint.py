"""Whether the iterations of a loop access elements of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

from tvm import tirx
from tvm.ir import Range
from tvm.sym import Analyzer, IntervalSet
from tvm.sym.int_set import neg_inf, pos_inf
from tvm_ffi import structural_equal

from schedlang.tvm.analysis.index_sums import IndexSum, Opaque, Ratio, SumDigit, sum_of
from schedlang.tvm.analysis.loop_accesses import ElementAccess, LoopAccesses
from schedlang.tvm.values import dtype_of, found_in, is_integer, mentions, substituted


class _Term(NamedTuple):
    """A part of an index that may differ between two accesses.

    Attributes
    ----------
    factor: the multiple of it in the index.
    width: the largest difference between two values of it.
    part: the loop's variable or a digit; None for a variable inside the loop.
    """

    factor: int
    width: float
    part: Any


class Apart:
    """Proves that different iterations of a loop do not access the same element.

    Parameters
    ----------
    program: where the loop is.
    loop, around: the loop, and those around it.
    """

    def __init__(self, program: LoopAccesses, loop: Any, around: Sequence[Any]) -> None:
        self._program = program
        self._sums = program.sums
        self._loop = loop
        self._outside = frozenset(one.loop_var for one in around)
        self._changing = program.stored | program.aliases
        self._widths: dict[Any, float] = {}

    def by_indices(self, accesses: Sequence[ElementAccess]) -> bool:
        """Return whether equal indices mean the same iteration, for loops of any length.

        If two sums ``f * x + rest`` are equal, and ``f`` is larger than the difference of the
        rests, both have the same ``x``. Iterations are apart if this holds for the loop's variable,
        or for digits that determine it.
        """
        rank = len(accesses[0].indices)
        if any(len(one.indices) != rank for one in accesses):
            return False
        # Accesses with equal rows differ only in their place in an iteration.
        rows = {self._row(indices) for indices in {access.indices for access in accesses}}
        equal: set[Any] = set()
        for place in range(rank):
            column = [row[place] for row in rows]
            if not any(one is None for one in column):
                equal |= self._equal([one for one in column if one is not None])
                if self._loop.loop_var in equal:
                    return True
        return self._tells(equal)

    def by_conditions(self, accesses: Sequence[ElementAccess]) -> bool:
        """Return whether all accesses share a condition that holds in at most one iteration."""
        first, *others = accesses
        return any(
            self._holds_once(guard)
            and all(any(structural_equal(guard, one) for one in other.guards) for other in others)
            for guard in first.guards
        )

    def by_order(self, accesses: Sequence[ElementAccess]) -> bool:
        """Return whether iterations access elements in ascending order, along some dimension.

        This is a proof for strides and extents that are parameters: ``i * m + j`` for ``j < m``.
        As elsewhere, numbers that are not known are taken not to leave the type of an index.
        """
        if not any(map(self._has_parameters, accesses)):
            return False
        rank = min(len(one.indices) for one in accesses)
        return any(self._ascends(accesses, place) for place in range(rank))

    def _has_parameters(self, access: ElementAccess) -> bool:
        exprs = [index[0] for index in access.indices if index is not None]
        exprs += [loop.extent for loop in access.path]
        used = frozenset[Any]().union(*map(self._sums.loops_in, exprs))
        return not used <= self._sums.loops.keys()

    def _ascends(self, accesses: Sequence[ElementAccess], place: int) -> bool:
        analyzer = Analyzer()
        for extent in accesses[0].buffer.ty.shape:
            for variable in found_in(extent, tirx.Var):
                analyzer.bind(variable, Range(0, _MOST))
        ends = [self._ends(one, place, analyzer) for one in accesses]
        after = {self._loop.loop_var: self._loop.loop_var + 1}
        known = [one for one in ends if one is not None]
        if len(known) < len(ends):
            return False
        lows = [(low, substituted(low, after)) for low, _ in known]
        return all(_is_at_least(later - low, 0, analyzer) for low, later in lows) and all(
            _is_at_least(later - high, 1, analyzer) for _, high in known for _, later in lows
        )

    def _ends(
        self, access: ElementAccess, place: int, analyzer: Analyzer
    ) -> tuple[Any, Any] | None:
        """Return bounds of an index in one iteration, as expressions; None if there are none."""
        index = access.indices[place]
        if index is None or dtype_of(index[0]) not in ("int32", "int64"):
            return None
        low = high = self._sums.written_out(index[0])
        length = None if index[1] is None else self._sums.written_out(index[1])
        if low is None or (length is None and index[1] is not None):
            return None
        high = high if length is None else high + length - 1
        inside = [one for one in access.path if one.loop_var not in self._outside]
        for loop in reversed([one for one in inside if one is not self._loop]):
            first, extent = map(self._sums.written_out, (loop.min, loop.extent))
            if first is None or extent is None:
                return None
            values = {loop.loop_var: IntervalSet(first, first + extent - 1)}
            low = analyzer.int_set(low, values).min_value
            high = analyzer.int_set(high, values).max_value
            if mentions(low, [neg_inf(), pos_inf()]) or mentions(high, [neg_inf(), pos_inf()]):
                return None
        return low, high

    def _holds_once(self, guard: Any) -> bool:
        if not isinstance(guard, tirx.EQ | tirx.LT | tirx.LE | tirx.GT | tirx.GE):
            return False
        if not (is_integer(guard.a) and is_integer(guard.b)):
            return False
        less = self._sums.of(guard.a).plus(self._sums.of(guard.b), -1)
        factor = less.terms.get(self._loop.loop_var, 0)
        rest = [part for part in less.terms if not self._is_of_loop(part)]
        if not factor or not all(map(self._is_fixed, rest)):
            return False
        if isinstance(guard, tirx.EQ):
            return True
        if rest:
            return False
        if isinstance(guard, tirx.GT | tirx.GE):
            less, factor = IndexSum({}, 0).plus(less, -1), -factor
        limit = less.constant + isinstance(guard, tirx.LT | tirx.GT)
        # What is at most 0: factor * step + limit.
        if factor > 0:
            return factor + limit > 0
        return factor * (self._sums.steps(self._loop.loop_var) - 1) + limit > 0

    def _row(self, indices: Sequence[tuple[Any, Any] | None]) -> tuple[_Index | None, ...]:
        """Return indices as terms that accesses in different loops inside share."""
        inside: dict[Any, int] = {}  # the loops inside that digits have, in order
        return tuple(None if index is None else self._normal(index, inside) for index in indices)

    def _normal(self, index: tuple[Any, Any], inside: dict[Any, int]) -> _Index:
        expr, extent = index
        total = self._sums.of(expr)
        terms: dict[Any, int] = {}
        spread: list[tuple[int, float]] = []
        low = high = float(total.constant)
        for part, factor in total.terms.items():
            if self._is_fixed(part) or self._is_of_loop(part):
                terms[part] = factor
            elif (digit := self._digit_of_loop(part, inside)) is not None:
                terms[digit] = terms.get(digit, 0) + factor
            else:
                range_ = self._sums.part_bounds(part).times(factor)
                low += range_.low
                high += range_.low if range_.is_bounded else inf
                if range_.is_bounded:
                    spread.append((abs(factor), (range_.high - range_.low) / abs(factor)))
        if extent is not None:
            known = self._sums.bounds(self._sums.of(extent))
            high += known.high - 1
        return _Index(frozenset(terms.items()), tuple(sorted(spread)), low, high)

    def _is_fixed(self, part: Any) -> bool:
        """Return whether a part has the same value in all iterations of the loop."""
        if isinstance(part, Opaque) and part.buffers & self._changing:
            return False
        if isinstance(part, Opaque) and not all(map(_is_variable, part.variables)):
            return False
        return self._sums.variables(part) & self._sums.loops.keys() <= self._outside

    def _is_of_loop(self, part: Any) -> bool:
        return part is self._loop.loop_var or (
            not isinstance(part, SumDigit | Ratio | Opaque) and part.same_as(self._loop.loop_var)
        )

    def _digit_of_loop(self, part: Any, inside: dict[Any, int]) -> SumDigit | Ratio | None:
        """Return a digit of a sum that has the loop's variable, with loops inside by their extents.

        ``inside`` numbers these. A digit of another loop's sum is none.
        """
        if isinstance(part, Ratio):
            return part if all(map(self._is_plain, sum_of(part.base).terms)) else None
        if not isinstance(part, SumDigit) or self._loop.loop_var not in self._sums.variables(part):
            return None
        base = sum_of(part.base)
        terms: dict[Any, int] = {}
        for one, factor in base.terms.items():
            key = one
            if isinstance(one, SumDigit | Ratio | Opaque):
                if not self._is_fixed(one):
                    digit = self._digit_of_loop(one, inside)
                    if digit is None:
                        return None
                    key = digit
            elif not (self._is_fixed(one) or self._is_of_loop(one)):
                key = _Inside(self._sums.steps(one), inside.setdefault(one, len(inside)))
            terms[key] = terms.get(key, 0) + factor
        found = SumDigit(IndexSum(terms, base.constant).frozen, part.low, part.high)
        range_ = self._sums.part_bounds(part)
        self._widths[found] = range_.high - range_.low if range_.is_bounded else inf
        return found

    def _is_plain(self, part: Any) -> bool:
        return self._is_of_loop(part) or self._is_fixed(part)

    def _equal(self, column: Sequence[_Index]) -> set[Any]:
        """Return the parts that are equal in two accesses whose index in a dimension is equal."""
        first = dict(column[0].terms)
        if any(one.terms != column[0].terms for one in column):
            return set()  # the terms do not cancel
        spread: dict[int, float] = {}
        for one in column:
            own: dict[int, float] = {}
            for factor, width in one.spread:
                own[factor] = own.get(factor, 0) + width
            for factor, width in own.items():
                spread[factor] = max(spread.get(factor, 0), width)
        offset = max(one.high for one in column) - min(one.low for one in column)
        terms = [_Term(factor, width, None) for factor, width in spread.items()]
        terms += [
            _Term(abs(first[part]), self._width(part), part)
            for part in first
            if not self._is_fixed_term(part)
        ]
        return _determined(terms, offset)

    def _is_fixed_term(self, part: Any) -> bool:
        if isinstance(part, SumDigit | Ratio):
            return self._loop.loop_var not in self._sums.variables(part)
        return not self._is_of_loop(part)

    def _width(self, part: Any) -> float:
        if isinstance(part, Ratio):
            return inf
        return self._widths[part] if isinstance(part, SumDigit) else self._sums.steps(part)

    def _base_width(self, base: IndexSum) -> float:
        """Return the largest difference between two values of a sum."""
        width = 0.0
        for part, factor in base.terms.items():
            if isinstance(part, _Inside):
                width += abs(factor) * part.steps
            elif not self._is_fixed_term(part):
                width += abs(factor) * self._width(part)
        return width

    def _tells(self, equal: set[Any]) -> bool:
        """Return whether equal digits mean equal values of the loop's variable."""
        equal |= self._known_by_ratios(equal)
        while True:
            by_base: dict[Any, list[SumDigit]] = {}
            for part in equal:
                if isinstance(part, SumDigit):
                    by_base.setdefault(part.base, []).append(part)
            more: set[Any] = set()
            for frozen, digits in by_base.items():
                base = sum_of(frozen)
                if not self._is_whole(base, digits):
                    continue
                terms = []
                for part, factor in base.terms.items():
                    if isinstance(part, _Inside):
                        terms.append(_Term(abs(factor), part.steps, None))
                    elif not self._is_fixed_term(part):
                        terms.append(_Term(abs(factor), self._width(part), part))
                more |= _determined(terms, 0)
            if self._loop.loop_var in more:
                return True
            if more <= equal:
                return False
            equal |= more

    def _known_by_ratios(self, equal: set[Any]) -> set[Any]:
        """Return the parts that are equal where a quotient and its remainder are."""
        found: set[Any] = set()
        for part in equal:
            if isinstance(part, Ratio) and (rest := _REST.get(part.kind)) is not None:
                if part._replace(kind=rest) in equal:
                    terms = [
                        _Term(abs(factor), self._width(one), one)
                        for one, factor in sum_of(part.base).terms.items()
                        if not self._is_fixed_term(one)
                    ]
                    found |= _determined(terms, 0)
        return found

    def _is_whole(self, base: IndexSum, digits: Iterable[SumDigit]) -> bool:
        """Return whether the digits determine the value of a sum."""
        reached: float = 1
        for digit in sorted(digits, key=lambda one: one.low):
            if reached < inf and not reached % digit.low:
                reached = max(reached, inf if digit.high is None else digit.high)
        return reached > self._base_width(base)


def _is_at_least(difference: Any, least: int, analyzer: Analyzer) -> bool:
    # Neither form is the simpler one of all products of parameters.
    plain = analyzer.canonical_simplify(analyzer.rewrite_simplify(difference))
    return any(analyzer.can_prove(one >= least) for one in (difference, plain))


_MOST = 2**31 - 1
_REST = {tirx.FloorDiv: tirx.FloorMod, tirx.Div: tirx.Mod}
"""Operations by which two numbers are the same if both results are."""


class _Index(NamedTuple):
    """An index: terms of the loop and the loops around it, and the range of everything inside."""

    terms: frozenset[tuple[Any, int]]
    spread: tuple[tuple[int, float], ...]
    low: float
    high: float


class _Inside(NamedTuple):
    """A variable of a loop inside, by its place among those of an access."""

    steps: float
    number: int


def _determined(terms: Sequence[_Term], offset: float) -> set[Any]:
    """Return the parts that are equal in two equal sums whose constants differ by ``offset``."""
    found = {one.part for one in terms if not one.width and one.part is not None}
    ordered = sorted((one for one in terms if one.width), key=lambda term: -term.factor)
    for place, term in enumerate(ordered):
        rest = offset + sum(one.factor * one.width for one in ordered[place + 1 :])
        if term.factor <= rest:
            break
        if term.part is not None:
            found.add(term.part)
    return found


def _is_variable(one: Any) -> bool:
    return isinstance(one, tirx.Var)
