"""The results of the unscheduled program, and comparing another program's with them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from schedlang.measurement import Status
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.fault import Fault, faults
from schedlang.targets.measure.verify import Array, Numerics, compare


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The right results on one machine.

    Attributes
    ----------
    positive: the inputs that they belong to, as ``Dataset.draw`` calls them.
    expected: contents of the written tensors.
    untouched: masks of the elements that the unscheduled program leaves as they were; None where it
        writes all.
    seconds: wall time of the last call of the unscheduled program.
    checksum: of ``expected`` and the dataset's inputs, as they were.
    """

    positive: bool
    expected: tuple[Array, ...]
    untouched: tuple[Array | None, ...]
    seconds: float
    checksum: int

    def mismatch(self, data: Dataset, numerics: Numerics) -> str | None:
        """Say in one line why the outputs in ``data`` are not right; None if they are."""
        got, want = [], []
        for value, expected, untouched in zip(
            data.outputs(), self.expected, self.untouched, strict=True
        ):
            if untouched is not None:
                if not _is_nan(value)[untouched].all():
                    return "it writes elements that the unscheduled program leaves as they were"
                value = np.where(untouched, np.zeros((), value.dtype), value)
                expected = np.where(untouched, np.zeros((), value.dtype), expected)
            got.append(value)
            want.append(expected)
        return compare(got, want, data.output_types, numerics)

    def damaged(self, data: Dataset) -> bool:
        """Whether a program changed private data of this object or the dataset."""
        return _digest(data, self.expected) != self.checksum


def learn_reference(call: Callable[[], None], data: Dataset) -> Reference:
    """Run the unscheduled program, and keep its results.

    Chooses the inputs of ``data``: from [-1, 1), or from [0.1, 1) if the first give NaN. ``call``
    runs the program on them. Raises ``Fault`` when it fails, writes where it must not, or gives NaN
    on both.
    """
    for positive in (False, True):
        if data.positive != positive:
            data.draw(positive=positive)
        expected, seconds = _run(call, data)
        untouched: list[Array | None] = [None] * len(expected)
        if any(_is_nan(value).any() for value in expected):
            others = data.poison_otherwise()
            again, seconds = _run(call, data)
            masks = [
                _is_nan(value) & (second == other)
                for value, second, other in zip(expected, again, others, strict=True)
            ]
            if any((_is_nan(v) & ~mask).any() for v, mask in zip(expected, masks, strict=True)):
                continue
            untouched = [mask if mask.any() else None for mask in masks]
        data.restore()
        checksum = _digest(data, expected)
        return Reference(positive, tuple(expected), tuple(untouched), seconds, checksum)
    raise Fault(
        Status.WRONG_RESULT,
        "the unscheduled program gives NaN on random inputs, in [-1, 1) and in [0.1, 1)",
    )


def _run(call: Callable[[], None], data: Dataset) -> tuple[list[Array], float]:
    with faults(Status.RUN_ERROR):
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
    if (reason := data.overrun()) is not None:
        raise Fault(Status.WRONG_RESULT, f"the unscheduled program: {reason}")
    return data.outputs(), seconds


def _digest(data: Dataset, expected: tuple[Array, ...] | list[Array]) -> int:
    digest = data.digest()
    for value in expected:
        digest = zlib.crc32(value.tobytes(), digest)
    return digest


def _is_nan(value: Array) -> Array:
    if value.dtype.kind in "biu":
        return np.zeros(value.shape, np.bool_)
    return np.asarray(np.isnan(value))
