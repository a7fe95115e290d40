"""Indices as sums of multiples of loop variables, their digits, and other expressions."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.ir.prim.expr import BitwiseAnd, BitwiseOr, LShift, RShift
from tvm_ffi import StructuralKey

from schedlang.tvm.analysis.intervals import EVERYTHING, ValueInterval, bounds, fits
from schedlang.tvm.values import (
    LIKELY,
    called,
    constant,
    dtype_of,
    found_in,
    impure_calls,
    is_integer,
    substituted,
)


class IndexSum(NamedTuple):
    """A sum.

    Attributes
    ----------
    terms: factors of loop variables (counted from the loop's first value), of ``SumDigit`` and of
        ``Opaque`` parts.
    constant: what is added.
    """

    terms: Mapping[Any, int]
    constant: int

    def plus(self, other: IndexSum, times: int = 1) -> IndexSum:
        """Return the sum with a multiple of another."""
        terms = dict(self.terms)
        for part, factor in other.terms.items():
            terms[part] = terms.get(part, 0) + factor * times
        left = {part: factor for part, factor in terms.items() if factor}
        return IndexSum(left, self.constant + other.constant * times)

    @property
    def frozen(self) -> frozenset[Any]:
        """A key that equal sums share."""
        return frozenset((*self.terms.items(), (None, self.constant)))


class SumDigit(NamedTuple):
    """``base // low % (high // low)``; without an upper end where ``high`` is None."""

    base: frozenset[Any]
    low: int
    high: int | None


class Ratio(NamedTuple):
    """A quotient or remainder of a sum, by a sum of parameters that is not a constant.

    Attributes
    ----------
    base, by: the sums.
    kind: the operation.
    """

    base: frozenset[Any]
    by: frozenset[Any]
    kind: type


class Opaque(NamedTuple):
    """Any other expression.

    Attributes
    ----------
    key: equal expressions share it.
    variables: those of loops that it depends on, and of parameters.
    buffers: those that it reads.
    range: bounds of its values.
    """

    key: Any
    variables: frozenset[Any]
    buffers: frozenset[Any]
    range: ValueInterval


class IndexSums:
    """Writes the integer expressions of a program as sums.

    Attributes
    ----------
    loops: by their variables.
    bound: expressions by the variables that stand for them: of blocks, and of bindings.
    ambiguous: variables that several statements define; their values are unknown.
    """

    def __init__(self) -> None:
        self.loops: dict[Any, Any] = {}
        self.bound: dict[Any, Any] = {}
        self.ambiguous: set[Any] = set()
        self._sums: dict[Any, IndexSum] = {}
        self._ranges: dict[Any, ValueInterval] = {}

    def define_loop(self, loop: Any) -> None:
        """Note the variable of a loop."""
        self._note_once(loop.loop_var)
        self.loops[loop.loop_var] = loop

    def define(self, variable: Any, value: Any) -> None:
        """Note the value of a variable."""
        self._note_once(variable)
        self.bound[variable] = value

    def _note_once(self, variable: Any) -> None:
        if variable in self.loops or variable in self.bound:
            self.ambiguous.add(variable)

    def of(self, expr: Any) -> IndexSum:
        """Return the sum that an expression is."""
        known = constant(expr)
        if known is not None:
            return IndexSum({}, known)
        if isinstance(expr, tirx.Var):
            found = self._sums.get(expr)
            if found is None:
                found = self._sums[expr] = self._of_variable(expr)
            return found
        found = self._linear(expr)
        if found is None or not self._is_plain(expr, found):
            return self._opaque(expr)
        return found

    def range_of(self, variable: Any) -> ValueInterval:
        """Return the bounds of a variable."""
        found = self._ranges.get(variable)
        if found is None:
            # A loop's variable is its own term: its range comes from the loop.
            found = self._ranges[variable] = self.bounds(self.of(variable))
        return found

    def steps(self, variable: Any) -> float:
        """Return the largest number of steps that a loop's variable is from its first value."""
        loop = self.loops.get(variable)
        if loop is None or variable in self.ambiguous:
            return inf
        extent = constant(loop.extent)
        return max(0, (bounds(loop.extent, self.range_of).high if extent is None else extent) - 1)

    def bounds(self, total: IndexSum) -> ValueInterval:
        """Return the bounds of a sum."""
        found = ValueInterval(total.constant, total.constant)
        for part, factor in total.terms.items():
            found = found.plus(self.part_bounds(part).times(factor))
        return found

    def part_bounds(self, part: Any) -> ValueInterval:
        """Return the bounds of what a sum has a multiple of."""
        if isinstance(part, Opaque):
            return part.range
        if isinstance(part, SumDigit):
            base = self.bounds(sum_of(part.base))
            most = base.high // part.low if base.high < inf else inf
            if part.high is None:
                return ValueInterval(base.low // part.low if base.low > -inf else -inf, most)
            least = part.high // part.low - 1
            return ValueInterval(0, min(most, least) if base.low >= 0 else least)
        return ValueInterval(0, self.steps(part)) if part in self.loops else EVERYTHING

    def variables(self, part: Any) -> frozenset[Any]:
        """Return the variables of loops, and the parameters, of what a sum has a multiple of."""
        if isinstance(part, Opaque):
            return part.variables
        if isinstance(part, SumDigit | Ratio):
            terms = [*sum_of(part.base).terms]
            terms += sum_of(part.by).terms if isinstance(part, Ratio) else []
            return frozenset[Any]().union(*map(self.variables, terms))
        return frozenset((part,))

    def written_out(self, expr: Any) -> Any | None:
        """Return an expression of loop variables and parameters of one type; None for any other."""
        variables = found_in(expr, tirx.Var)
        if found_in(expr, (TensorLoad, tirx.Cast)) or any(
            one in self.ambiguous for one in variables
        ):
            return None
        bound = {one: self.bound[one] for one in variables if one in self.bound}
        return self.written_out(substituted(expr, bound)) if bound else expr

    def loops_in(self, expr: Any) -> frozenset[Any]:
        """Return the variables of loops, and the parameters, that an expression depends on."""
        found: set[Any] = set()
        for variable in found_in(expr, tirx.Var):
            if variable in self.ambiguous:
                found |= _ANYTHING
            elif variable in self.bound:
                found |= self.loops_in(self.bound[variable])
            elif not isinstance(variable.ty, tirx.BufferType):
                found.add(variable)
                if variable in self.loops:
                    found |= self.loops_in(self.loops[variable].min)
        return frozenset(found)

    def _of_variable(self, variable: Any) -> IndexSum:
        if variable in self.ambiguous:
            return self._own(variable, EVERYTHING)
        if variable in self.bound:
            return self.of(self.bound[variable])
        own = IndexSum({variable: 1}, 0)
        loop = self.loops.get(variable)
        if loop is None or constant(loop.min) == 0:
            return own
        return own.plus(self.of(loop.min))

    def _is_plain(self, expr: Any, found: IndexSum) -> bool:
        """Return whether no value leaves its type."""
        range_ = self.bounds(found)
        dtype = dtype_of(expr)
        return fits(dtype, range_) or (not range_.is_bounded and dtype in ("int32", "int64"))

    def _linear(self, expr: Any) -> IndexSum | None:
        if isinstance(expr, tirx.Add | tirx.Sub):
            sign = 1 if isinstance(expr, tirx.Add) else -1
            return self.of(expr.a).plus(self.of(expr.b), sign)
        if isinstance(expr, tirx.Cast):
            return self.of(expr.value) if is_integer(expr.value) else None
        if isinstance(expr, tirx.Broadcast):
            return self.of(expr.value)
        if isinstance(expr, tirx.Mul):
            return _scaled(self.of(expr.a), self.of(expr.b))
        if isinstance(expr, tirx.FloorDiv | tirx.FloorMod | tirx.Div | tirx.Mod):
            divided, by = self.of(expr.a), self.of(expr.b)
            if by.terms and all(map(self._is_parameter, by.terms)):
                return IndexSum({Ratio(divided.frozen, by.frozen, type(expr)): 1}, 0)
            if by.terms or by.constant < 1:
                return None
            if isinstance(expr, tirx.Div | tirx.Mod) and self.bounds(divided).low < 0:
                return None
            if isinstance(expr, tirx.FloorDiv | tirx.Div):
                return self._quotient(divided, by.constant)
            return self._remainder(divided, by.constant)
        if isinstance(expr, _BITS):
            return self._of_bits(expr)
        return self.of(expr.args[0]) if called(expr) == LIKELY else None

    def _is_parameter(self, part: Any) -> bool:
        """Return whether a part depends on parameters of the program only."""
        if isinstance(part, SumDigit):
            return all(map(self._is_parameter, sum_of(part.base).terms))
        return not isinstance(part, Ratio | Opaque) and part not in self.loops

    def _of_bits(self, expr: Any) -> IndexSum | None:
        a, b = self.of(expr.a), self.of(expr.b)
        if isinstance(expr, LShift | RShift):
            if b.terms or not 0 <= b.constant < _MOST_BITS:
                return None
            by = 1 << b.constant
            if isinstance(expr, LShift):
                return _scaled(a, IndexSum({}, by))
            return self._quotient(a, by)
        if isinstance(expr, BitwiseAnd):
            if not a.terms:
                a, b = b, a
            if b.terms:
                return None
            if b.constant == -1:
                return a
            is_mask = b.constant >= 0 and not b.constant & (b.constant + 1)
            return self._remainder(a, b.constant + 1) if is_mask else None
        # Of what has no bit in common, the sum is the same.
        for low, high in ((a, b), (b, a)):
            range_ = self.bounds(low)
            if range_.low >= 0 and range_.high < inf and self.bounds(high).low >= 0:
                by = 1 << int(range_.high).bit_length()
                if not high.constant % by and not any(f % by for f in high.terms.values()):
                    return low.plus(high)
        return None

    def _quotient(self, total: IndexSum, by: int) -> IndexSum:
        rest = _rest(total, by)
        range_ = self.bounds(rest)
        if range_.low >= 0 and range_.high < by:
            whole = total.plus(rest, -1)
            terms = {part: factor // by for part, factor in whole.terms.items()}
            return IndexSum(terms, whole.constant // by)
        digit = _digit(total)
        if digit.high is None or not (digit.high // digit.low) % by:
            return IndexSum({digit._replace(low=digit.low * by): 1}, 0)
        return IndexSum({SumDigit(total.frozen, by, None): 1}, 0)

    def _remainder(self, total: IndexSum, by: int) -> IndexSum:
        rest = _rest(total, by)
        range_ = self.bounds(rest)
        if range_.low >= 0 and range_.high < by:
            return rest
        digit = _digit(total)
        if digit.high is None or not (digit.high // digit.low) % by:
            return IndexSum({digit._replace(high=digit.low * by): 1}, 0)
        return IndexSum({SumDigit(total.frozen, 1, by): 1}, 0)

    def _opaque(self, expr: Any) -> IndexSum:
        range_ = bounds(expr, self.range_of)
        if isinstance(expr, tirx.Ramp):
            stride = self.of(expr.stride)
            if not stride.terms:
                lanes = self._own(expr, ValueInterval(0, int(expr.lanes) - 1))
                return self.of(expr.base).plus(lanes, stride.constant)
        elif range_.low == range_.high:
            return IndexSum({}, int(range_.low))
        loads, calls = self.asked(expr)
        if calls or isinstance(expr, tirx.Ramp):
            return self._own(expr, range_)
        buffers = frozenset(load.source for load in loads)
        return IndexSum({Opaque(StructuralKey(expr), self.loops_in(expr), buffers, range_): 1}, 0)

    @staticmethod
    def _own(expr: Any, range_: ValueInterval) -> IndexSum:
        """Return what may differ between any two evaluations, as an inner loop's variable does."""
        return IndexSum({Opaque(StructuralKey(expr), _ANYTHING, frozenset(), range_): 1}, 0)

    def asked(self, expr: Any) -> tuple[list[Any], list[Any]]:
        """Return the loads in an expression, and its calls that do more than compute."""
        loads, calls = found_in(expr, TensorLoad), impure_calls(expr)
        for variable in found_in(expr, tirx.Var):
            if variable in self.bound:
                more, others = self.asked(self.bound[variable])
                loads, calls = loads + more, calls + others
        return loads, calls


_ANYTHING = frozenset((object(),))
"""The variables of an expression that may change between any two evaluations."""
_MOST_BITS = 31
_BITS = (BitwiseAnd, BitwiseOr, LShift, RShift)


def sum_of(frozen: frozenset[Any]) -> IndexSum:
    """Return the sum that has a key."""
    terms = dict(frozen)
    return IndexSum(terms, terms.pop(None))


def _scaled(a: IndexSum, b: IndexSum) -> IndexSum | None:
    if a.terms and b.terms:
        return None
    total, factor = (b, a.constant) if not a.terms else (a, b.constant)
    return IndexSum({}, 0).plus(total, factor)


def _rest(total: IndexSum, by: int) -> IndexSum:
    """Return a sum without the multiples of a number."""
    terms = {part: factor for part, factor in total.terms.items() if factor % by}
    return IndexSum(terms, total.constant % by)


def _digit(total: IndexSum) -> SumDigit:
    """Return a sum as a digit: of a digit alone, itself."""
    if len(total.terms) == 1 and not total.constant:
        part, factor = next(iter(total.terms.items()))
        if isinstance(part, SumDigit) and factor == 1:
            return part
    return SumDigit(total.frozen, 1, None)
