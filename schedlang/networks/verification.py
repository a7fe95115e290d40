"""Comparison of a network's outputs with those of the model that it was imported from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

# Of the largest magnitude of an output. Sums are taken in another order, layer after layer.
_TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}


@dataclass(frozen=True)
class OutputError:
    """The largest error of one output.

    Attributes
    ----------
    name: of the output.
    largest: the largest absolute difference; infinite where only one of the two is finite, or the
        shapes or types differ.
    scale: the largest finite magnitude that was expected.
    tolerance: the largest difference that is allowed, relative to ``scale``.
    """

    name: str
    largest: float
    scale: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.largest <= self.tolerance * self.scale

    def __str__(self) -> str:
        verdict = "ok" if self.passed else f"above the tolerance of {self.tolerance:g} of that"
        return f"{self.name}: error {self.largest:.2g} of {self.scale:.3g}, {verdict}"


@dataclass(frozen=True)
class Verification:
    """The errors of all outputs."""

    outputs: tuple[OutputError, ...]

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance."""
        return all(output.passed for output in self.outputs)

    @property
    def largest(self) -> float:
        """The largest absolute error of any output."""
        return max((output.largest for output in self.outputs), default=0.0)

    def __str__(self) -> str:
        return "\n".join(map(str, self.outputs))


def merged(found: Mapping[str, Verification]) -> Verification:
    """Return the errors of several networks as one; names of outputs begin with the keys."""
    return Verification(
        tuple(
            replace(output, name=f"{size}: {output.name}")
            for size, one in found.items()
            for output in one.outputs
        )
    )


def compare(
    names: Sequence[str],
    outputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    tolerance: float | None = None,
) -> Verification:
    """Compare outputs with what was expected of them.

    ``tolerance`` is relative to the largest magnitude of each output; by default it follows from
    the element type: 1e-4 for float32. Integers and booleans must be equal.
    """
    errors = []
    for name, output, wanted in zip(names, outputs, expected, strict=True):
        allowed = _TOLERANCES.get(str(wanted.dtype), 0.0) if tolerance is None else tolerance
        errors.append(_error(name, output, wanted, allowed))
    return Verification(tuple(errors))


def _error(name: str, output: np.ndarray, wanted: np.ndarray, tolerance: float) -> OutputError:
    if output.shape != wanted.shape or output.dtype != wanted.dtype:
        return OutputError(name, np.inf, 0.0, tolerance)
    if not wanted.size:
        return OutputError(name, 0.0, 0.0, tolerance)
    one, other = output.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(other)
    scale = float(np.abs(other[finite]).max(initial=0.0))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(one - other))
    largest = float(np.where(np.isnan(difference), np.inf, difference).max())
    return OutputError(name, largest, scale, tolerance)
