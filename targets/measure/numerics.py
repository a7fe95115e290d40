"""Comparing the outputs of a candidate with those of the unscheduled program.

``Numerics`` says how exactly an output is defined, and ``compare`` finds the first difference that
this does not allow. ``numerics_of`` finds the numerics of a program's outputs, and
``SelectedValues`` accepts indices that are right although they differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from schedlang.measurement.problem import Tolerance, Tolerances
from schedlang.tvm.analysis.flow import Flow, Rounding
from schedlang.tvm.analysis.partial_results import SelectionProgram, count_steps, output_flows
from schedlang.tvm.codegen import compile_for_host
from schedlang.tvm.values import is_floating

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


# -- Comparing outputs ----------------------------------------------------------------------------

# A schedule may add up terms in any order. The rounding errors of n additions behave like a random
# walk: relative to the root mean square of the result their standard deviation is about
# epsilon * sqrt(n) / 2, and never above epsilon * sqrt(n). A correct program stays within 16 times
# that.
FACTOR = 16.0
_LOOSEST = 0.25
# Fraction of the integers that rounding may change by one, for all types.
_FEW = 1e-3
# Elements that are compared at a time: what is computed on the way stays in the cache.
_BLOCK = 1 << 16
# More than rounding takes away from a root mean square in float32, and from differences.
_ROUNDED = 0.99

Array = np.ndarray[Any, np.dtype[Any]]

Judge = Callable[[Sequence["Array | None"], Array, Array], Array]
"""Returns a mask of the wrong elements of an output: from the values of the arguments before the
call, None for those that are only written, the output and the right one."""


@dataclass(frozen=True, slots=True)
class Numerics:
    """Properties of a program that bound the rounding errors of one of its outputs.

    Attributes
    ----------
    reduction_length: number of terms that are added up for one element.
    stored: floating-point types of results that are stored on the way; each store rounds.
    floating: whether rounding errors of floating-point numbers reach it.
    exact: whether it is the same in all right programs.
    judge: compares indices that differ by the values they select; None for other outputs.
    """

    reduction_length: int = 1
    stored: frozenset[str] = frozenset()
    floating: bool = False
    exact: bool = False
    judge: Judge | None = None


NO_REDUCTION = Numerics()


def compare(
    outputs: Sequence[Array],
    expected: Sequence[Array],
    dtypes: Sequence[str],
    numerics: Numerics | Sequence[Numerics] = NO_REDUCTION,
    tolerances: Tolerances = (),
    inputs: Sequence[Array | None] | None = None,
) -> str | None:
    """Say in one line why ``outputs`` are not ``expected``; None if they agree.

    Floating-point numbers agree within a tolerance from the element type, the coarsest type that
    results are stored in on the way, and the reduction length. NaN never agrees, not even with NaN;
    an infinity agrees with the same infinity. Integers and booleans agree when they are equal;
    where they come from floating-point numbers, which another order of summation rounds to the
    other side now and then, few of them may be off by one step or by the tolerance. Indices that a
    search selects also agree where they select equal values.

    ``numerics`` are of each output, or of all of them. ``tolerances`` may give each output a
    tolerance of its own. Integers then agree within it too. ``inputs`` are the values of all
    arguments before the call, None for those that are only written; without them, indices must be
    equal.
    """
    each = (numerics,) * len(dtypes) if isinstance(numerics, Numerics) else numerics
    given = tolerances or (None,) * len(dtypes)
    compared = zip(outputs, expected, dtypes, each, given, strict=True)
    for position, (got, want, dtype, bounds, allowed) in enumerate(compared):
        reason = _compare_one(got, want, dtype, bounds, allowed, inputs)
        if reason is not None:
            return f"output {position} ({dtype}): {reason}"
    return None


def tolerance(dtype: str, reduction_length: int) -> float:
    """Return the largest error of a floating-point element, relative to the result."""
    return min(FACTOR * epsilon(dtype) * math.sqrt(max(reduction_length, 1)), _LOOSEST)


def epsilon(dtype: str) -> float:
    """Return the distance from 1 to the next number of a floating-point type."""
    return float(ml_dtypes.finfo(np.dtype(dtype)).eps)  # type: ignore[no-untyped-call]


def allowed_error(dtype: str, numerics: Numerics) -> float:
    """Return the largest relative error of elements of ``dtype`` that rounding explains."""
    if numerics.exact:
        return 0.0
    types = {dtype, *numerics.stored} if is_floating(dtype) else numerics.stored
    return max((tolerance(kind, numerics.reduction_length) for kind in types), default=0.0)


def _compare_one(
    got: Array,
    want: Array,
    dtype: str,
    numerics: Numerics,
    given: Tolerance | None,
    inputs: Sequence[Array | None] | None,
) -> str | None:
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if not is_floating(dtype):
        if dtype == "bool":
            # A byte other than 0 and 1 is no truth value: the output was not written.
            got, want = got.view(np.uint8), want.view(np.uint8)
        elif given is not None:
            return _compare_numbers(got, want, np.isfinite(want), given)
        if numerics.judge is not None and inputs is not None and not np.array_equal(got, want):
            wrong = numerics.judge(inputs, got, want)
            return _describe(wrong, got, want) if wrong.any() else None
        return _compare_integers(
            got, want, allowed_error(dtype, numerics) if numerics.floating else None
        )
    if given is not None and np.array_equal(got, want):
        return None
    allowed = given or Tolerance(allowed_error(dtype, numerics))
    if _clearly_near(got, want, dtype, allowed):
        return None
    wide = np.float64 if dtype == "float64" else np.float32
    got, want = np.asarray(got, wide), np.asarray(want, wide)
    missing = np.isnan(got)
    if missing.any():
        return _describe(missing, got, want) + " (not written, or not a number)"
    finite = np.isfinite(want)
    wrong = got != want
    if (wrong & ~finite).any():
        return _describe(wrong & ~finite, got, want)
    # An element near zero is a difference of large ones: it is as exact as they are.
    return _compare_numbers(got, want, finite, allowed)


def _clearly_near(got: Array, want: Array, dtype: str, allowed: Tolerance) -> bool:
    """Whether all elements are so near that the largest ones need no larger tolerance.

    This is one look at each element, in the cache. False where an element is not finite.
    """
    wide = np.float64 if dtype == "float64" else np.float32
    got, want, worst, squares = got.reshape(-1), want.reshape(-1), 0.0, 0.0
    errors = np.empty(min(want.size, _BLOCK), wide)
    with np.errstate(all="ignore"):
        for start in range(0, want.size, _BLOCK):
            right: Array = np.asarray(want[start : start + _BLOCK], wide)
            found = np.asarray(got[start : start + _BLOCK], wide)
            error = np.subtract(found, right, out=errors[: right.size])
            largest = max(float(error.max()), -float(error.min()))
            if not math.isfinite(largest):
                return False
            worst = max(worst, largest)
            # Not ``dot``, which may start threads.
            squares += float(np.einsum("i,i->", right, right))
    if not math.isfinite(squares):
        return False
    scale = math.sqrt(squares / max(want.size, 1))
    bound = float(allowed.bound(0.0, scale))
    return worst == 0.0 or worst <= _ROUNDED * bound


def _compare_numbers(got: Array, want: Array, finite: Array, allowed: Tolerance) -> str | None:
    wrong = outside(got, want, finite, allowed)
    return _describe(wrong, got, want) if wrong.any() else None


def outside(got: Array, want: Array, finite: Array, allowed: Tolerance) -> Array:
    """Return a mask of the numbers that differ by more than ``allowed``.

    ``finite`` is a mask of the right numbers that are finite; the others have the size 0.
    """
    size = np.abs(want.astype(np.float64), where=finite, out=np.zeros(want.shape, np.float64))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - want)
    return np.asarray((got != want) & ~(error <= allowed.bound(size, root_mean_square(size))))


def root_mean_square(values: Array) -> float:
    """Return the root of the mean of the squares; 0 of no values."""
    return math.sqrt(float(np.mean(np.square(values)))) if values.size else 0.0


def _compare_integers(got: Array, want: Array, allowed: float | None) -> str | None:
    """Compare; ``allowed`` is the relative error before rounding, None if there is none."""
    wrong = got != want
    if not wrong.any():
        return None
    if allowed is not None:
        size = np.abs(want.astype(np.float64))
        error = np.abs(got.astype(np.float64) - want.astype(np.float64))
        scale = root_mean_square(size)
        # An error of one tenth of a step moves one number in ten to the next integer.
        few = math.ceil(min(max(allowed * scale, _FEW), 1.0) * wrong.size)
        near = error <= 1.0 + allowed * np.maximum(size, scale)
        if near[wrong].all() and np.count_nonzero(wrong) <= few:
            return None
    return _describe(wrong, got, want)


def _describe(wrong: Array, got: Array, want: Array) -> str:
    """Say how many elements are wrong, and where the error is largest."""
    flat = np.flatnonzero(wrong)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.reshape(-1)[flat].astype(np.float64) - want.reshape(-1)[flat])
    # NaN is worse than any number.
    worst = int(flat[int(np.argmax(np.where(np.isnan(error), np.inf, error)))])
    index = np.unravel_index(worst, wrong.shape)
    place = ", ".join(str(int(i)) for i in index)
    largest = (
        f" (the largest error, {error.max():.3g})"
        if flat.size > 1 and np.isfinite(error).all()
        else ""
    )
    return (
        f"{flat.size} of {wrong.size} elements differ; at [{place}] got {got[index]}, "
        f"expected {want[index]}{largest}"
    )


# -- How exactly each output is defined, and indices that may differ ------------------------------

# The judge of a longer program would take too long: its indices must be equal.
_MOST_STEPS = 5e7


def numerics_of(unscheduled: TensorProgram, written: Sequence[int]) -> tuple[Numerics, ...]:
    """Return how exactly the arguments at the positions ``written`` are defined."""
    flows = output_flows(unscheduled)
    judged = count_steps(unscheduled) <= _MOST_STEPS
    found = []
    for position in written:
        output = flows.get(position)
        if output is None:
            found.append(NO_REDUCTION)
            continue
        selection = output.selection if judged else None
        judge = None if selection is None else SelectedValues(selection)
        found.append(_numerics(output.flow, judge))
    return tuple(found)


def _numerics(flow: Flow, judge: SelectedValues | None = None) -> Numerics:
    near = bool(flow.rounding & Rounding.NEAR)
    exact = flow.rounding == Rounding.EXACT and judge is None
    return Numerics(flow.reduction_length, flow.stored, near, exact, judge)


class SelectedValues:
    """Compares indices by the values they select: where those are equal, both are right.

    Values that are computed in floating point are equal within their tolerance, all others only if
    they are the same.
    """

    def __init__(self, selection: SelectionProgram) -> None:
        self._selection = selection
        self._shape = selection.args[selection.index][0]

    def __call__(self, inputs: Sequence[Array | None], got: Array, want: Array) -> Array:
        """Return a mask of the wrong elements of ``got``."""
        differs = np.asarray(got != want)
        if self._program is None:
            return differs
        value, known = self._selected(inputs, got)
        right_value, right_known = self._selected(inputs, want)
        agrees = known & right_known & self._near(value, right_value)
        return differs & ~agrees.reshape(got.shape)

    @cached_property
    def _program(self) -> Callable[..., None] | None:
        try:
            return compile_for_host(self._selection.program)
        except Exception:  # a program that only another machine can run: indices must be equal
            return None

    def _selected(self, inputs: Sequence[Array | None], indices: Array) -> tuple[Array, Array]:
        """Return the selected values, and which indices the search can give at all."""
        assert self._program is not None
        shape, dtype = self._selection.args[-1]
        asked = indices.reshape(shape).astype(dtype)
        arrays: list[Array] = []
        for place, (shape, dtype) in enumerate(self._selection.args[:-1]):
            value = inputs[place] if place < len(inputs) else None
            arrays.append(np.zeros(shape, np.dtype(dtype)) if value is None else value.copy())
        self._program(*arrays, asked)
        found = arrays[self._selection.index].astype(indices.dtype)
        known = found == indices.reshape(self._shape)
        return arrays[self._selection.value], np.asarray(known)

    def _near(self, value: Array, right: Array) -> Array:
        flow = self._selection.flow
        dtype = self._selection.args[self._selection.value][1]
        if not flow.rounding:
            return np.asarray(value == right)
        if not is_floating(dtype):
            return np.asarray(np.abs(value.astype(np.float64) - right.astype(np.float64)) <= 1)
        got, want = value.astype(np.float64), right.astype(np.float64)
        allowed = Tolerance(allowed_error(dtype, _numerics(flow)))
        return ~outside(got, want, np.isfinite(want), allowed)
