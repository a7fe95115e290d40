"""The learned models: gradient boosted trees on statements, and on decisions.

``GradientBoosting`` predicts from the statements of a program, summed up (Ansor, section 5.2).
``DecisionModel`` ranks candidates by their decisions, before their programs are built.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schedlang.distributions.base import Decision
from schedlang.language.schedule import Trace
from schedlang.search.cost_model import CostModelError, Example, Scores, read_document, throughputs
from schedlang.tvm.analysis.work import COLUMNS, Features

if TYPE_CHECKING:
    import lightgbm


Derivatives = Callable[[NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]]
"""Scores of all rows -> first and second derivatives of the loss."""

_ALWAYS = {
    "objective": "none",
    "boost_from_average": False,
    # For tens of rows; LightGBM's own limits are meant for thousands.
    "min_data_in_leaf": 2,
    "min_data_in_bin": 1,
    "min_sum_hessian_in_leaf": 1e-3,
    "feature_pre_filter": False,
    # Otherwise it times both ways of counting and takes the faster, with other rounding.
    "force_col_wise": True,
    "deterministic": True,
    # A second thread gains nothing at this size.
    "num_threads": 1,
    "verbosity": -1,
}


def train_booster(
    rows: NDArray[Any], rounds: int, settings: Mapping[str, Any], derivatives: Derivatives
) -> lightgbm.Booster:
    """Train ``rounds`` trees, fewer when no split helps any more; scores start from 0."""
    import lightgbm  # here, as the workers that measure import this package too

    parameters = {**_ALWAYS, **settings}

    def loss(scores: NDArray[Any], _: lightgbm.Dataset) -> tuple[NDArray[Any], NDArray[Any]]:
        first, second = derivatives(scores)
        return first.astype(np.float32), second.astype(np.float32)

    booster = lightgbm.Booster(parameters, lightgbm.Dataset(rows, params=parameters))
    for _ in range(rounds):
        if booster.update(fobj=loss):
            break
    return booster


def write_booster(booster: lightgbm.Booster) -> str:
    """Write the model as LightGBM's text, after a line with its checksum."""
    text = str(booster.model_to_string())
    return f"{zlib.crc32(text.encode())}\n{text}"


def read_booster(text: object, columns: int) -> lightgbm.Booster:
    """Read what ``write_booster`` wrote; CostModelError for anything else.

    ``columns`` is the number of columns that the model must have.
    """
    checksum, _, content = str(text).partition("\n")
    # LightGBM ends the process at a text that is cut off or changed.
    if checksum != str(zlib.crc32(content.encode())):
        raise CostModelError("the trees of a stored model are broken: another checksum")
    import lightgbm

    booster = lightgbm.Booster(model_str=content)
    found = booster.num_feature()
    if found != columns:
        raise CostModelError(f"the trees of a stored model have {found} columns, not {columns}")
    return booster


ROUNDS = 120
LEAST_WEIGHT = 0.2
"""Weight of a program that failed or is very slow; the best of a workload has weight 1."""
OTHERS_SHARE = 0.25
"""Maximum weight of all programs of other workloads together, over that of the present one's."""

# Random thresholds and few leaves: of all settings tried, these rank best after 32 to 128 programs.
_PROGRAM_SETTINGS = {
    "num_leaves": 6,
    "learning_rate": 0.08,
    "feature_fraction": 0.3,
    "extra_trees": True,
}
_STORED = "<f4"


