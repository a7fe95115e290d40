"""The right results on one draw of inputs; sums in narrow types are learned in float64.

Two right orders of a long sum in float16 or bfloat16 differ so much that a tolerance which allows
it also allows a missing term. So the unscheduled program is run once more, with float64 in the
place of the narrow type, and candidates are compared with what that gives: then only their own
rounding counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from schedlang.measurement import Status
from schedlang.measurement.problem import Tolerance, Tolerances
from schedlang.targets.errors import faults
from schedlang.targets.measure.backend import Backend, LoadedProgram
from schedlang.targets.measure.draws import InputDraw
from schedlang.targets.measure.numerics import Array, Numerics, compare, epsilon, root_mean_square
from schedlang.tvm.analysis.characters import NARROW, WIDE
from schedlang.tvm.values import is_floating
from schedlang.workloads.workload import Argument

# -- Results on one draw --------------------------------------------------------------------------

_EQUAL = Tolerance(0.0)
_ANY_NUMBER = Tolerance(0.0, math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The right results on one draw of inputs.

    Attributes
    ----------
    draw: the inputs that they belong to.
    expected: contents of the written tensors.
    untouched: masks of the elements that the program leaves as they were; None where it writes
        all.
    checksum: of these and the dataset's inputs, as they were; None before ``Reference.kept_with``.
    wide: for each written tensor what it is without rounding, where that is known.
    exact: no right program rounds: floating-point numbers are equal, too.
    """

    draw: InputDraw
    expected: tuple[Array, ...]
    untouched: tuple[Array | None, ...]
    checksum: int | None = None
    wide: tuple[WideResults | None, ...] = ()
    exact: bool = False

    @property
    def writes_all(self) -> bool:
        """Whether the program writes every element of every output."""
        return all(mask is None for mask in self.untouched)

    @property
    def finite(self) -> bool:
        """Whether all that the program writes are finite numbers."""
        return all(
            value.dtype.kind in "biu"
            or bool((np.isfinite(value) | (False if mask is None else mask)).all())
            for value, mask in zip(self.expected, self.untouched, strict=True)
        )

    @property
    def nbytes(self) -> int:
        """How much memory they take, without the inputs."""
        exact = [array for one in self.wide if one is not None for array in (one.exact, one.scale)]
        masks = [mask for mask in self.untouched if mask is not None]
        return sum(array.nbytes for array in (*self.expected, *masks, *exact))

    def mismatch(
        self,
        outputs: Sequence[Array],
        dtypes: Sequence[str],
        numerics: Numerics | Sequence[Numerics],
        tolerances: Tolerances = (),
        inputs: Sequence[Array | None] | None = None,
        before: Sequence[Array] | None = None,
    ) -> str | None:
        """Say in one line why the outputs of a program are not right; None if they are.

        ``inputs`` are those of the draw, for each argument; without them, indices must be equal.
        ``before`` is what the outputs held before the call; NaN by default.
        """
        got, want = [], []
        held = before or (None,) * len(self.expected)
        for value, expected, untouched, old in zip(
            outputs, self.expected, self.untouched, held, strict=True
        ):
            if untouched is not None and not _is_kept(value, old)[untouched].all():
                return "it writes elements that the unscheduled program leaves as they were"
            got.append(without(value, untouched))
            want.append(without(expected, untouched))
        given = tolerances or (None,) * len(got)
        if self.exact:
            given = tuple(one or _EQUAL for one in given)
        judges = [
            wide if one is None else None for wide, one in zip(self._wide, given, strict=True)
        ]
        allowed = tuple(
            one if wide is None else _ANY_NUMBER for wide, one in zip(judges, given, strict=True)
        )
        reason = compare(got, want, dtypes, numerics, allowed, inputs)
        for place, (value, wide) in enumerate(zip(got, judges, strict=True)):
            if reason is None and wide is not None:
                reason = wide.mismatch(value)
                reason = reason and f"output {place} ({dtypes[place]}): {reason}"
        return reason

    @property
    def _wide(self) -> tuple[WideResults | None, ...]:
        return self.wide or (None,) * len(self.expected)


def results_of(
    draw: InputDraw,
    expected: Sequence[Array],
    run_again: Callable[[], tuple[Sequence[Array], Sequence[Array]]],
) -> Results | None:
    """Return what a program wrote on a draw as its results; None where some of it is NaN.

    NaN may be what was there before the call. So ``run_again`` runs the program with other contents
    in its outputs, and returns what it wrote then, and those contents.
    """
    untouched: list[Array | None] = [None] * len(expected)
    if any(is_nan(value).any() for value in expected):
        again, others = run_again()
        masks = [
            is_nan(value) & (second == other)
            for value, second, other in zip(expected, again, others, strict=True)
        ]
        if any((is_nan(v) & ~mask).any() for v, mask in zip(expected, masks, strict=True)):
            return None
        untouched = [mask if mask.any() else None for mask in masks]
    return Results(draw, tuple(expected), tuple(untouched))


def without(value: Array, untouched: Array | None) -> Array:
    """Return a tensor with zeros where the program leaves it as it was."""
    return value if untouched is None else np.where(untouched, np.zeros((), value.dtype), value)


def _is_kept(value: Array, old: Array | None) -> Array:
    """Return a mask of the elements that are what they were, or NaN."""
    kept = is_nan(value) if old is None else (value == old) | (is_nan(value) & is_nan(old))
    return np.asarray(kept)


def is_nan(value: Array) -> Array:
    """Return a mask of the elements that are not a number."""
    if value.dtype.kind in "biu":
        return np.zeros(value.shape, np.bool_)
    return np.asarray(np.isnan(value))


