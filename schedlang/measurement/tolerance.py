"""How far results may be from the right ones, where a user says so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TolerancePair = float | tuple[float, float]
GivenTolerance = TolerancePair | Mapping[str | int, TolerancePair]
"""A relative tolerance, ``(relative, absolute)``, or one of these for each output by its name or
its number."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The largest error of one output.

    Attributes
    ----------
    relative: relative to an element or, without ``absolute``, to the root mean square of the
        output, whichever is larger.
    absolute: added to ``relative`` times the element, as ``numpy.allclose`` does; None without.
    """

    relative: float
    absolute: float | None = None

    def bound(self, size: Any, scale: float) -> Any:
        """Return the largest error of elements of this size, in an output of this scale."""
        if self.absolute is None:
            return self.relative * np.maximum(size, scale)
        return self.absolute + self.relative * size

    def __str__(self) -> str:
        if self.absolute is None:
            return f"rtol {self.relative:g}"
        return f"rtol {self.relative:g}, atol {self.absolute:g}"


Tolerances = tuple[Tolerance | None, ...]
"""One for each written tensor; None for what follows from its type and the program."""


def check_tolerance(given: Any) -> None:
    """Raise TypeError or ValueError unless ``given`` is a tolerance or None."""
    if isinstance(given, Mapping):
        for output, one in given.items():
            _read(one, f"tolerance[{output!r}]")
    elif given is not None:
        _read(given, "tolerance")


def tolerances_of(given: GivenTolerance | None, names: Sequence[str]) -> Tolerances:
    """Return the tolerance of each written tensor, given their names.

    Raises ValueError when a mapping names something that the program does not write.
    """
    if given is None:
        return (None,) * len(names)
    if not isinstance(given, Mapping):
        return (_read(given, "tolerance"),) * len(names)
    found: dict[int, Tolerance] = {}
    for output, one in given.items():
        if isinstance(output, int) and 0 <= output < len(names):
            place = output
        elif output in names:
            place = list(names).index(str(output))
        else:
            raise ValueError(
                f"tolerance names the output {output!r}; the outputs are "
                f"{', '.join(map(repr, names))}, or 0 to {len(names) - 1}"
            )
        found[place] = _read(one, f"tolerance[{output!r}]")
    return tuple(found.get(place) for place in range(len(names)))


def _read(given: Any, name: str) -> Tolerance:
    if _is_number(given):
        return Tolerance(_checked(given, name))
    if isinstance(given, tuple | list) and len(given) == 2 and all(map(_is_number, given)):
        relative, absolute = given
        return Tolerance(_checked(relative, f"{name}[0]"), _checked(absolute, f"{name}[1]"))
    raise TypeError(f"{name}={given!r}; give a relative tolerance, or (relative, absolute)")


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float | np.number) and not isinstance(given, bool)


def _checked(given: Any, name: str) -> float:
    value = float(given)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}={given!r}; give 0 or more")
    return value
