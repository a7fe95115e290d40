"""Which shapes a set is tuned for: single ones with weights, ranges, or a log of calls."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from schedlang.tvm.served_extents import bounds_text, within

Extents = dict[str, int]
MOST = 2**31 - 1
"""Extents, and indices of elements, are 32-bit numbers in TVM's programs."""
TILES = 2**20
"""By how much the last tile may reach beyond an extent."""
EXACT = 64
"""Up to this value, the only extent that varies has a kernel for each value."""
# Extents that are sampled of a range, along each axis, and in all.
_ALONG = 10
_SAMPLES = 24
# Shapes whose programs are looked at.
_SPREAD = 200
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 23, 31, 47, 61, 97, 127, 193, 251, 383, 509, 769, 1021, 2039)


@dataclass(frozen=True)
class Range:
    """All extents between bounds, both included.

    Attributes
    ----------
    bounds: the least and the largest value of each extent; equal where it is fixed.
    weight: how much it counts beside other shapes.
    exact: up to this value, the only extent that varies has a kernel for each value.
    """

    bounds: Mapping[str, tuple[int, int]]
    weight: float = 1.0
    exact: int = EXACT

    def __contains__(self, extents: object) -> bool:
        return isinstance(extents, Mapping) and within(extents, self.bounds)

    @property
    def varying(self) -> list[str]:
        """Names of the extents that have more than one value."""
        return [name for name, (low, high) in self.bounds.items() if low < high]

    @property
    def size(self) -> int:
        """Number of shapes in it."""
        return math.prod(high - low + 1 for low, high in self.bounds.values())

    def small(self) -> list[Extents]:
        """Return the shapes that have kernels of their own, where one extent varies.

        In so few iterations a tile that does not fit is a large part of the work.
        """
        if len(self.varying) != 1:
            return []
        [name] = self.varying
        low, high = self.bounds[name]
        fixed = {one: bound[0] for one, bound in self.bounds.items()}
        return [{**fixed, name: value} for value in range(low, min(self.exact, high - 1) + 1)]

    def edge(self, side: int) -> Extents:
        """Return the shape with all least extents (0), or with all largest ones (1)."""
        return {name: bound[side] for name, bound in self.bounds.items()}

    def large(self) -> Range:
        """Return the range of the other shapes."""
        if not self.small():
            return self
        [name] = self.varying
        low, high = self.bounds[name]
        return Range(
            {**self.bounds, name: (min(max(low, self.exact + 1), high), high)}, self.weight
        )

    def all(self) -> list[Extents]:
        """Return all shapes of it."""
        values = [range(low, high + 1) for low, high in self.bounds.values()]
        return [dict(zip(self.bounds, one, strict=True)) for one in product(*values)]

    def samples(self) -> list[Extents]:
        """Return shapes that stand for it: bounds, and between them evenly in the logarithm."""
        axes = {name: _spread(low, high, _ALONG) for name, (low, high) in self.bounds.items()}
        return _chosen(axes, _SAMPLES)

    def spread(self) -> list[Extents]:
        """Return many shapes, to look at their programs: all of a small range."""
        each = max(2, round(_SPREAD ** (1 / max(len(self.varying), 1))))
        axes = {}
        for name, (low, high) in self.bounds.items():
            near = {*range(low, min(low + each, high + 1)), *_spread(low, high, each)}
            # Rules often change at multiples of powers of two.
            multiples = {
                k * 2**n + by for n in range(3, 13) for k in (1, 2, 3) for by in (-1, 0, 1)
            }
            axes[name] = sorted(near | {one for one in multiples if low <= one <= high})
        longest = max(map(len, axes.values()))
        return _chosen(axes, max(_SPREAD, longest))

    def probes(self) -> list[Extents]:
        """Return shapes to verify at: bounds, those next to them, primes, and others."""
        axes = {
            name: sorted(
                {low, high, min(low + 1, high), max(high - 1, low), (low + high) // 2}
                | {one for one in _PRIMES if low <= one <= high}
            )
            for name, (low, high) in self.bounds.items()
        }
        return _chosen(axes, _SAMPLES)

    def __str__(self) -> str:
        return bounds_text(self.bounds)


@dataclass(frozen=True)
class Shapes:
    """What was asked for, checked.

    Attributes
    ----------
    names: of the extents, in order.
    points: single shapes, no two equal.
    weights: of the points.
    ranges: in the order given.
    """

    names: tuple[str, ...]
    points: tuple[Extents, ...]
    weights: tuple[float, ...]
    ranges: tuple[Range, ...] = field(default=())


def as_shapes(given: Any, exact: int = EXACT) -> Shapes:
    """Check shapes as a user gives them.

    Parameters
    ----------
    given: a mapping of extents, a sequence of such, each alone or in a pair with its weight, or the
        path of a file with one in JSON on each line. An extent is a number, a ``range`` of step 1
        or the pair of its least and its largest value. Shapes that occur again count again.
    exact: of the ranges.

    ValueError for a range that is empty, extents that are not positive or too large, other names in
    one shape than in another, and no shape at all.
    """
    weights: dict[tuple[int, ...], float] = {}
    ranges: dict[tuple[tuple[int, int], ...], float] = {}
    names: tuple[str, ...] = ()
    for place, (one, weight) in enumerate(_listed(given)):
        if not isinstance(one, Mapping) or not one:
            raise ValueError(
                f"shape {place} is {one!r}; a shape is a mapping such as {{'rows': 64}}"
            )
        names = names or tuple(map(str, one))
        if set(names) != set(one):
            raise ValueError(
                f"shape {place} has the extents {', '.join(map(str, one))}, and the first one "
                f"{', '.join(names)}"
            )
        if not (isinstance(weight, int | float) and 0 < weight < math.inf):
            raise ValueError(f"shape {place}: its weight is {weight!r}, and must be positive")
        bounds = tuple(_bounds(name, one[name]) for name in names)
        if all(low == high for low, high in bounds) and not any(
            isinstance(value, range | tuple | list) for value in one.values()
        ):
            key = tuple(low for low, _ in bounds)
            weights[key] = weights.get(key, 0.0) + weight
        else:
            ranges[bounds] = ranges.get(bounds, 0.0) + weight
    if not names:
        raise ValueError("no shape is given: give mappings such as {'rows': 64}")
    return Shapes(
        names,
        tuple(dict(zip(names, key, strict=True)) for key in weights),
        tuple(weights.values()),
        tuple(Range(dict(zip(names, key, strict=True)), w, exact) for key, w in ranges.items()),
    )


def _listed(given: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(given, Mapping):
        yield given, 1.0
        return
    if isinstance(given, str | os.PathLike):
        given = _log(Path(given))
    if not isinstance(given, Iterable):
        raise ValueError(f"shapes are mappings such as {{'rows': 64}}, and not {given!r}")
    for one in given:
        if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], Mapping):
            yield one
        else:
            yield one, 1.0


