"""What the unscheduled program computes, and whether another program computes the same."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from schedlang.measurement import Status
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.fault import Fault, faults
from schedlang.targets.measure.verify import Array, Numerics, compare


class Reference:
    """The right results for a dataset.

    Chooses the dataset's inputs: from [-1, 1), or from [0.1, 1) if the first give NaN.

    Parameters
    ----------
    call: runs the unscheduled program on the dataset's tensors.
    data: its tensors.
    numerics: how exactly its results are defined.

    Raises ``Fault`` when the program fails, writes where it must not, or gives NaN on both.
    """

    def __init__(self, call: Callable[[], None], data: Dataset, numerics: Numerics) -> None:
        self._call = call
        self._data = data
        self._numerics = numerics
        for positive in (False, True):
            data.draw(positive=positive)
            self._expected = self._run(call)
            self._untouched = self._find_untouched(call)
            if not any(map(_has_nan, self._expected, self._untouched)):
                break
        else:
            raise Fault(
                Status.WRONG_RESULT,
                "the unscheduled program gives NaN on random inputs, in [-1, 1) and in [0.1, 1)",
            )
        self._checksum = self._digest()

    def mismatch(self) -> str | None:
        """Why the dataset's outputs are not right, in one line; None if they are."""
        got, want = [], []
        for value, expected, untouched in zip(
            self._data.outputs(), self._expected, self._untouched, strict=True
        ):
            if untouched is not None:
                if not _is_nan(value)[untouched].all():
                    return "it writes elements that the unscheduled program leaves as they were"
                value = np.where(untouched, np.zeros((), value.dtype), value)
                expected = np.where(untouched, np.zeros((), value.dtype), expected)
            got.append(value)
            want.append(expected)
        return compare(got, want, self._data.output_types, self._numerics)

    def repeats(self) -> bool:
        """Whether the unscheduled program gives these results once more."""
        self._data.restore()
        self._run(self._call)
        return self.mismatch() is None

    @property
    def damaged(self) -> bool:
        """Whether a program reached what this object or the dataset keeps to itself."""
        return self._digest() != self._checksum

    def _digest(self) -> int:
        digest = self._data.digest()
        for value in self._expected:
            digest = zlib.crc32(value.tobytes(), digest)
        return digest

    def _run(self, call: Callable[[], None]) -> list[Array]:
        with faults(Status.RUN_ERROR):
            call()
        if (reason := self._data.overrun()) is not None:
            raise Fault(Status.WRONG_RESULT, f"the unscheduled program: {reason}")
        return self._data.outputs()

    def _find_untouched(self, call: Callable[[], None]) -> list[Array | None]:
        """Masks of the elements that the program leaves as they were; None where it writes all."""
        if not any(_has_nan(value, None) for value in self._expected):
            return [None] * len(self._expected)
        others = self._data.poison_otherwise()
        again = self._run(call)
        return [
            _is_nan(value) & (second == other)
            for value, second, other in zip(self._expected, again, others, strict=True)
        ]


def _is_nan(value: Array) -> Array:
    if value.dtype.kind in "biu":
        return np.zeros(value.shape, np.bool_)
    return np.asarray(np.isnan(value))


def _has_nan(value: Array, untouched: Array | None) -> bool:
    found = _is_nan(value)
    return bool((found if untouched is None else found & ~untouched).any())
