"""The right results on one draw of inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from schedlang.measurement.tolerance import Tolerance, Tolerances
from schedlang.targets.measure.draws import Draw
from schedlang.targets.measure.expected.narrow import WideResults
from schedlang.targets.measure.verify import Array, Numerics, compare

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

    draw: Draw
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
    draw: Draw,
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
