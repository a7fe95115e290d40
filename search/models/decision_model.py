"""A model on decisions: it ranks candidates before their programs are built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schedlang.distributions.base import Decision
from schedlang.language.schedule import Trace
from schedlang.search.models.cost_model import Scores
from schedlang.search.models.gradient_boosting import train_booster

if TYPE_CHECKING:
    import lightgbm

ROUNDS = 120
LEAST_WEIGHT = 0.2
"""Weight of a candidate that failed or is very slow; the best has weight 1."""

_SETTINGS = {"num_leaves": 6, "learning_rate": 0.08, "feature_fraction": 0.5}
_MISSING = float("nan")


def site_values(trace: Trace) -> dict[str, Decision]:
    """Return the decision at each site of a trace; of a choice, the number of the option."""
    return {i.site: i.decision for i in trace.instructions if i.site}


class DecisionModel:
    """LightGBM trees on the decisions of candidates of one space and one workload.

    A candidate is a mapping as ``site_values`` gives it. It becomes a row with a column for each
    int of each site, and for a tuple the products of its last two, three, ... ints: of tile sizes
    these are the extents of the inner tiles, and with them it ranks better. Sites are those met in
    training. Where a candidate lacks one, because it takes another sketch, its columns are missing
    values.

    The loss is that of ``GradientBoosting``: weighted squared error of the throughput over that of
    the best. Every update trains afresh on everything told so far; the result depends only on that,
    its order and the seed.

    Parameters
    ----------
    seed: of the choice of columns for each tree.
    rounds: number of trees.
    """

    name = "decisions"

    def __init__(self, seed: int = 0, rounds: int = ROUNDS) -> None:
        self._settings = {**_SETTINGS, "seed": seed}
        self._rounds = rounds
        self._candidates: list[Mapping[str, Decision]] = []
        self._latencies: list[float | None] = []
        self._trusts: list[float] = []
        self._columns: dict[str, tuple[int, int]] = {}
        self._width = 0
        # Of what was encoded, as long as columns stay as they are.
        self._rows = np.empty((0, 0))
        self._parts: dict[tuple[str, Decision], tuple[slice, list[float]]] = {}
        self._booster: lightgbm.Booster | None = None
        self._start = 0.0

    @property
    def trained(self) -> bool:
        """Whether its predictions rest on measurements."""
        return self._booster is not None

    def update(
        self,
        candidates: Sequence[Mapping[str, Decision]],
        latencies: Sequence[float | None],
        trusts: Sequence[float] | None = None,
    ) -> None:
        """Learn from measured candidates, besides all those before.

        ``latencies`` are in seconds, ``None`` for a failure; ``trusts`` says how much each counts,
        up to 1. ValueError unless there is one for each candidate.
        """
        trusts = [1.0] * len(latencies) if trusts is None else trusts
        for what, values in (("latencies", latencies), ("weights", trusts)):
            if len(values) != len(candidates):
                raise ValueError(f"{len(values)} {what} for {len(candidates)} candidates")
        for candidate in candidates:
            for site, decision in candidate.items():
                self._give_columns(site, decision)
        self._candidates += candidates
        self._latencies += latencies
        self._trusts += trusts
        if candidates and any(latency is not None for latency in self._latencies):
            self._train()

    def _give_columns(self, site: str, decision: Decision) -> None:
        length = len(decision) if isinstance(decision, tuple) else 1
        if length > self._columns.get(site, (0, 0))[1]:
            # A site with longer tuples moves to new columns; its old ones stay empty.
            self._columns[site] = (self._width, length)
            self._width += max(2 * length - 1, 1)
            self._rows = np.empty((0, self._width))
            self._parts.clear()

    def _train(self) -> None:
        times = np.array([np.inf if t is None else t for t in self._latencies])
        target = times.min() / times
        weight = np.maximum(target, LEAST_WEIGHT) * self._trusts
        self._start = float(np.average(target, weights=weight))

        def derivatives(scores: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
            return 2 * weight * (scores + self._start - target), 2 * weight

        new = self._candidates[len(self._rows) :]
        self._rows = np.concatenate([self._rows, self._encode(new)])
        self._booster = train_booster(self._rows, self._rounds, self._settings, derivatives)

    def predict(self, candidates: Sequence[Mapping[str, Decision]]) -> Scores:
        """Score candidates, (candidates,), higher is faster, as a ``CostModel`` does."""
        if self._booster is None or not candidates:
            return np.zeros(len(candidates))
        scores = self._booster.predict(self._encode(candidates), num_threads=1)
        return self._start + np.asarray(scores, dtype=np.float64)

    def _encode(self, candidates: Sequence[Mapping[str, Decision]]) -> NDArray[np.float64]:
        """Encode candidates as rows, (candidates, columns)."""
        parts, empty = self._parts, [_MISSING] * self._width
        rows = []
        for candidate in candidates:
            row = empty.copy()
            for entry in candidate.items():
                part = parts.get(entry)
                if part is None:
                    part = parts[entry] = self._part(*entry)
                row[part[0]] = part[1]
            rows.append(row)
        return np.array(rows, dtype=np.float64).reshape(len(rows), self._width)

    def _part(self, site: str, decision: Decision) -> tuple[slice, list[float]]:
        """Return where a decision lies in a row, and its columns."""
        start, length = self._columns.get(site, (0, 0))
        known = decision[:length] if isinstance(decision, tuple) else (decision,)[:length]
        values: list[float] = list(known)
        if len(known) > 1:
            values += [_MISSING] * (length - len(known))
            values += list(accumulate(reversed(known), mul))[1:]
        return slice(start, start + len(values)), values
