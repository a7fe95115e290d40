"""Inputs on which right programs agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from schedlang.measurement import Status
from schedlang.measurement.tolerance import Tolerance, Tolerances
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.expected.narrow import WideProgram
from schedlang.targets.measure.expected.results import Results, without
from schedlang.targets.measure.inputs import perturbed
from schedlang.targets.measure.verify import (
    FACTOR,
    Array,
    Numerics,
    allowed_error,
    compare,
    tolerance,
)
from schedlang.targets.worker.fault import faults
from schedlang.tvm.analysis.characters import WIDE
from schedlang.tvm.values import is_floating

# Results that are as many epsilon off after inputs were changed by 4 are well conditioned.
_CHANGE, _MOST_CHANGE = 4.0, 32.0
_FEW = 1e-3
# Rounding may take the unscheduled program this part of the tolerance away from exact results.
_PART = 0.25


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
    are changed by as little as rounding may do. The first draw is judged for sums and products,
    whose results may happen to be nearly zero.

    Parameters
    ----------
    call: runs the unscheduled program on ``data``.
    wide: the program in float64, where there is one.
    polynomial: the program consists of sums and products: ``wide`` is right where the program
        itself is far off, as a long sum in float16 is whose last terms change nothing.
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

    def __call__(self, results: Results) -> bool:
        """Judge the results on the draw that is in place."""
        rounds = any(self._allowed) or any(one.floating for one in self._numerics)
        if not self._data.drawn or not rounds:
            return True
        is_first = results.draw.number == 0 and results.draw.change is None
        if is_first and not self._polynomial:
            if self.wide is not None and self._own_error(results, self.wide, 1.0):
                self.wide = None
            return True
        if self.wide is not None:
            return not self._own_error(results, self.wide, _PART)
        return self._is_trusted or not self._sensitive(results)

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