class GradientBoosting:
    """LightGBM trees that score a statement; a program's score is the sum over its statements.

    The loss of a program is w (score - y)^2 with y its throughput over that of the best program of
    its workload, 0 if it failed, and w = max(y, ``LEAST_WEIGHT``) times the weight of the example:
    fast programs matter most, and those whose latency is in doubt less. Every update trains afresh
    on all examples, which takes some 20 ms for 200 programs. This ranks better than adding trees to
    old ones, which were trained relative to an old best. The trees depend only on the updates and
    the seed.

    The workload of the last update counts as the present one. Programs of other workloads help at
    the start and mislead later: together they weigh at most ``OTHERS_SHARE`` of the present one's.
    After an update with several workloads, as in pre-training, all weigh the same.

    Parameters
    ----------
    seed: of the choice of columns for each tree.
    rounds: number of trees.
    """

    name = "gradient_boosting"

    def __init__(self, seed: int = 0, rounds: int = ROUNDS) -> None:
        self._settings = {**_PROGRAM_SETTINGS, "seed": seed}
        self._rounds = rounds
        self._examples: list[Example] = []
        self._booster: lightgbm.Booster | None = None
        self._start = 0.0
        self._present: str | None = None

    @property
    def trained(self) -> bool:
        return self._booster is not None

    def update(self, examples: Sequence[Example]) -> None:
        """Learn from new examples and all earlier ones; nothing is learned until one works."""
        if not examples:
            return
        self._examples += examples
        keys = {example.workload_key for example in examples}
        self._present = keys.pop() if len(keys) == 1 else None
        if any(example.latency is not None for example in self._examples):
            self._train()

    def _train(self) -> None:
        target = throughputs(self._examples)
        weight = self._weights(target)
        counts, program, rows = _stacked([example.features for example in self._examples])
        # The weighted mean is the score of a program about which nothing is known.
        self._start = float(np.average(target, weights=weight))
        missing = target - self._start
        # The rows of one program share its error, so the second derivative of every pair of them is
        # 2w. Boosting uses the diagonal only; with the sum of a row there, no step is too long.
        hessian = (2 * weight * counts)[program]

        def derivatives(scores: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
            error = np.bincount(program, scores, len(target)) - missing
            return (2 * weight * error)[program], hessian

        self._booster = train_booster(rows, self._rounds, self._settings, derivatives)

    def _weights(self, target: Scores) -> Scores:
        weights = np.maximum(target, LEAST_WEIGHT) * [one.weight for one in self._examples]
        present = np.array([e.workload_key == self._present for e in self._examples])
        if present.any() and not present.all():
            share = OTHERS_SHARE * weights[present].sum() / weights[~present].sum()
            weights[~present] *= min(share, 1.0)
        return weights

    def predict(self, features: Sequence[Features]) -> Scores:
        counts, program, rows = _stacked(features)
        if self._booster is None:
            return np.zeros(len(counts))
        scores = self._booster.predict(rows, num_threads=1) if len(rows) else np.zeros(0)
        return self._start + np.bincount(program, scores, len(counts)).astype(np.float64)

    def save(self) -> str:
        """Return JSON of the trees in LightGBM's text, and of the examples for the next update."""
        counts, _, rows = _stacked([example.features for example in self._examples])
        packed = zlib.compress(rows.astype(_STORED).tobytes())
        return json.dumps(
            {
                "model": self.name,
                "trees": None if self._booster is None else write_booster(self._booster),
                "start": self._start,
                "present": self._present,
                "statements": counts.tolist(),
                "latencies": [example.latency for example in self._examples],
                "workloads": [example.workload_key for example in self._examples],
                "weights": [example.weight for example in self._examples],
                "features": base64.b64encode(packed).decode("ascii"),
            }
        )

    def load(self, text: str) -> None:
        stored = read_document(
            text,
            self.name,
            *("trees", "start", "present", "statements", "latencies", "workloads", "features"),
        )
        try:
            counts = [int(count) for count in stored["statements"]]
            # Models of older versions have none.
            weights = stored.get("weights", [1.0] * len(counts))
            tables = _unpack(stored["features"], counts)
            examples = [
                Example(table, None if latency is None else float(latency), str(key), float(weight))
                for table, latency, key, weight in zip(
                    tables, stored["latencies"], stored["workloads"], weights, strict=True
                )
            ]
            start = float(stored["start"])
            present = None if stored["present"] is None else str(stored["present"])
        except (TypeError, ValueError, binascii.Error, zlib.error) as error:
            raise CostModelError(f"the examples of a stored model are broken: {error}") from None
        self._booster = None if stored["trees"] is None else read_booster(stored["trees"], COLUMNS)
        self._examples, self._start, self._present = examples, start, present


def _stacked(
    tables: Sequence[Features],
) -> tuple[NDArray[np.int64], NDArray[np.int64], Features]:
    """Return the rows of each program, the program of each row, and all rows, (rows, 164)."""
    counts = np.array([len(table) for table in tables], dtype=np.int64)
    rows = np.concatenate([np.empty((0, COLUMNS), np.float32), *tables])
    return counts, np.repeat(np.arange(len(counts)), counts), rows


def _unpack(text: str, counts: Sequence[int]) -> list[Features]:
    expected = sum(counts) * COLUMNS * np.dtype(_STORED).itemsize
    reader = zlib.decompressobj()
    content = reader.decompress(base64.b64decode(text, validate=True), expected + 1)
    if len(content) != expected or min(counts, default=0) < 0:
        raise ValueError(f"{len(content)} bytes of features, not {expected}")
    rows = np.frombuffer(content, _STORED).astype(np.float32).reshape(-1, COLUMNS)
    ends = list(accumulate(counts))
    return [rows[end - count : end] for end, count in zip(ends, counts, strict=True)]


# -- A model on decisions: it ranks candidates before their programs are built --------------------

"""Weight of a candidate that failed or is very slow; the best has weight 1."""

_DECISION_SETTINGS = {"num_leaves": 6, "learning_rate": 0.08, "feature_fraction": 0.5}
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
        self._settings = {**_DECISION_SETTINGS, "seed": seed}
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
