"""One integer: of a few given ones, of the compute locations of a block, or of a progression.

The decisions and probabilities of the first two stand in a table, as those of other short
distributions do (``TableDistribution``).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from schedlang.distributions._parameters import (
    MAX_CANDIDATES,
    PRIOR_JUMP,
    Rng,
    ValueTable,
    as_number,
    check_int,
    distinct_ints,
    mixture_log_ratio,
    normalised,
    pick_index,
    refuse,
)
from schedlang.distributions.base import Decision, Distribution, register_distribution

# -- Distributions whose decisions and probabilities stand in a table -----------------------------


class TableDistribution(Distribution):
    """Looks everything up in a table; a subclass gives the table, and what lies beside a decision.

    ``_beside`` is symmetric.
    """

    __slots__ = ()

    @abstractmethod
    def _table(self) -> ValueTable[Any]:
        """Return the decisions, in the order of the support, with their probabilities."""

    @abstractmethod
    def _beside(self, d: Any) -> tuple[Any, ...]:
        """Return the neighbours of a decision of the support."""

    def sample(self, rng: Rng) -> Any:
        return self._table().sample(rng)

    def log_prob(self, d: object) -> float:
        return self._table().log_probs.get(d, -math.inf) if _is_decision(d) else -math.inf

    def permits(self, d: object) -> bool:
        return _is_decision(d) and d in self._table().log_probs

    def support(self) -> Iterator[Any]:
        """Yield the decisions with P > 0 in ascending order."""
        return iter(self._table().values)

    def size(self) -> int:
        return len(self._table().values)

    def neighbours(self, d: Decision) -> tuple[Any, ...]:
        return self._beside(self.require(d))

    def propose(self, d: Decision, rng: Rng) -> tuple[Any, float]:
        """Propose a neighbour or draw from the prior, with probability 1/2 each.

        Tiles draw from the prior in 1 of 8 cases only. Here the distance between decisions often
        has little meaning.
        """
        here = self.require(d)
        if self.size() == 1:
            return here, 0.0
        adjacent = self._beside(here)
        if adjacent and rng.random() < 0.5:
            proposed = adjacent[int(rng.random() * len(adjacent))]
        else:
            proposed = self.sample(rng)
        if proposed == here:
            return here, 0.0
        return proposed, self._log_q(here, proposed) - self._log_q(proposed, here)

    def _log_q(self, proposed: Any, d: Any) -> float:
        """Return log q(proposed | d) up to the common factor 1/2."""
        log_prior = self._table().log_probs[proposed]
        adjacent = self._beside(d)
        if not adjacent:
            return log_prior + math.log(2)
        if proposed not in adjacent:
            return log_prior
        return math.log(1 / len(adjacent) + math.exp(log_prior))


def _is_decision(d: object) -> bool:
    # True and 1.0 are equal to 1, and are no decisions.
    return type(d) is int or (type(d) is tuple and all(type(one) is int for one in d))


# -- Categorical, and the compute locations of a block --------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class FiniteDistribution(TableDistribution):
    """One of ``candidates``; the decision is the value itself, and values are ordered as numbers.

    Methods look probabilities up in a table, which equal distributions share.
    """

    candidates: tuple[int, ...]
    probs: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        owner = type(self).__name__
        candidates = distinct_ints(owner, "candidates", self.candidates, MAX_CANDIDATES)
        self._check(candidates)
        object.__setattr__(self, "candidates", candidates)
        probs = normalised(owner, "probs", self.probs, len(candidates))
        object.__setattr__(self, "probs", probs)

    def _check(self, candidates: tuple[int, ...]) -> None:
        """Raise DistributionError for candidates that a subclass does not take."""

    def _table(self) -> ValueTable[int]:
        return _table(self.candidates, self.probs)

    def _beside(self, d: int) -> tuple[int, ...]:
        """Return the next lower and the next higher value."""
        values = self._table().values
        position = bisect_left(values, d)
        return values[max(position - 1, 0) : position] + values[position + 1 :][:1]

    def origin(self) -> int:
        """Return the most probable value, the smallest in a tie."""
        return self._table().mode()

    def repair(self, d: object) -> int:
        """Return the nearest value, the smaller in a tie; the origin if ``d`` is not a number."""
        wanted = as_number(d)
        if wanted is None:
            return self.origin()
        return min(self._table().values, key=lambda value: (abs(value - wanted), value))

    @property
    def n_outputs(self) -> None:
        return None


@lru_cache(maxsize=1024)
def _table(candidates: tuple[int, ...], probs: tuple[float, ...] | None) -> ValueTable[int]:
    """Return the table of these parameters, in ascending order; equal distributions share one."""
    weights = probs if probs is not None else (1.0,) * len(candidates)
    kept = sorted((c, w) for c, w in zip(candidates, weights, strict=True) if w > 0.0)
    return ValueTable([value for value, _ in kept], [weight for _, weight in kept])


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class Categorical(FiniteDistribution):
    """One of ``candidates``; the decision is the value itself, not its position.

    Parameters
    ----------
    candidates: 1 to 65,536 distinct ints, in any order; a search steps through them in numeric
        order.
    probs: weights >= 0, one for each candidate; stored as probabilities that sum to 1. None, the
        default, makes all candidates equally likely. A candidate of weight 0 is not in the support.
    """

    kind: ClassVar[str] = "categorical"

    def probabilities(self) -> tuple[float, ...]:
        """Probability of each candidate, in the order of ``candidates``."""
        if self.probs is not None:
            return self.probs
        return (1.0 / len(self.candidates),) * len(self.candidates)


INLINE = -2
ROOT = -1


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class ComputeLocation(FiniteDistribution):
    """One of the locations at which a block can be computed, as TVM numbers them.

    Parameters
    ----------
    candidates: distinct ints: -2 inlines the block, -1 leaves it at the root, i >= 0 computes it at
        loop i of its consumer (0 is outermost). A search steps through them in numeric order: root,
        then increasing depth. Inlining, which is no depth, is one step from all of them.
    probs: weights >= 0, one for each candidate, as for Categorical.
    """

    kind: ClassVar[str] = "compute_location"

    def _check(self, candidates: tuple[int, ...]) -> None:
        if min(candidates) < INLINE:
            refuse(
                "ComputeLocation",
                "candidates",
                candidates,
                f"{min(candidates)} is not a location; -2 is inline, -1 root, 0 and up are loops",
            )

    def _beside(self, d: int) -> tuple[int, ...]:
        """Return the next location outward, the next one inward, and inlining."""
        values = self._table().values
        if d == INLINE:
            return values[1:]
        # Not super(): slotted dataclasses have no such cell for it.
        near = FiniteDistribution._beside(self, d)
        return near if values[0] != INLINE or INLINE in near else (INLINE, *near)

    def origin(self) -> int:
        """Return the most probable location; in a tie the root, where the block was.

        If the root is not among the most probable ones, it is the smallest of them.
        """
        log_probs = self._table().log_probs
        return max(
            log_probs, key=lambda location: (log_probs[location], location == ROOT, -location)
        )


# -- An integer from an arithmetic progression ----------------------------------------------------

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
