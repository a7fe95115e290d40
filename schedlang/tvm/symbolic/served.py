"""Which extents a function serves, and which shapes its tensors then have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from schedlang.tvm.symbolic.fitting import Formula
from schedlang.tvm.symbolic.unify import Reading

_ATTRIBUTE = "schedlang.served"
Bounds = Mapping[str, tuple[int, int]]
Shapes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Served:
    """The extents that a function serves.

    Attributes
    ----------
    bounds: the least and the greatest value of each extent; equal where it is fixed.
    readings: which shape tells an extent; those that are fixed need none.
    shapes: formulas of the extents of each argument.
    """

    bounds: Bounds
    readings: Mapping[str, Reading]
    shapes: tuple[tuple[Formula, ...], ...]

    @classmethod
    def alone(cls, extents: Mapping[str, int], shapes: Shapes) -> Served:
        """Return that of a function for one shape."""
        fixed = tuple(tuple(Formula((((), size),)) for size in shape) for shape in shapes)
        return cls({name: (value, value) for name, value in extents.items()}, {}, fixed)

    @property
    def varies(self) -> bool:
        """Whether an extent has several values."""
        return any(low < high for low, high in self.bounds.values())

    def extents_of(self, shapes: Shapes) -> dict[str, int] | None:
        """Return the extents that these shapes tell; None where these are not served."""
        if [len(one) for one in shapes] != [len(one) for one in self.shapes]:
            return None
        extents = {name: low for name, (low, _) in self.bounds.items()}
        for name, reading in self.readings.items():
            extents[name] = shapes[reading.argument][reading.axis] - reading.more
        return extents if within(extents, self.bounds) and self.fits(shapes, extents) else None

    def fits(self, shapes: Shapes, extents: Mapping[str, int]) -> bool:
        """Return whether these are the shapes of the tensors for the given extents."""
        return [tuple(shape) for shape in shapes] == [
            tuple(formula.at(extents) for formula in axes) for axes in self.shapes
        ]

    def __str__(self) -> str:
        return bounds_text(self.bounds)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        readings = {name: [one.argument, one.axis, one.more] for name, one in self.readings.items()}
        shapes = [[[one.terms, one.divisor] for one in shape] for shape in self.shapes]
        return {"bounds": dict(self.bounds), "readings": readings, "shapes": shapes}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Served:
        """Read what ``to_json`` returned. Raises KeyError, TypeError or ValueError for others."""
        return cls(
            {str(name): (int(low), int(high)) for name, (low, high) in value["bounds"].items()},
            {str(name): Reading(*map(int, one)) for name, one in value["readings"].items()},
            tuple(tuple(_formula(*one) for one in shape) for shape in value["shapes"]),
        )


def _formula(terms: Sequence[Any], divisor: int) -> Formula:
    read = tuple((tuple(map(str, names)), int(coefficient)) for names, coefficient in terms)
    return Formula(read, int(divisor))


def fitting(served: Sequence[Served], shapes: Shapes) -> dict[tuple[int, ...], int]:
    """Return the places of those that serve tensors of these shapes, by their extents' values.

    Of several that serve the same extents it is the first. More than one key means that the shapes
    do not tell the extents apart.
    """
    found: dict[tuple[int, ...], int] = {}
    for place, one in enumerate(served):
        extents = one.extents_of(shapes)
        if extents is not None:
            found.setdefault(tuple(extents.values()), place)
    return found


def with_served(func: tirx.PrimFunc, served: Served) -> tirx.PrimFunc:
    """Return a function that says what it serves: libraries record it."""
    return func.with_attr(_ATTRIBUTE, json.dumps(served.to_json()))


def served_of(func: tirx.PrimFunc) -> Served | None:
    """Return what ``with_served`` noted; None for another function."""
    text = func.attrs.get(_ATTRIBUTE) if func.attrs else None
    return None if text is None else Served.from_json(json.loads(str(text)))


def within(extents: Mapping[str, int], bounds: Bounds) -> bool:
    """Return whether each extent is within its bounds."""
    return all(low <= extents[name] <= high for name, (low, high) in bounds.items())


def bounds_text(bounds: Bounds) -> str:
    """Write bounds: ``rows=1 to 512, width=768``."""
    return ", ".join(
        f"{name}={low}" if low == high else f"{name}={low} to {high}"
        for name, (low, high) in bounds.items()
    )
