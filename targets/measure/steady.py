"""Inputs on which right programs agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from schedlang.measurement import Status
from schedlang.measurement.problem import Tolerance, Tolerances
from schedlang.targets.errors import faults
from schedlang.targets.measure.backend import Dataset
from schedlang.targets.measure.draws import InputDraw, tamer_draws
from schedlang.targets.measure.inputs import perturbed
from schedlang.targets.measure.numerics import (
    FACTOR,
    Array,
    Numerics,
    allowed_error,
    compare,
    outside,
    tolerance,
)
from schedlang.targets.measure.right_results import Results, WideProgram, without
from schedlang.tvm.analysis.characters import WIDE
from schedlang.tvm.values import is_floating

# Results that are as many epsilon off after inputs were changed by 4 are well conditioned.
_CHANGE, _MOST_CHANGE = 4.0, 32.0
_FEW = 1e-3
# Rounding may take the unscheduled program this part of the tolerance away from exact results; on
# the first draw of programs that do not oscillate half of it, as another right program may be as
# far off on the other side.
_PART, _FIRST_PART = 0.25, 0.5
# Inputs are changed by this multiple of what rounding does to sums, up and down.
_STEP = 2.0
# Results of tamer inputs differ from those of zeros by as many tolerances, in this part of the
# elements that do so on usual inputs.
_TELLING, _TELLING_PART = 8.0, 0.5


def is_steady(
    compute: Callable[[Sequence[Array]], Sequence[Array]],
    inputs: Sequence[Array],
    results: Sequence[Array],
) -> bool:
    """Whether rounding of the inputs leaves the results of a user's function nearly as they are.

    Where it does not, the user's function and right programs need not agree.
    """
    kinds = [value.dtype for value in (*inputs, *results) if is_floating(value.dtype.name)]
    epsilon = max((tolerance(kind.name, 1) / FACTOR for kind in kinds), default=0.0)
    rng = np.random.default_rng(0)
    others = compute(
        [
            perturbed(value, _CHANGE * epsilon, rng) if is_floating(value.dtype.name) else value
            for value in inputs
        ]
    )
    return all(_is_near(one, other, epsilon) for one, other in zip(results, others, strict=True))


def depends_on(
    compute: Callable[[Sequence[Array]], Sequence[Array]],
    inputs: Sequence[Array],
    results: Sequence[Array],
) -> bool:
    """Whether most results of a user's function are far from those of zeros.

    Where they are not, as of a cosine of numbers that are almost 0, wrong programs may agree.
    """
    zeros = [np.zeros_like(value) if is_floating(value.dtype.name) else value for value in inputs]
    for one, other in zip(results, compute(zeros), strict=True):
        if is_floating(one.dtype.name):
            far = Tolerance(_TELLING * tolerance(one.dtype.name, 1))
            count = outside(other, one, np.isfinite(one), far).sum()
            if count < _TELLING_PART * one.size:
                return False
    return True


def _is_near(one: Array, other: Array, epsilon: float) -> bool:
    if not is_floating(one.dtype.name):
        return bool(np.count_nonzero(one != other) <= _FEW * one.size)
    one, other = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        scale = np.maximum(np.abs(one), np.sqrt(np.mean(np.square(one)))) if one.size else one
        near = (one == other) | (np.abs(one - other) <= _MOST_CHANGE * epsilon * scale)
    return bool(near.all())


class Steadiness:
    """Tells whether rounding errors leave the results on a draw within bounds.

    On some inputs they do not: where large numbers cancel, or where the exponential of a large
    number follows. Then two right programs differ by more than is allowed. The unscheduled program
    shows it, as it is itself far from what it gives in float64. Without such a program its inputs
    are changed by as little as rounding may do. So are those of ``wide`` where a number next to a
    whole one may be rounded to another.

    The first draw is judged too, unless nothing is added up: then right programs round alike.
    Where it is of no use, ``tamer`` gives others, until ``take_any``.

    Parameters
    ----------
    call: runs the unscheduled program on ``data``.
    wide: the program in float64, where there is one.
    polynomial: the program consists of sums and products: ``wide`` is right where the program
        itself is far off, as a long sum in float16 is whose last terms change nothing.
    oscillates, jumps: as ``analysis.characters`` has them.
    """

    def __init__(
        self,
        call: Callable[[], None],
        data: Dataset,
        numerics: Sequence[Numerics],
        tolerances: Tolerances,
        wide: WideProgram | None,
        *,
        polynomial: bool = False,
        oscillates: bool = False,
        jumps: bool = False,
    ) -> None:
        self._call = call
        self._data = data
        self._numerics = numerics
        self._given = tolerances or (None,) * len(data.output_types)
        self._allowed = [
            allowed_error(dtype, one)
            for dtype, one in zip(data.output_types, numerics, strict=True)
        ]
        self.wide = wide
        self._polynomial = polynomial
        # Programs that take long have no wide one: a call more for each draw is not spent on them.
        self._is_trusted = polynomial and WIDE not in data.output_types
        sums = any(
            is_floating(dtype) and one.reduction_length > 1
            for dtype, one in zip(data.output_types, numerics, strict=True)
        )
        self._oscillates, self._jumps = sums and oscillates, sums and jumps
        self._judges_first = sums and not polynomial
        # Results of zeros, and how many elements of each output differ from them on usual inputs.
        self._of_zeros: list[Array] = []
        self._usual: list[int] = []

    def __call__(self, results: Results) -> bool:
        """Judge the results on the draw that is in place."""
        rounds = any(self._allowed) or any(one.floating for one in self._numerics)
        if not self._data.drawn or not rounds:
            return True
        is_first = results.draw.number == 0 and results.draw.change is None
        if is_first and not self._polynomial and not self._judges_first:
            if self.wide is not None and self._own_error(results, self.wide, 1.0):
                self.wide = None
            return True
        if self.wide is not None:
            is_lenient = is_first and not (self._polynomial or self._oscillates)
            part = _FIRST_PART if is_lenient else _PART
            if self._own_error(results, self.wide, part):
                return False
            return not (self._jumps and self._leaps(results, self.wide))
        if is_first and not self._polynomial and not self._oscillates:
            return True
        return self._is_trusted or not self._sensitive(results)

    def tamer(self, results: Results) -> Iterator[InputDraw]:
        """Yield tamer draws, in the place of a first one that is not steady.

        None where nothing is added up, nor of the user's own inputs.
        """
        if not self._judges_first or not self._data.drawn:
            return
        if results.draw.scale == 1.0 and not self._usual:
            self._of_zeros = self._zeros(results.draw)
            self._usual = self._unlike_zeros(results)
        yield from tamer_draws(results.draw, self._data.args)

    def says_something(self, results: Results) -> bool:
        """Whether results on a tamer draw show what inputs are, as those on the usual one do."""
        found = zip(self._unlike_zeros(results), self._usual, strict=True)
        return all(count >= _TELLING_PART * usual for count, usual in found)

    def take_any(self) -> None:
        """Take the first draw as it is from now on: no tamer one is steady."""
        self._judges_first = False

    def _zeros(self, draw: InputDraw) -> list[Array]:
        self._data.use_zeros()
        with faults(Status.RUN_ERROR):
            self._call()
        outputs = self._data.outputs()
        self._data.select(draw)
        return outputs

    def _unlike_zeros(self, results: Results) -> list[int]:
        """Return how many elements of each output are far from what zeros give."""
        counts = []
        for value, zero, allowed in zip(
            results.expected, self._of_zeros, self._allowed, strict=True
        ):
            far = Tolerance(_TELLING * allowed)
            counts.append(int(outside(zero, value, np.isfinite(value), far).sum()))
        return counts

    def _leaps(self, results: Results, wide: WideProgram) -> bool:
        """Whether exact results leave the tolerance when inputs change as if sums were rounded."""
        values, types = self._data.values, self._data.output_types
        step = _STEP * max(self._allowed) / FACTOR

        def rounded(outputs: Sequence[Array]) -> list[Array]:
            written = zip(outputs, results.expected, results.untouched, strict=True)
            with np.errstate(over="ignore"):
                return [without(one.astype(kept.dtype), mask) for one, kept, mask in written]

        exact = rounded(wide.outputs(values))
        for sign in (1.0, -1.0):
            rng = np.random.default_rng(0)
            changed = [
                value
                if value is None or not is_floating(value.dtype.name)
                else perturbed(value.astype(np.float64), sign * step, rng)
                for value in values
            ]
            moved = rounded(wide.outputs(changed))
            if compare(moved, exact, types, self._numerics, self._given, values) is not None:
                return True
        return False

    def _own_error(self, results: Results, wide: WideProgram, part: float) -> bool:
        """Whether the results are farther from exact ones than a part of the tolerance."""
        exact = wide.outputs(self._data.values)
        got, want, types = [], [], self._data.output_types
        for value, right, mask, one in zip(
            results.expected, exact, results.untouched, self._numerics, strict=True
        ):
            with np.errstate(over="ignore"):
                right = value if one.exact else right.astype(value.dtype)
            got.append(without(value, mask))
            want.append(without(right, mask))
        allowed = tuple(
            Tolerance(part * error) if one is None and is_floating(dtype) else one
            for one, dtype, error in zip(self._given, types, self._allowed, strict=True)
        )
        return compare(got, want, types, self._numerics, allowed, self._data.values) is not None

    def _sensitive(self, results: Results) -> bool:
        self._data.restore()
        self._data.perturb(max(self._allowed) / FACTOR)
        with faults(Status.RUN_ERROR):
            self._call()
        # What no program rounds is the same in all of them, however much it depends on inputs.
        outputs = [
            right if one.exact else value
            for value, right, one in zip(
                self._data.outputs(), results.expected, self._numerics, strict=True
            )
        ]
        self._data.select(results.draw)
        return (
            results.mismatch(
                outputs,
                self._data.output_types,
                self._numerics,
                self._given,
                self._data.values,
            )
            is not None
        )
