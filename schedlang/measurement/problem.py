"""What a call says about verification: which results to compare, with what, and how exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from schedlang.measurement.protocol import wrong_verify
from schedlang.tvm.values import is_floating

DrawInputs = Callable[[np.random.Generator], Any]
Inputs = Sequence[Any] | Mapping[str, Any] | DrawInputs
ComputeReference = Callable[..., Any]
Verify = bool | Literal["all"]


@dataclass(frozen=True, eq=False)
class Problem:
    """How candidates are verified. Every attribute has a default.

    Attributes
    ----------
    inputs: arrays for the arguments that the program reads (inputs and in-place ones), in order or
        by name, or a function ``f(rng)`` that returns them and is called for each draw of inputs.
        By default they are random.
    tolerance: the relative error that is allowed, ``(relative, absolute)`` as ``numpy.allclose``
        takes them, or one of these for each output, by name or number. By default it follows from
        the types and the length of the sums.
    reference: computes the right results: ``f(*inputs)`` returns an array, or one for each written
        argument. By default the unscheduled program does.
    verify: compare results: True for the first few candidates and those that could win, ``"all"``
        for every one, False for none.
    seed: of the random inputs.

    Raises TypeError and ValueError for values that no workload could use.
    """

    inputs: Inputs | None = None
    tolerance: GivenTolerance | None = None
    reference: ComputeReference | None = None
    verify: Verify = True
    seed: int = 0

    def __post_init__(self) -> None:
        if wrong := wrong_verify(self.verify):
            raise ValueError(f"verify={self.verify!r}; {wrong}")
        check_tolerance(self.tolerance)
        if self.reference is not None and not callable(self.reference):
            raise TypeError(
                f"reference is a function of the inputs, not {type(self.reference).__name__}"
            )
        readable = isinstance(self.inputs, Sequence | Mapping | np.ndarray)
        if isinstance(self.inputs, str) or not (
            self.inputs is None or readable or callable(self.inputs)
        ):
            raise TypeError(
                "inputs is a list of arrays, a dict by argument name or a function of a random "
                f"generator, not {type(self.inputs).__name__}"
            )

    def given(self) -> dict[str, Any]:
        """Return which of inputs, tolerance and reference are not the default, by name."""
        found = {name: getattr(self, name) for name in ("inputs", "tolerance", "reference")}
        return {name: value for name, value in found.items() if value is not None}

    def settings(self) -> dict[str, Any]:
        """Return the arguments of ``Target.measurer`` for it."""
        return {"verify": self.verify, "seed": self.seed, **self.given()}

    def is_like(self, other: Problem) -> bool:
        """Whether results are certain to be compared with the same, in the same way.

        Arrays and functions may have changed between two calls, so they are like no others.
        """
        if self is other:
            return True
        same = (self.verify, self.seed) == (other.verify, other.seed)
        return same and not self.given() and not other.given()

    def describe(self) -> dict[str, str]:
        """Return how results are verified, as text for people; only what is not the default."""
        found = {}
        if self.inputs is not None:
            drawn = callable(self.inputs)
            found["inputs"] = f"drawn by {_name(self.inputs)}" if drawn else "the given arrays only"
        if self.tolerance is not None:
            found["tolerance"] = repr(self.tolerance)
        if self.reference is not None:
            found["reference"] = f"computed by {_name(self.reference)}"
        return found

    @property
    def key(self) -> str:
        """The same text as a part of a measurer's key; empty for the defaults."""
        return "".join(f" {name}={text}" for name, text in self.describe().items())


def _name(function: Any) -> str:
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    return f"{module}.{name}".lstrip(".") if name else type(function).__qualname__


# -- How far results may be from the right ones, where a user says so -----------------------------

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


# -- What memory holds before a program writes it: something else in each call --------------------

Fill = bytes
"""Bytes that memory of any element type repeats."""

# Of floating-point numbers of all types NaN, of integers -1 or the largest.
NAN: Fill = b"\xff"
# Far above and far below other floating-point numbers: 61,280 of float16, 1.3e36 of float32.
_ABOVE: Fill = b"\x7b"
_BELOW: Fill = b"\xfb"
# Near the ends of signed integers; exactly those of int8.
_LARGEST: Fill = b"\x7f"
_SMALLEST: Fill = b"\x80"
_ZERO: Fill = b"\x00"
# A prime number of bytes, so that no row of a tensor repeats another.
_RANDOM: Fill = np.random.default_rng(0).bytes(4099)


def fills_for(dtypes: Iterable[str]) -> tuple[Fill, ...]:
    """Return all fills, in the order of calls: first those that tell most of these types."""
    kinds = {
        "float" if is_floating(dtype) else "int" if dtype.startswith("int") else "uint"
        for dtype in dtypes
    }
    order = [NAN]
    order += [_ABOVE, _BELOW, _RANDOM] if "float" in kinds else []
    order += [_LARGEST, _SMALLEST] if "int" in kinds else []
    order += [_ZERO] if "uint" in kinds else []
    every = (*order, _RANDOM, _ABOVE, _BELOW, _LARGEST, _SMALLEST, _ZERO)
    return tuple(dict.fromkeys(every))


def content(fill: Fill, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return a tensor that holds a fill; one of a single byte takes no memory, and is read-only."""
    kind = np.dtype(dtype)
    count = 1 if len(fill) == 1 else int(np.prod(shape))
    values = np.resize(np.frombuffer(fill, np.uint8), count * kind.itemsize).view(kind)
    return np.broadcast_to(values.reshape(()), shape) if len(fill) == 1 else values.reshape(shape)