def _log(path: Path) -> Iterator[Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"the log of calls {path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: not JSON: {error}") from None


def _bounds(name: str, value: Any) -> tuple[int, int]:
    if isinstance(value, range):
        if value.step != 1:
            raise ValueError(f"{name}={value}: a range has step 1; list single shapes otherwise")
        if not value:
            raise ValueError(f"{name}={value}: the range is empty")
        low, high = value[0], value[-1]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != 2:
            raise ValueError(f"{name}={value!r}: a range is the pair of its two bounds")
        low, high = value
    else:
        low = high = value
    for bound in (low, high):
        if isinstance(bound, bool) or not hasattr(bound, "__index__"):
            raise ValueError(f"{name}={value!r}: an extent is a whole number")
    low, high = int(low), int(high)
    if low > high:
        raise ValueError(f"{name}={value!r}: the range is empty")
    if low < 1:
        raise ValueError(f"{name}={value!r}: extents are at least 1")
    if high > MOST:
        raise ValueError(f"{name}={value!r}: extents are at most {MOST:,}")
    return low, high


def _spread(low: int, high: int, count: int) -> list[int]:
    """Return values between bounds, the bounds too, evenly in the logarithm."""
    if low == high:
        return [low]
    steps = [math.exp(math.log(low) + k * math.log(high / low) / (count - 1)) for k in range(count)]
    return sorted({low, high, *(round(one) for one in steps)})


def _chosen(axes: Mapping[str, Sequence[int]], most: int) -> list[Extents]:
    """Return combinations of the values of axes, so that each value of an axis is in some."""
    sizes = [len(values) for values in axes.values()]
    total = math.prod(sizes)
    longest = max(sizes)
    if total <= most:
        places: Iterable[int] = range(total)
    else:
        # A step that shares no factor with the number of combinations passes through all of them.
        step = max(total // most, 1)
        while math.gcd(step, total) > 1:
            step += 1
        places = [0, total - 1, *((k * step) % total for k in range(1, max(most, longest) - 1))]
    found: list[Extents] = []
    for place in places:
        extents = {}
        for name, values in axes.items():
            place, at = divmod(place, len(values))
            extents[name] = values[at]
        if extents not in found:
            found.append(extents)
    return found
