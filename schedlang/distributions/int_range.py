"""An integer from an arithmetic progression."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from schedlang.distributions._checks import as_number, check_int, refuse
from schedlang.distributions._drawing import PRIOR_JUMP, Rng, mixture_log_ratio, pick_index
from schedlang.distributions.base import Decision, Distribution
from schedlang.distributions.registry import register_distribution

_MAX_VALUE = 2**60  # lets Python index the range: its length stays below 2**63


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class IntRange(Distribution):
    """A uniformly drawn value of ``range(start, stop, step)``; the range may be huge.

    DistributionError unless ``start`` and ``stop`` are within 2**60 of 0, ``step`` is not 0 and the
    range is not empty.
    """

    kind: ClassVar[str] = "int_range"

    start: int
    stop: int
    step: int = 1

    def __post_init__(self) -> None:
        check_int("IntRange", "start", self.start, -_MAX_VALUE, _MAX_VALUE)
        check_int("IntRange", "stop", self.stop, -_MAX_VALUE, _MAX_VALUE)
        check_int("IntRange", "step", self.step, -_MAX_VALUE, _MAX_VALUE)
        if self.step == 0:
            refuse("IntRange", "step", 0, "must not be 0")
        if not self._values():
            refuse(
                "IntRange",
                "stop",
                self.stop,
                f"range({self.start}, {self.stop}, {self.step}) is empty",
            )

    def _values(self) -> range:
        return range(self.start, self.stop, self.step)

    def sample(self, rng: Rng) -> int:
        values = self._values()
        return values[pick_index(rng, len(values))]

    def permits(self, d: object) -> bool:
        return type(d) is int and d in self._values()

    def log_prob(self, d: object) -> float:
        return -math.log(len(self._values())) if self.permits(d) else -math.inf

    def support(self) -> Iterator[int]:
        """Yield the values from ``start`` on."""
        return iter(self._values())

    def size(self) -> int:
        return len(self._values())

    def neighbours(self, d: Decision) -> tuple[int, ...]:
        """Return ``d - step`` and ``d + step`` if they are in the range."""
        value: int = self.require(d)
        return tuple(x for x in (value - self.step, value + self.step) if x in self._values())

    def propose(self, d: Decision, rng: Rng) -> tuple[int, float]:
        """Draw uniformly within sqrt(size) steps; in 1 of 8 cases from the whole range."""
        values = self._values()
        n, here = len(values), values.index(self.require(d))
        if n == 1:
            return values[0], 0.0
        reach = math.isqrt(n)
        low, high = max(here - reach, 0), min(here + reach, n - 1)
        if rng.random() * PRIOR_JUMP < 1.0:
            there = pick_index(rng, n)
        else:
            there = low + pick_index(rng, high - low)
            there += there >= here
        if there == here:
            return values[here], 0.0
        n_there = min(there + reach, n - 1) - max(there - reach, 0)
        ratio = mixture_log_ratio(abs(there - here) <= reach, high - low, n_there, n)
        return values[there], ratio

    def repair(self, d: object) -> int:
        """Return the nearest value, the earlier in a tie; the origin if ``d`` is not a number."""
        values = self._values()
        wanted = as_number(d)
        if wanted is None:
            return self.start
        steps, over = divmod(wanted - self.start, self.step)
        steps += 2 * abs(over) > abs(self.step)
        return values[int(min(max(steps, 0), len(values) - 1))]

    def origin(self) -> int:
        """Return ``start``."""
        return self.start

    @property
    def n_outputs(self) -> None:
        return None
