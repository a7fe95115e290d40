"""Random indices: sums, divisions and remainders of some variables, with offsets."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_DIVISORS = (2, 3, 4, 5, 6, 8)
_COMMON = (3, 4, 6)
_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


@dataclass(frozen=True)
class Index:
    """An operation on two indices; a name and a number are indices too."""

    operation: str
    left: Index | str | int
    right: Index | str | int

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Compute the index of TVM's expressions, or of numpy's arrays."""
        return _OPERATIONS[self.operation](_value(self.left, values), _value(self.right, values))

    def __str__(self) -> str:
        return f"({self.left} {self.operation} {self.right})"


def _value(index: Index | str | int, values: Mapping[str, Any]) -> Any:
    if isinstance(index, Index):
        return index(values)
    return values[index] if isinstance(index, str) else index


def random_index(rng: random.Random, variables: Sequence[str]) -> Index:
    """Return an index with one to four divisions, often by the same number."""
    divisors = _DIVISORS if rng.random() < 0.5 else (rng.choice(_COMMON),)
    index = _division(rng, variables, divisors, rng.choice((1, 2, 2)))
    kind = rng.random()
    if kind < 0.3:
        other = _division(rng, variables, divisors, rng.choice((1, 1, 2)))
        return Index("+", Index("*", index, rng.choice((1, 2, 8))), other)
    if kind < 0.5:
        return Index(rng.choice("+-"), index, rng.choice(variables))
    return index


def _division(
    rng: random.Random, variables: Sequence[str], divisors: Sequence[int], levels: int
) -> Index:
    dividend: Index | str = rng.choice(variables)
    if levels > 1:
        dividend = _division(rng, variables, divisors, levels - 1)
    if rng.random() < 0.15:
        dividend = Index("*", dividend, rng.choice((2, 3)))
    if rng.random() < 0.15:
        dividend = Index("+", dividend, rng.choice(variables))
    offset = rng.random()
    if offset < 0.5:
        dividend = Index("+", dividend, rng.randint(1, 7))
    elif offset < 0.7:
        dividend = Index("-", dividend, rng.randint(1, 7))
    elif offset < 0.85:
        dividend = Index("-", rng.randint(0, 7), dividend)
    return Index("%" if rng.random() < 0.6 else "//", dividend, rng.choice(divisors))
