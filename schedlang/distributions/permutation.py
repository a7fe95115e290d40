"""Permutations, such as loop orders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from schedlang.distributions._checks import check_int
from schedlang.distributions._drawing import Rng, pick_index
from schedlang.distributions.base import Decision, Distribution
from schedlang.distributions.registry import register_distribution

_MAX_ITEMS = 1024


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
