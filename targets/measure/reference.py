"""The results of the unscheduled program, and comparing another program's with them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from schedlang.measurement import Status
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.expected.tolerance import Tolerances
from schedlang.targets.measure.fault import Fault, faults
from schedlang.targets.measure.specification import TensorSpec
from schedlang.targets.measure.verify import Array, Numerics, compare


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The right results.

    Attributes
    ----------
    positive: the inputs that they belong to, as ``Dataset.draw`` calls them.
    expected: contents of the written tensors.
    untouched: masks of the elements that the program leaves as they were; None where it writes
        all.
    seconds: wall time of the last call of the program that gave them; 0 for a user's function.
    checksum: of ``expected`` and the dataset's inputs, as they were; 0 before ``kept_with``.
    """

    positive: bool
    expected: tuple[Array, ...]
    untouched: tuple[Array | None, ...]
    seconds: float = 0.0
    checksum: int = 0

    def kept_with(self, data: Dataset) -> Reference:
        """Return it with the checksum of these inputs."""
        return replace(self, checksum=_digest(data, self.expected))

    def pack(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return it as JSON values and bytes, for ``unpack``."""
        masks = [mask for mask in self.untouched if mask is not None]
        header = {
            "positive": self.positive,
            "seconds": self.seconds,
            "masked": [mask is not None for mask in self.untouched],
        }
        return header, [value.tobytes() for value in (*self.expected, *masks)]

    @classmethod
    def unpack(
        cls, header: dict[str, Any], blobs: Iterable[bytes], args: Sequence[TensorSpec]
    ) -> Reference:
        """Read the result of ``pack``; ``args`` are the tensors of a call."""
        written, left = [arg for arg in args if arg.role != "input"], iter(blobs)
        expected = tuple(from_bytes(next(left), arg.shape, arg.dtype) for arg in written)
        untouched = tuple(
            from_bytes(next(left), arg.shape, "bool") if masked else None
            for arg, masked in zip(written, header["masked"], strict=True)
        )
        return cls(header["positive"], expected, untouched, header["seconds"])

    def mismatch(
        self, data: Dataset, numerics: Numerics, tolerances: Tolerances = ()
    ) -> str | None:
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
        return compare(got, want, data.output_types, numerics, tolerances)

    def damaged(self, data: Dataset) -> bool:
        """Whether a program changed private data of this object or the dataset."""
        return _digest(data, self.expected) != self.checksum


def learn_reference(call: Callable[[], None], data: Dataset) -> Reference:
    """Run the unscheduled program, and keep its results.

    Chooses the inputs of ``data``, unless they are given: from [-1, 1), or from [0.1, 1) if the
    first give NaN. ``call`` runs the program on them. Raises ``Fault`` when it fails, writes where
    it must not, or gives NaN on all of them.
    """
    for positive in (False, True) if data.drawn else (False,):
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
        found = Reference(positive, tuple(expected), tuple(untouched), seconds)
        return found.kept_with(data)
    where = "random inputs, in [-1, 1) and in [0.1, 1)" if data.drawn else "the given inputs"
    raise Fault(Status.WRONG_RESULT, f"the unscheduled program gives NaN on {where}")


def from_bytes(data: bytes, shape: Sequence[int], dtype: str) -> Array:
    """Return the array with these bytes; it cannot be written."""
    return np.frombuffer(data, np.uint8).view(np.dtype(dtype)).reshape(tuple(shape))


def _run(call: Callable[[], None], data: Dataset) -> tuple[list[Array], float]:
    with faults(Status.RUN_ERROR):
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
    if (reason := data.overrun()) is not None:
        raise Fault(Status.WRONG_RESULT, f"the unscheduled program: {reason}")
    return data.outputs(), seconds


def _digest(data: Dataset, expected: Sequence[Array]) -> int:
    digest = data.digest()
    for value in expected:
        digest = zlib.crc32(value.tobytes(), digest)
    return digest


def _is_nan(value: Array) -> Array:
    if value.dtype.kind in "biu":
        return np.zeros(value.shape, np.bool_)
    return np.asarray(np.isnan(value))