# -- Sums in float16 and bfloat16, compared with the same sums in float64 -------------------------

# One standard deviation of rounding errors is at most this times epsilon * sqrt(n) * scale; as many
# of them may an element be off, and the root mean square of all.
_DEVIATION = 0.15
_ELEMENT = 13.0
_AVERAGE, _FEW = 2.0, 4.0
# A program may be that many times less exact than the unscheduled one.
_WORSE = 2.0


class WideProgram:
    """A program that computes in float64, as ``widened`` makes it, and the memory that it needs.

    Attributes
    ----------
    output_types: element types of the written tensors in the program before that.
    """

    def __init__(self, backend: Backend, program: LoadedProgram, args: Sequence[Argument]) -> None:
        self._backend = backend
        self._entry = program.entry
        self._args = tuple(args)
        self._types = [WIDE if is_floating(arg.dtype) else arg.dtype for arg in args]
        self._memory = [
            backend.allocate(arg.shape, dtype)
            for arg, dtype in zip(self._args, self._types, strict=True)
        ]
        self.output_types = [arg.dtype for arg in args if arg.role != "input"]

    def outputs(self, inputs: Sequence[Array | None]) -> list[Array]:
        """Return what it writes; ``inputs`` are by argument, None for what is only written."""
        for memory, arg, dtype, value in zip(
            self._memory, self._args, self._types, inputs, strict=True
        ):
            memory.fill(np.zeros(arg.shape, dtype) if value is None else value.astype(dtype))
        with faults(Status.RUN_ERROR), self._backend.running():
            self._entry(*(memory.tensor for memory in self._memory))
        return [
            memory.read()
            for memory, arg in zip(self._memory, self._args, strict=True)
            if arg.role != "input"
        ]


@dataclass(frozen=True, slots=True, eq=False)
class WideResults:
    """What an output is without rounding, and how far rounding may take it from there.

    Let ``n`` be the number of terms of a sum, ``epsilon`` that of the narrow type, and ``scale`` of
    an element the larger of its magnitude and the square root of the sum of its squared terms. The
    error of one addition is spread evenly over half a unit in the last place, of a partial sum that
    is no larger than ``scale``; so the error of ``n`` additions has a standard deviation of at most
    ``0.15 epsilon sqrt(n) scale``. An element may be 13 of these off, and the root mean square of N
    elements ``2 + 4 / sqrt(N)``; or twice what the unscheduled program is. A right program
    exceeds the latter with a probability below 1e-7 where errors are independent.

    A program that leaves out one of ``n`` terms, of the size of the others, is off by
    about ``0.8 scale / sqrt(n)`` in the root mean square. That is above the bound for large outputs
    of up to ``0.8 / (0.3 epsilon)`` terms: 2,700 in float16, 340 in bfloat16. It is accepted where
    the terms that it leaves out happen to be that small in all elements: with a probability below
    1e-9 for 64 elements or more. A term of usual size that only one element lacks is found up to
    ``0.8 / (2 epsilon)`` terms: 400 and 50.

    Attributes
    ----------
    exact: the elements, in float64.
    scale: as above, for each element.
    element, average: largest error of an element, and of the root mean square, relative to the
        scale.
    """

    exact: Array
    scale: Array
    element: float
    average: float

    def mismatch(self, got: Array) -> str | None:
        """Say in one line why an output is not exact enough; None if it is."""
        error = np.abs(got.astype(np.float64) - self.exact) / self.scale
        mean = root_mean_square(error)
        worst = float(error.max(initial=0.0))
        if worst <= self.element and mean <= self.average:
            return None
        place = ", ".join(map(str, np.unravel_index(int(np.argmax(error)), error.shape)))
        return (
            f"rounding does not explain its difference from sums in {WIDE}: {mean:.2g} in the root "
            f"mean square of all elements, relative to their terms, where {self.average:.2g} is "
            f"allowed; {worst:.2g} at [{place}], where {self.element:.2g} is allowed"
        )


def learn_wide(
    wide: WideProgram,
    inputs: Sequence[Array | None],
    expected: Sequence[Array],
    terms: Sequence[int],
) -> tuple[WideResults | None, ...]:
    """Find out how far outputs may be from what the widened program gives.

    ``inputs`` and ``expected`` are the unscheduled program's, on independent random numbers around
    0; ``terms`` are the lengths of the sums in each output. None for outputs of other types.
    """
    exact = wide.outputs(inputs)
    squares = wide.outputs([None if value is None else value.astype(WIDE) ** 2 for value in inputs])
    found = zip(wide.output_types, exact, squares, expected, terms, strict=True)
    return tuple(
        _bound(dtype, plain, square, right, length) if dtype in NARROW else None
        for dtype, plain, square, right, length in found
    )


def _bound(
    dtype: str, exact: Array, squares: Array, right: Array, terms: int
) -> WideResults | None:
    scale = np.maximum(np.abs(exact), np.sqrt(np.maximum(squares, 0.0)))
    tiny = float(np.finfo(np.float64).tiny)
    scale = np.maximum(scale, tiny)
    if not np.isfinite(scale).all():
        return None
    deviation = _DEVIATION * epsilon(dtype) * math.sqrt(max(terms, 1))
    error = np.abs(right.astype(np.float64) - exact) / scale
    average = (_AVERAGE + _FEW / math.sqrt(max(exact.size, 1))) * deviation
    return WideResults(
        exact,
        scale,
        max(_ELEMENT * deviation, _WORSE * float(error.max(initial=0.0))),
        max(average, _WORSE * root_mean_square(error)),
    )
