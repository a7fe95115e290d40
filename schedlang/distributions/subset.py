"""Choices from a list of integers: a subset, or an order of all (``Permutation``)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, cast

from schedlang.distributions._parameters import (
    PRIOR_JUMP,
    Rng,
    check_int,
    cumulate,
    distinct_ints,
    mixture_log_ratio,
    pick_cumulated,
    pick_index,
    refuse,
)
from schedlang.distributions.base import Decision, Distribution, register_distribution

# -- Subsets, with bounds on their size -----------------------------------------------------------

# Sums of binomial coefficients take time and memory quadratic in n.
_MAX_ITEMS = 1024


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class Subset(Distribution):
    """A subset of ``items``, in their order; uniform over the subsets of an allowed size.

    Parameters
    ----------
    items: 1 to 1024 distinct ints.
    min_size, max_size: bounds of the number of chosen items; ``max_size=None`` allows all.

    The decision is the tuple of chosen items. :meth:`outputs` is a 0/1 mask over ``items``, so that
    its length does not depend on the decision.
    """

    kind: ClassVar[str] = "subset"

    items: tuple[int, ...]
    min_size: int = 0
    max_size: int | None = None

    def __post_init__(self) -> None:
        items = distinct_ints("Subset", "items", self.items, _MAX_ITEMS)
        object.__setattr__(self, "items", items)
        check_int("Subset", "min_size", self.min_size, 0, len(items))
        if self.max_size is not None:
            check_int("Subset", "max_size", self.max_size, 0, len(items))
            if self.max_size < self.min_size:
                refuse("Subset", "max_size", self.max_size, f"is below min_size={self.min_size}")

    def _largest(self) -> int:
        return len(self.items) if self.max_size is None else self.max_size

    def sample(self, rng: Rng) -> tuple[int, ...]:
        cumulated = _size_table(len(self.items), self.min_size, self._largest())[1]
        needed = self.min_size + pick_cumulated(rng, cumulated)
        chosen: list[int] = []
        # Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S.
        for position, item in enumerate(self.items):
            if needed == len(chosen):
                break
            if rng.random() * (len(self.items) - position) < needed - len(chosen):
                chosen.append(item)
        return tuple(chosen)

    def permits(self, d: object) -> bool:
        if type(d) is not tuple or not self.min_size <= len(d) <= self._largest():
            return False
        if not all(type(item) is int for item in d):
            return False
        following = iter(self.items)
        return all(item in following for item in d)

    def log_prob(self, d: object) -> float:
        return -math.log(self.size()) if self.permits(d) else -math.inf

    def support(self) -> Iterator[tuple[int, ...]]:
        """Yield the subsets by size, then in the order of ``items``."""
        for size in range(self.min_size, self._largest() + 1):
            yield from itertools.combinations(self.items, size)

    def size(self) -> int:
        return _size_table(len(self.items), self.min_size, self._largest())[0]

    def neighbours(self, d: Decision) -> tuple[tuple[int, ...], ...]:
        """Return the subsets with one item added or removed; of fixed size, one item exchanged."""
        chosen = set(self.require(d))
        if self.min_size == self._largest():
            return tuple(
                self._ordered(chosen - {old} | {new})
                for old in self.items
                if old in chosen
                for new in self.items
                if new not in chosen
            )
        return tuple(self._ordered(chosen ^ {item}) for item in self._toggled(chosen))

    def propose(self, d: Decision, rng: Rng) -> tuple[tuple[int, ...], float]:
        """Draw a neighbour uniformly; in 1 of 8 cases draw from the prior."""
        here: tuple[int, ...] = self.require(d)
        if self.size() == 1:
            return here, 0.0
        if rng.random() * PRIOR_JUMP < 1.0:
            there = self.sample(rng)
        else:
            there = self._draw_neighbour(here, rng)
        if there == here:
            return here, 0.0
        # With a fixed size all subsets have the same number of neighbours: the ratio is 0.
        ratio = mixture_log_ratio(
            len(set(here) ^ set(there)) == 1,
            self._n_neighbours(len(here)),
            self._n_neighbours(len(there)),
            self.size(),
        )
        return there, ratio

    def origin(self) -> tuple[int, ...]:
        """Return the first ``min_size`` items."""
        return self.items[: self.min_size]

    def repair(self, d: object) -> tuple[int, ...]:
        """Keep the items named in ``d``; add the first others or drop the last to fit the size."""
        named = d if isinstance(d, tuple | list) else ()
        wanted = {item for item in named if type(item) is int}
        chosen = [item for item in self.items if item in wanted][: self._largest()]
        others = [item for item in self.items if item not in wanted]
        return self._ordered({*chosen, *others[: max(self.min_size - len(chosen), 0)]})

    def outputs(self, d: Decision) -> tuple[int, ...]:
        """Return 1 for each chosen item, else 0."""
        chosen = set(cast("tuple[int, ...]", d))
        return tuple(int(item in chosen) for item in self.items)

    @property
    def n_outputs(self) -> int:
        return len(self.items)

    def _ordered(self, chosen: set[int]) -> tuple[int, ...]:
        return tuple(item for item in self.items if item in chosen)

    def _toggled(self, chosen: set[int]) -> list[int]:
        """Return the items of which any one may be added or removed."""
        may_add, may_remove = len(chosen) < self._largest(), len(chosen) > self.min_size
        return [item for item in self.items if (may_remove if item in chosen else may_add)]

    def _draw_neighbour(self, here: tuple[int, ...], rng: Rng) -> tuple[int, ...]:
        chosen = set(here)
        if self.min_size == self._largest():
            others = [item for item in self.items if item not in chosen]
            old, new = here[pick_index(rng, len(here))], others[pick_index(rng, len(others))]
            return self._ordered(chosen ^ {old, new})
        toggled = self._toggled(chosen)
        return self._ordered(chosen ^ {toggled[pick_index(rng, len(toggled))]})

    def _n_neighbours(self, size: int) -> int:
        others = len(self.items) - size
        if self.min_size == self._largest():
            return size * others
        return others * (size < self._largest()) + size * (size > self.min_size)


@lru_cache(maxsize=256)
def _size_table(n: int, smallest: int, largest: int) -> tuple[int, list[float]]:
    """Return the number of subsets, and the cumulative probabilities of their sizes."""
    counts = [math.comb(n, size) for size in range(smallest, largest + 1)]
    return sum(counts), cumulate(counts)


# -- Permutations, such as loop orders ------------------------------------------------------------


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class Permutation(Distribution):
    """A uniformly drawn permutation of ``range(n)``, such as a loop order; n from 1 to 1024."""

    kind: ClassVar[str] = "permutation"

    n: int

    def __post_init__(self) -> None:
        check_int("Permutation", "n", self.n, 1, _MAX_ITEMS)

    def sample(self, rng: Rng) -> tuple[int, ...]:
        order = list(range(self.n))
        for last in range(self.n - 1, 0, -1):
            other = pick_index(rng, last + 1)
            order[last], order[other] = order[other], order[last]
        return tuple(order)

    def permits(self, d: object) -> bool:
        return (
            type(d) is tuple
            and len(d) == self.n
            and all(type(item) is int and 0 <= item < self.n for item in d)
            and len(set(d)) == self.n
        )

    def log_prob(self, d: object) -> float:
        return -math.lgamma(self.n + 1) if self.permits(d) else -math.inf

    def support(self) -> Iterator[tuple[int, ...]]:
        """Yield the permutations in lexicographic order."""
        return itertools.permutations(range(self.n))

    def size(self) -> int:
        return math.factorial(self.n)

    def neighbours(self, d: Decision) -> tuple[tuple[int, ...], ...]:
        """Return the permutations with two adjacent items exchanged."""
        order: tuple[int, ...] = self.require(d)
        return tuple(_exchange(order, i, i + 1) for i in range(self.n - 1))

    def propose(self, d: Decision, rng: Rng) -> tuple[tuple[int, ...], float]:
        """Exchange any two items; the proposal is symmetric, so the ratio is 0."""
        order: tuple[int, ...] = self.require(d)
        if self.n == 1:
            return order, 0.0
        first = pick_index(rng, self.n)
        second = pick_index(rng, self.n - 1)
        return _exchange(order, first, second + (second >= first)), 0.0

    def origin(self) -> tuple[int, ...]:
        """Return the identity: 0, 1, 2, ..."""
        return tuple(range(self.n))

    def repair(self, d: object) -> tuple[int, ...]:
        """Keep the valid items of ``d`` in order, without repeats; append the others, ascending."""
        kept: dict[int, None] = {}
        for item in d if isinstance(d, tuple | list) else ():
            if type(item) is int and 0 <= item < self.n:
                kept[item] = None
        return (*kept, *(item for item in range(self.n) if item not in kept))

    @property
    def n_outputs(self) -> int:
        return self.n


def _exchange(order: tuple[int, ...], i: int, j: int) -> tuple[int, ...]:
    changed = list(order)
    changed[i], changed[j] = order[j], order[i]
    return tuple(changed)
