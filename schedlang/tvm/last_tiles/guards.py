"""Guards that cut off the last of the tiles of a loop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schedlang.tvm.last_tiles.around import Around
from schedlang.tvm.linear import Linear
from schedlang.tvm.parts import conjuncts_of


@dataclass(frozen=True)
class Guard:
    """A condition that the tile is inside: ``start + inside < stop``.

    Attributes
    ----------
    start: the sum of what is known outside the tile.
    inside: the sum of the rest.
    """

    start: Linear
    inside: Linear
    stop: int

    @property
    def size(self) -> int:
        """The extent of a tile."""
        return self.inside.most + 1

    @property
    def latest(self) -> int:
        """The latest start of a tile of which all is inside."""
        return self.stop - self.size

    @property
    def whole(self) -> Linear:
        """The index in the whole loop, ``start + inside``."""
        return self.start.plus(self.inside)

    def is_like(self, other: Guard) -> bool:
        """Whether the last tile starts at the same place."""
        return self.start.terms == other.start.terms and self.latest == other.latest

    def is_apart(self, other: Guard) -> bool:
        """Whether the two starts are independent."""
        return self.start.is_apart(other.start)


def each_once(guards: Iterable[Guard]) -> list[Guard]:
    """Return a guard for each last tile."""
    found: list[Guard] = []
    for guard in guards:
        if not any(guard.is_like(other) for other in found):
            found.append(guard)
    return found


def guards_of(realize: Any, around: Around) -> list[Guard]:
    """Return the guards of a realized block that cut off tiles."""
    conditions = [around.less(part) for part in conjuncts_of(realize.predicate)]
    guards = [_guard_of(one, around) for one in conditions if one is not None]
    return [one for one in guards if one is not None]


def _guard_of(less: Linear, around: Around) -> Guard | None:
    """Return a condition as a guard, if its tiles are dense and the last one does not fit."""
    start, rest = around.split(less)
    inside, stop = Linear(rest.terms), -rest.constant
    size = inside.most + 1
    fits = start.most + size <= stop or size > stop
    if fits or not start.terms or not inside.terms:
        return None
    is_dense = inside.covers() and start.covers(size)
    return Guard(start, inside, stop) if is_dense else None
