"""Spaces whose parts are difficult: what comes later depends on what was drawn, or undone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import schedlang as sl
from schedlang.distributions import Rng
from schedlang.search import Outcome, Strategy
from schedlang.search.searches import make_search
from schedlang.testing.spaces import ORDINARY
from schedlang.tuning.surveys import enumerated

WORKLOAD = sl.workloads.matmul(64, 64, 64)


@sl.module
def two_tiles(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """The second tile is one of what the first one leaves."""
    i, *_ = sch.get_loops(block)
    _, inner = sch.split(i, sch.sample_perfect_tile(i, n=2, name="outer"))
    sch.split(inner, sch.sample_perfect_tile(inner, n=2, name="inner"))
    sch.annotate(block, "two_tiles", sch.choose("unrolled", (True, False)))


@sl.module
def undone_first(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Of its options, the first one does not apply."""
    sch.annotate(block, "tried", 1)
    if sch.choose("way", ("bad", "good", "better")) == "bad":
        raise sl.NotApplicable("it turned out to be bad")


@sl.module
def undone_pairs(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """It draws twice and chooses, and applies to few of the pairs."""
    one = sch.sample_categorical([1, 2, 3], name="one")
    two = sch.sample_categorical([1, 2, 3], name="two")
    if int(one) * int(two) > 3 or sch.choose("refused", (True, False)):
        raise sl.NotApplicable("too much")
    sch.annotate(block, "product", one * two)


@sl.module
def never(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """It draws and chooses, and never applies."""
    sch.choose("in vain", (1, 2))
    sch.sample_categorical([1, 2, 3], name="for nothing")
    raise sl.NotApplicable("never")


@sl.module
def afterwards(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """What follows others: a choice, of which one option is impossible, and a draw."""
    option = sch.choose("option", ("a", "b", "c"), (0.0, 1.0, 3.0))
    sch.annotate(block, "afterwards", option)
    sch.annotate(block, "drawn", sch.sample_categorical([4, 5], name="drawn"))


@sl.module
def refuses(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Two of three decisions lose iterations, which the split refuses."""
    i, *_ = sch.get_loops(block)
    sch.split(i, [8, sch.sample_categorical([2, 3, 8], name="factor")])


@sl.module
def by_value(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """A host ``if`` on a drawn value: the sites and the instructions differ."""
    number = sch.sample_categorical([1, 2, 3, 4], name="number")
    if int(number) > 2:
        sch.annotate(block, "large", sch.sample_categorical([10, 20, 30], name="size"))
    else:
        sch.annotate(block, "small", number)


@sl.distribution
@dataclass(frozen=True)
class Squares(sl.Distribution):
    """A user's own: the squares up to a number, the large ones more often."""

    kind: ClassVar[str] = "test.squares"
    limit: int

    def sample(self, rng: Rng) -> int:
        return (1 + int(math.sqrt(rng.random()) * math.isqrt(self.limit))) ** 2

    def log_prob(self, d: Any) -> float:
        if type(d) is not int or not 1 <= d <= self.limit or math.isqrt(d) ** 2 != d:
            return -math.inf
        return math.log((2 * math.isqrt(d) - 1) / math.isqrt(self.limit) ** 2)

    def support(self) -> Iterator[int]:
        return (n * n for n in range(1, math.isqrt(self.limit) + 1))


@sl.module
def own(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """It draws from a distribution of its own, twice by one name."""
    sch.annotate(block, "square", sch.sample(Squares(900), name="square"))
    sch.annotate(block, "other", sch.sample(Squares(400), name="square"))


SPACES = {
    "ordinary": ORDINARY,
    "two_tiles": sl.Space([two_tiles]),
    "undone_first": sl.Space([undone_first, afterwards]),
    "refuses": sl.Space([refuses, afterwards]),
    "own": sl.Space([own, afterwards]),
}
"""Replays stay in parts of these."""
MORE_SPACES = {
    **SPACES,
    "undone_pairs": sl.Space([undone_pairs, afterwards]),
    "by_value": sl.Space([by_value, afterwards]),
    "all": sl.Space([undone_first, by_value, undone_pairs, own]),
}
"""Replays of some keep what the program did with another value."""


def keys_of(space: sl.Space, workload: sl.Workload = WORKLOAD) -> list[str]:
    """Return the keys of all programs of a space."""
    return enumerated(space, workload)[1]


def searched(
    space: sl.Space, name: str, trials: int, seed: int = 0, batch: int = 8
) -> tuple[Strategy, list[str]]:
    """Run a search to the end; return the keys of what it proposed, whose latencies are made up."""
    strategy = make_search(name, space, WORKLOAD, seed, trials)
    keys: list[str] = []
    while len(keys) < trials and (proposals := strategy.ask(batch)):
        keys += [one.program_key for one in proposals]
        strategy.tell([Outcome(one.id, timed(one.id, one.program_key)) for one in proposals])
    return strategy, keys


def timed(number: int, key: str) -> sl.Measurement:
    """Return a measurement whose latency depends on the program; one of eight failed."""
    if int(key[0], 16) < 2:
        return sl.Measurement(number, sl.Status.RUN_ERROR, message="it failed")
    return sl.Measurement(number, sl.Status.OK, (1e-6 * (1 + int(key[1:4], 16)),))
