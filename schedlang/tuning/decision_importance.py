"""How much of the differences between latencies one decision explains by itself, and how surely.

The measure is R^2 of predicting the logarithm of the latency of each candidate by the mean of the
others with the same decision (leave-one-out, so that a decision with many values gains nothing
from chance). For decisions of several numbers, such as tile sizes, each number is tried as well,
and the best predictor counts.

What is slower than three times the fastest counts as three times as slow, or one very slow
program would make all of the variance. Functional ANOVA (Hutter et al., 2014) splits the variance
between decisions with a model in between; this needs none. Decisions that a search changes
together explain the same differences twice.

``table_of`` reads the decisions and latencies of a run's candidates, as columns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedlang.database import Record
from schedlang.errors import SchedlangError
from schedlang.language.schedule import Trace
from schedlang.workloads.workload import Workload

# -- The importance of a decision -----------------------------------------------------------------

Array = NDArray[np.float64]

# Values that are looked at one by one; rarer ones count as one value.
_MOST_VALUES = 32
# Orders of the latencies for the p-value, and halves of the candidates for the interval.
_SHUFFLES, _HALVES = 200, 100
_SLOWEST = 3.0
_LEAST_SPREAD = 1e-20
FEWEST = 12
"""With fewer candidates, nothing is said."""


class Importance(NamedTuple):
    """The part of the variance of log latencies that a decision explains alone.

    ``low`` and ``high`` enclose it in 9 of 10 random halves of the candidates; ``p_value`` is the
    probability of so large a part if the decision had nothing to do with latencies.
    """

    part: float
    low: float
    high: float
    p_value: float


def importance(column: Sequence[Hashable], latencies: Sequence[float]) -> Importance | None:
    """Return the importance of a decision, given its values and the latencies of the candidates.

    None where there are too few candidates or one value only. The same data give the same answer.
    """
    if len(latencies) < FEWEST or len(set(column)) < 2:
        return None
    logs = np.log(np.asarray(latencies, dtype=np.float64) / min(latencies))
    logs = np.minimum(logs, math.log(_SLOWEST))
    groupings = [_groups(one) for one in (column, *_numbers_of(column))]
    part = _best(groupings, logs[None])[0]
    rng = np.random.default_rng(0)
    shuffled = np.stack([rng.permutation(logs) for _ in range(_SHUFFLES)])
    chance = int((_best(groupings, shuffled) >= part).sum())
    taken = np.zeros((_HALVES, len(logs)))
    for row in taken:
        row[rng.permutation(len(logs))[: max(len(logs) // 2, FEWEST // 2)]] = 1.0
    halves = _best(groupings, logs[None], taken)
    low, high = np.quantile(halves, (0.05, 0.95))
    p_value = (chance + 1) / (_SHUFFLES + 1)
    return Importance(float(part), float(min(low, part)), float(max(high, part)), p_value)


def _numbers_of(column: Sequence[Any]) -> list[list[Any]]:
    """Return each number of a decision of several as a column of its own."""
    lengths = {len(value) for value in column if isinstance(value, tuple)}
    if len(lengths) != 1:
        return []
    [length] = lengths
    return [
        [value[place] if isinstance(value, tuple) else value for value in column]
        for place in range(length)
    ]


def _groups(column: Sequence[Hashable]) -> Array:
    """Return a matrix with a 1 where the candidate of a row has the value of a column."""
    frequent = [value for value, _ in Counter(column).most_common(_MOST_VALUES)]
    places = {value: place for place, value in enumerate(frequent)}
    matrix = np.zeros((len(column), len(frequent) + 1))
    for row, value in enumerate(column):
        matrix[row, places.get(value, len(frequent))] = 1.0
    return matrix


def _best(groupings: Sequence[Array], logs: Array, taken: Array | None = None) -> Array:
    """Return R^2 of the best grouping for each row of log latencies, 0 or more.

    Where ``taken`` is given, a row of it has a 1 for each candidate that counts, else 0.
    """
    parts = [_explained(groups, logs, taken) for groups in groupings]
    best: Array = np.maximum(np.max(parts, axis=0), 0.0)
    return best


def _explained(groups: Array, logs: Array, taken: Array | None) -> Array:
    """Return 1 - missed / spread, both sums of squares of leave-one-out predictions.

    Each candidate is predicted by the others of its value, or by all others where it is the only
    one. The sums of a group give both: in a group of n with the mean m, x misses by
    (x - m) n / (n - 1).
    """
    if taken is None:
        counts, number = groups.sum(axis=0)[None], float(len(groups))
    else:
        logs, counts, number = logs * taken, taken @ groups, float(taken[0].sum())
    sums, squares = logs @ groups, (logs * logs) @ groups
    total = sums.sum(axis=1, keepdims=True)
    within = np.maximum(squares - sums**2 / np.maximum(counts, 1), 0.0)  # rounding
    missed = np.where(
        counts > 1,
        (counts / np.maximum(counts - 1, 1)) ** 2 * within,
        # Of an empty group everything is 0.
        np.where(counts == 1, ((number * sums - total) / (number - 1)) ** 2, 0.0),
    ).sum(axis=1)
    around = squares.sum(axis=1) - total[:, 0] ** 2 / number
    # Below it is what rounding leaves of equal latencies.
    spread = np.where(around > _LEAST_SPREAD, (number / (number - 1)) ** 2 * around, 0.0)
    part: Array = np.where(spread > 0, 1 - missed / np.where(spread > 0, spread, 1.0), 0.0)
    return part


# -- The decisions and latencies of a run's candidates --------------------------------------------

MOST_TRACES = 2000
"""Number of candidates that are read at most, evenly spread over the run: reading takes time."""


@dataclass(frozen=True)
class DecisionTable:
    """Candidates that have a latency, in the order of the run.

    Attributes
    ----------
    records: the candidates.
    decisions: of each candidate, its draws and choices by site.
    """

    records: Sequence[Record]
    decisions: Sequence[Mapping[str, Any]]

    def column(self, site: str) -> tuple[list[Record], list[Any]]:
        """Return the candidates that have a decision at a site, and the decisions.

        Others came from another path of choices: what they tell belongs to the choice.
        """
        pairs = zip(self.records, self.decisions, strict=True)
        having = [(record, one[site]) for record, one in pairs if site in one]
        return [record for record, _ in having], [value for _, value in having]


def decisions_of(trace: Trace) -> dict[str, Any]:
    """Return the draws and choices of a trace by site; an option that is no value is its text."""
    found = {**trace.choices, **trace.decisions}
    return {
        site: value if isinstance(value, Hashable) else repr(value) for site, value in found.items()
    }


def table_of(records: Iterable[Record], workload: Workload, winner: Record) -> DecisionTable:
    """Read the decisions of candidates; one whose trace cannot be read is left out."""
    ok = [record for record in records if record.ok and record.trace_json]
    step = -(-len(ok) // MOST_TRACES) or 1
    # Other candidates of the winner's program are no evidence against it.
    kept: list[Record] = []
    decisions: list[Mapping[str, Any]] = []
    for place, record in enumerate(ok):
        if place % step and record != winner:
            continue
        try:
            trace = Trace.from_json(record.trace_json, workload)
        except SchedlangError:
            continue
        kept.append(record)
        decisions.append(decisions_of(trace))
    return DecisionTable(kept, decisions)
