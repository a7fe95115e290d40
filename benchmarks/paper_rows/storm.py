"""Explore as a Storm, Exploit as a Raindrop: its figures on recorded spaces.

DPAnsor explores K programs and descends once from the best of them, in its sketch, until no
neighbour is faster; Ansor explores 10,000. Here ``ExploreExploit`` explores with ``Evolutionary``,
and the other side is ``Evolutionary`` alone; a recorded space has 840 to 2,640 programs, so 10,000
trials measure all that it still finds, and the ratio of the latencies cannot exceed that of what
it missed. Seconds are simulated: of building, running and verifying as recorded, of searching as
it took here.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from searches import recorded, simulate

from schedlang.search import CoordinateDescent, Evolutionary, ExploreExploit, Grid, Random
from schedlang.search.base import StrategyBase

EXPLORED = (1, 10, 25, 50, 100, 200, 300, 1000)
MOST = 10_000
# Figure 14: programs that are explored before, and what each exploiter may measure at most. The
# paper explores 300 for a whole network, which are 23 for each kernel of its smallest.
BEFORE, EXPLOITED = 25, 100

EXPLOITERS: Mapping[str, type[StrategyBase]] = {
    "grid": Grid,
    "random": Random,
    "model": Evolutionary,
}
"""What takes the place of the descent: the paper's grid, random and model-based search."""


def once(explored: int) -> partial[ExploreExploit]:
    """Return the paper's search: one descent from the best program, and no other start."""
    descent = partial(CoordinateDescent, start=(), lines=1, restarts=0)
    return partial(ExploreExploit, exploit=descent, switch_after=explored, sketches=1)


def tuned(path: Path, seed: int, search: Any, trials: int) -> dict[str, float]:
    """Tune on a recorded space; return what was found, with how many trials, in which time."""
    found = recorded(path)
    result = simulate(found, search, seed, trials)
    latencies = [found.program(one.program_key).latency for one in result.records]
    return {
        "latency": min(latencies),
        "over optimum": min(latencies) / found.optimum,
        "trials": len(latencies),
        "seconds": result.seconds,
    }


def budgets(path: Path, seed: int, explored: Sequence[int] = EXPLORED) -> dict[str, Any]:
    """Figures 10, 11, 17 and 18: K explored programs and a descent, against exploring alone."""
    row: dict[str, Any] = {"alone": tuned(path, seed, "evolutionary", MOST)}
    for number in explored:
        row[str(number)] = tuned(path, seed, once(number), MOST)
    return row


def exploiters(path: Path, seed: int) -> dict[str, Any]:
    """Figure 14: the same exploration, then a descent until it ends, or another for 100 trials."""
    row: dict[str, Any] = {"descent": tuned(path, seed, once(BEFORE), BEFORE + EXPLOITED)}
    for name, search in EXPLOITERS.items():
        make = partial(ExploreExploit, exploit=search, switch_after=BEFORE, sketches=1)
        row[name] = tuned(path, seed, make, BEFORE + EXPLOITED)
    return row


def ratios(rows: Sequence[Mapping[str, Any]], of: str, to: str, what: str) -> float:
    """Return the geometric mean of one side's figure over another's."""
    return statistics.geometric_mean(row[of][what] / row[to][what] for row in rows)
