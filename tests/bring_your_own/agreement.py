"""Comparing results with numpy's, and arrays as callers have them. Needs no schedlang."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

# The same sums in another order, and fused multiply-adds; relative to the largest of a result.
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 8e-2}
_LINE = 64


def mismatch(got: Sequence[Array], expected: Sequence[Array], tolerance: float | None) -> str:
    """Say which array is not as expected; empty if all are."""
    for position, (value, want) in enumerate(zip(got, expected, strict=True)):
        if reason := _difference(value, want, tolerance):
            return f"output {position} ({want.dtype}): {reason}"
    return ""


def _difference(got: Array, want: Array, tolerance: float | None) -> str:
    if str(want.dtype) not in _TOLERANCE:
        wrong = np.count_nonzero(got != want)
        return f"{wrong} of {want.size} elements differ from numpy's" if wrong else ""
    allowed = _TOLERANCE[str(want.dtype)] if tolerance is None else tolerance
    wide, right = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.where(wide == right, 0.0, np.abs(wide - right))
    largest = max(float(np.abs(right).max()), float(ml_dtypes.finfo(want.dtype).tiny))
    if not (error <= allowed * largest).all():  # NaN fails too
        return f"off by {np.max(error):.3g}, and the largest of numpy's is {largest:.3g}"
    return ""


def unaligned(value: Array) -> Array:
    """Copy an array to an address that is aligned to its elements and to nothing more."""
    size = max(value.dtype.itemsize, 1)
    memory = np.empty(value.nbytes + 2 * _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE + size
    copy = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copy[...] = value
    assert copy.ctypes.data % _LINE == size % _LINE and copy.flags.c_contiguous
    return copy


@dataclass(frozen=True, eq=False)
class Call:
    """The tensors of one call before it, and what it must leave in those that it writes.

    Attributes
    ----------
    before: a value for each argument.
    written: positions of the arguments that are written.
    expected: their contents afterwards, by numpy.
    tolerance: largest error relative to the largest element; None for that of each type.
    """

    before: Sequence[Array]
    written: Sequence[int]
    expected: Sequence[Array]
    tolerance: float | None

    def mismatch(self, tensors: Sequence[Array]) -> str:
        """Say what is wrong in the tensors after a call; empty if nothing is."""
        return mismatch([tensors[i] for i in self.written], self.expected, self.tolerance)

    def save(self, path: Path) -> None:
        """Write it to a file: a line of JSON, and the bytes of the arrays (numpy's own files have
        no bfloat16).
        """
        arrays = [*self.before, *self.expected]
        header = {
            "arrays": [[str(value.dtype), list(value.shape)] for value in arrays],
            "written": list(self.written),
            "tolerance": self.tolerance,
        }
        data = b"".join(value.tobytes() for value in arrays)
        path.write_bytes(json.dumps(header).encode() + b"\n" + data)

    @classmethod
    def load(cls, path: Path) -> Call:
        """Read what ``save`` wrote."""
        line, _, data = path.read_bytes().partition(b"\n")
        header = json.loads(line)
        arrays, start = [], 0
        for name, shape in header["arrays"]:
            kind = np.dtype(name)
            count = math.prod(shape)
            arrays.append(np.frombuffer(data, kind, count, start).reshape(shape).copy())
            start += count * kind.itemsize
        before = len(arrays) - len(header["written"])
        return cls(arrays[:before], header["written"], arrays[before:], header["tolerance"])
