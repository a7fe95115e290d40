"""What a call says about verification: which results to compare, with what, and how exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from schedlang.measurement.tolerance import GivenTolerance, check_tolerance
from schedlang.measurement.verify import wrong_verify

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
