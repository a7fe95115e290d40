"""Changed inputs: near the numbers that a program compares with, of one sign, larger, shifted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from schedlang.targets.measure.spread import PERIOD
from schedlang.targets.measure.verify import Array
from schedlang.tvm.analysis.value_room import ValueRoom
from schedlang.tvm.data_flow.branches import branches_of
from schedlang.tvm.data_flow.stores import changeable
from schedlang.tvm.data_flow.thresholds import thresholds_of
from schedlang.tvm.values import is_floating
from schedlang.workloads.workload import Argument

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

_SCALES = (4.0, 64.0, 0.05, 1000.0)
# Largest floating-point numbers: where a program rounds them to integers of a narrow type, to
# others, and not at all.
_TAME, _WIDE, _LARGE = 1.0, 10.0, 1000.0
_NARROW = {"float16": 16.0}
_SMALL_BYTES = 2
# A number that a program compares with is reached from below, and passed by this factor.
_MORE = 4.0
# Of a threshold: the logarithms of the least and the largest factor, and those of others meanwhile.
_FACTORS, _BOTH = (-1.4, 1.2), (0.6, 1.4)


@dataclass(frozen=True)
class Changes:
    """Changes of a program's inputs that may take other sides of its branches.

    Attributes
    ----------
    seed: of the random numbers.
    constants: numbers in the program's branches, 0 and 1.
    largest: magnitude to keep below, by position; arguments without one are not changed.
    ties: equal numbers are harmless.
    thresholds: values near which the program changes sides, by position.
    """

    seed: int
    constants: tuple[float, ...]
    largest: Mapping[int, float]
    ties: bool = True
    thresholds: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, program: TensorProgram, args: Sequence[Argument], seed: int, room: ValueRoom
    ) -> Changes:
        """Return the changes of an unscheduled program's inputs, as ``room`` allows them."""
        constants = {0.0, 1.0}.union(*(branch.constants for branch in branches_of(program)))
        thresholds = thresholds_of(program)
        largest = {
            place: _largest(
                args[place].dtype, room, max(map(abs, (*constants, *thresholds.get(place, ()))))
            )
            for place in changeable(program)
            if args[place].role != "output" and args[place].dtype != "bool"
        }
        limits = {place: limit for place, limit in sorted(largest.items()) if limit >= 1}
        return cls(seed, tuple(sorted(constants)), limits, room.ties, thresholds)

    def apply(self, values: Sequence[Array | None], number: int) -> list[Array | None]:
        """Return inputs changed in the way ``number``, from 0; the same for the same number."""
        rng = np.random.default_rng([self.seed, number, 1])
        kinds = _CHANGES if self.ties else _CHANGES[:-1]
        kind = number % (1 + len(kinds))
        changed = list(values)
        free = [place for place in self.largest if values[place] is not None]
        if number > len(kinds) and free:
            # Arguments that are compared with each other have to differ.
            free = [place for place in free if rng.random() < 0.5] or [free[number % len(free)]]
        for place in free:
            value = values[place]
            assert value is not None
            # The same again in larger tensors.
            part = value.reshape(-1)[:PERIOD]
            if kind == 0:
                leads = place == free[number // (1 + len(kinds)) % len(free)]
                row = value.size // max(value.shape[0], 1) if leads and value.ndim > 1 else 1
                numbers = self._toward_thresholds(place, part.size, row, rng, leads=leads)
            else:
                numbers = kinds[kind - 1](part.astype(np.float64), self.constants, rng)
            kept = np.abs(numbers) <= self.largest[place]
            found = np.where(kept, _rounded(numbers, value.dtype), part)
            changed[place] = np.resize(found, value.shape)
        return changed

    def _toward_thresholds(
        self, place: int, size: int, row: int, rng: np.random.Generator, *, leads: bool
    ) -> Array:
        """Return values below and above thresholds, of one sign in each row of ``row`` elements.

        Those of arguments that do not lead are below and above one threshold, so that sums of
        products keep their sign, and go by the row of the argument that leads.
        """
        near = self.thresholds.get(place) or self.constants
        count = -(-size // row) if leads else 1
        thresholds = rng.choice(near, count)
        middle = np.where(thresholds == 0, rng.choice([-1.0, 1.0], count), thresholds)
        if leads:
            spread = np.repeat(middle * np.exp(rng.uniform(*_FACTORS, count)), row)[:size]
        else:
            spread = middle * rng.choice(_BOTH, size)
        return np.asarray(spread * rng.uniform(0.8, 1.25, size))


def _largest(dtype: str, room: ValueRoom, constant: float) -> float:
    if not is_floating(dtype):
        limit = float(np.iinfo(np.dtype(dtype)).max)
        return limit if np.dtype(dtype).itemsize <= _SMALL_BYTES else min(2.0**room.bits - 1, limit)
    if not (room.wide and room.special):
        return _WIDE if room.wide else _TAME
    most = float(ml_dtypes.finfo(np.dtype(dtype)).max)  # type: ignore[no-untyped-call]
    usual = _WIDE if dtype.startswith("float8") else _NARROW.get(dtype, _LARGE)
    return min(max(usual, _MORE * constant), most)


def _rounded(numbers: Array, kind: np.dtype[Any]) -> Array:
    """Convert to an element type, within its limits."""
    if is_floating(kind.name):
        with np.errstate(over="ignore"):  # those are not kept
            return np.asarray(numbers.astype(kind))
    limits = np.iinfo(kind)
    # Numbers next to the limits of long integers are no floating-point numbers.
    return np.clip(np.rint(numbers), float(limits.min), min(float(limits.max), 2.0**62)).astype(
        kind
    )


def _near_constants(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    # Not at them: rounding must not decide which side is taken.
    steps = rng.uniform(-1.0, 1.0, value.shape) * rng.choice([1.0, 1e-2], value.shape)
    signs = rng.choice([-1.0, 1.0], value.shape)
    return np.asarray(signs * rng.choice(constants, value.shape) + steps)


def _scaled(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    return np.asarray(value * rng.choice(_SCALES))


def _shifted(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    shift = rng.choice([-1.0, 1.0]) * rng.choice([abs(c) + 2.0 for c in constants])
    return np.asarray(value + shift)


def _positive(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    return np.asarray(np.abs(value))


def _negative(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    return np.asarray(-np.abs(value))


def _at_constants(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    return np.asarray(
        np.where(rng.random(value.shape) < 0.5, rng.choice(constants, value.shape), value)
    )


# The last makes equal numbers.
_CHANGES: tuple[Callable[[Array, Sequence[float], np.random.Generator], Array], ...] = (
    _near_constants,
    _scaled,
    _shifted,
    _positive,
    _negative,
    _at_constants,
)
