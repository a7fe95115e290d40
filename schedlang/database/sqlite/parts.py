"""Lists of values in parts that fit into one statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", int, str)

# Maximum number of variables in one statement.
_MOST_VARIABLES = 900


def parts(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield distinct values in ascending order, in parts that fit into one statement."""
    ordered = sorted(set(values))
    for start in range(0, len(ordered), _MOST_VARIABLES):
        yield ordered[start : start + _MOST_VARIABLES]
