"""The share of programs that a search proposes first where others search beside it.

They know nearly the same, and would propose the same: so each program belongs to one of them, by
its structural key or, before it is made, by its decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from zlib import crc32

_T = TypeVar("_T")


@dataclass
class Share:
    """Which programs are a search's own.

    Attributes
    ----------
    number: of the search, from 0; count: of all beside each other.
    """

    number: int = 0
    count: int = 1

    def owns(self, key: str) -> bool:
        """Return whether what is known by this text is its own; all searches agree."""
        return self.count == 1 or crc32(key.encode()) % self.count == self.number

    def own_first(self, ranked: list[_T], key: Callable[[_T], str], most: int) -> list[_T]:
        """Return the first ``most`` of its own, and as many others as are missing, each in order.

        ``key`` returns what each is known by.
        """
        if self.count == 1:
            return ranked[:most]
        own: list[_T] = []
        others: list[_T] = []
        for one in ranked:
            (own if self.owns(key(one)) else others).append(one)
            if len(own) == most:
                break
        return (own + others)[:most]


def decisions_key(values: Mapping[str, Any]) -> str:
    """Return a text for decisions by site."""
    return repr(sorted(values.items()))
