"""Cost models: they learn from measured programs, and rank programs that were not measured.

``CostModel`` is the contract. A model may learn from the records of a database before the first
measurement (``pretrain``).
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from schedlang.database import Database, Record
from schedlang.database.programs import Unreadable
from schedlang.errors import InvalidTrace, SchedlangError, TraceFormatError
from schedlang.language.schedule import Trace
from schedlang.search.state import dump_rng, load_rng
from schedlang.tvm.analysis.work import Features, statement_features
from schedlang.workloads.workload import Workload

Scores = NDArray[np.float64]

# Lower scores count as this one: they say no more than "slow".
_LOWEST_SCORE = 0.02


class CostModelError(SchedlangError):
    """A stored model that cannot be read."""


@dataclass(frozen=True, eq=False)
class Example:
    """One measured program.

    Attributes
    ----------
    features: a row for each of its statements, (statements, 164), from
        ``schedlang.tvm.analysis.work.statement_features``.
    latency: in seconds, positive; ``None`` if it failed to build, to run or to be right.
    workload_key: of the program before scheduling; latencies are comparable within one workload.
    weight: how much it counts, up to 1; less where other work leaves doubt about its latency.
    """

    features: Features = field(repr=False)
    latency: float | None
    workload_key: str
    weight: float = 1.0


class CostModel(Protocol):
    """Predicts how fast programs are; ``GradientBoosting``, ``RandomModel``, or a user's own.

    A model depends only on how it was made and on what it was updated with, in order, so that a
    search that uses it can be repeated. It does not change the examples.
    ``schedlang.testing.cost_models`` has the contract as a test suite.
    """

    name: str

    @property
    def trained(self) -> bool:
        """Whether its predictions rest on measurements; until then a search need not ask it."""
        ...

    def update(self, examples: Sequence[Example]) -> None:
        """Learn from new examples, besides all those before."""
        ...

    def predict(self, features: Sequence[Features]) -> Scores:
        """Score programs, (programs,), higher is faster.

        A score is about the throughput over that of the workload's best program, from 0 (slow or
        failing) to 1. Only the order within one workload counts.
        """
        ...

    def save(self) -> str:
        """Return all that it has learned as text; never pickled."""
        ...

    def load(self, text: str) -> None:
        """Become the model that ``save`` wrote; CostModelError if the text is unreadable."""
        ...


def plausible(score: float) -> float:
    """Return a score as a positive throughput over that of the best."""
    return max(score, _LOWEST_SCORE)


def energy(score: float) -> float:
    """Return a score as log(predicted latency / best latency)."""
    return -math.log(plausible(score))


def best_latencies(examples: Sequence[Example]) -> dict[str, float]:
    """Return the lowest latency of each workload that ever worked, in seconds."""
    best: dict[str, float] = {}
    for example in examples:
        if example.latency is not None:
            before = best.get(example.workload_key, example.latency)
            best[example.workload_key] = min(before, example.latency)
    return best


def throughputs(examples: Sequence[Example]) -> Scores:
    """Return throughputs over that of the workload's best, 0 for failures (Ansor, 5.2)."""
    best = best_latencies(examples)
    return np.array(
        [0.0 if e.latency is None else best[e.workload_key] / e.latency for e in examples]
    )


class RandomModel:
    """Scores drawn at random: the baseline of any model."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self._trained = False

    @property
    def trained(self) -> bool:
        return self._trained

    def update(self, examples: Sequence[Example]) -> None:
        """Nothing to learn."""
        self._trained = self._trained or bool(examples)

    def predict(self, features: Sequence[Features]) -> Scores:
        return np.array([self._rng.random() for _ in features])

    def save(self) -> str:
        state = {"trained": self._trained, "state": dump_rng(self._rng)}
        return json.dumps({"model": self.name, **state})

    def load(self, text: str) -> None:
        stored = read_document(text, self.name, "trained", "state")
        try:
            load_rng(self._rng, stored["state"])
        except (TypeError, ValueError) as error:
            raise CostModelError(f"no state of a random generator: {error}") from None
        self._trained = bool(stored["trained"])


def read_document(text: str, model: str, *keys: str) -> dict[str, Any]:
    """Read the JSON object that ``model`` wrote, with these keys; else CostModelError."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CostModelError(f"a stored cost model is JSON, and this is not: {error}") from None
    if not isinstance(document, dict) or document.get("model") != model:
        raise CostModelError(f"this is no stored model {model!r}")
    if missing := [key for key in keys if key not in document]:
        raise CostModelError(f"the stored model lacks {', '.join(missing)}")
    return document


# -- Pre-training: a cost model learns from the records of a database -----------------------------

# Up to this many times the limit, all records are read; of more, some are looked up one by one.
_FEW = 8
# Programs that are held in memory at a time.
_BATCH = 64
# Tasks of one network, or shapes of one template, learn from many of the same programs.
_FEATURES: OrderedDict[tuple[str, str], Features] = OrderedDict()
_MOST_KEPT = 4096


@dataclass(frozen=True)
class Pretraining:
    """What a model learned from.

    Attributes
    ----------
    learned: number of records.
    skipped: number of records that were skipped, by reason.
    unreadable: the programs that could not be read.
    """

    learned: int
    skipped: Mapping[str, int]
    unreadable: Unreadable = field(default_factory=Unreadable, compare=False)

    def __str__(self) -> str:
        left_out = "".join(f", {count} skipped: {why}" for why, count in self.skipped.items())
        return f"{self.learned} records learned{left_out}"


def pretrain(
    model: CostModel,
    database: Database,
    *,
    target_key: str | None = None,
    workloads: Collection[str] | None = None,
    limit: int | None = None,
    newest: int | None = None,
    threads: int = 1,
) -> Pretraining:
    """Update ``model`` once with the records of a database, oldest first.

    The trace of every record is applied again to the workload that the database keeps, to extract
    the features of its program: some 5 to 20 ms a record. Records are skipped and counted if their
    workload is missing, or their trace cannot be read or no longer applies. The features of some
    thousand programs are kept for the next call.

    Parameters
    ----------
    target_key: of the machine whose records are learned. By default the records of all machines:
        for each workload, the machine of the newest record counts as the present one, and the
        records of others are learned as if they were of other workloads.
    workloads: keys of the workloads to learn from; by default all.
    limit: maximum number of records of a workload, evenly spread over their age.
    newest: skip records with a larger id.
    threads: number of programs whose features are extracted at the same time.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    skipped: Counter[str] = Counter()
    unreadable = Unreadable()
    examples: list[Example] = []
    for key, name in database.workloads():
        if workloads is not None and key not in workloads:
            continue
        records = records_to_learn(database, key, target_key, limit, newest)
        workload = unreadable.workload(database, key, name) if records else None
        if workload is None:
            skipped["unreadable workload"] += len(records)
            continue
        for start in range(0, len(records), _BATCH):
            some = records[start : start + _BATCH]
            examples += _examples(workload, some, records[-1].target_key, threads, skipped)
    model.update(examples)
    counts = {why: n for why, n in sorted(skipped.items()) if n}
    return Pretraining(len(examples), counts, unreadable)


def records_to_learn(
    database: Database, key: str, target_key: str | None, limit: int | None, newest: int | None
) -> Sequence[Record]:
    """Read records of a workload, oldest first: all, or some that are spread over their age.

    The unscheduled program is left out: no search proposes it.
    """
    if limit is None or newest is None or database.count(key, target_key) <= _FEW * limit:
        records = database.query(workload_key=key, target_key=target_key)
        records = [one for one in records if not one.unscheduled]
        if newest is not None:
            records = [one for one in records if (one.id or 0) <= newest]
        return _spread(records, limit)
    # One at a time, so that a large file is not read as a whole.
    chosen: dict[int | None, Record] = {}
    for number in range(limit):
        found = database.query(key, target_key, limit=1, after=number * newest // limit)
        known = [one for one in found if (one.id or 0) <= newest and not one.unscheduled]
        chosen |= {one.id: one for one in known}
    return list(chosen.values())


def _spread(records: Sequence[Record], limit: int | None) -> Sequence[Record]:
    if limit is None or len(records) <= limit:
        return records
    return [records[number * len(records) // limit] for number in range(limit)]


def _examples(
    workload: Workload,
    records: Sequence[Record],
    target_key: str,
    threads: int,
    skipped: Counter[str],
) -> Iterator[Example]:
    """Yield an example for each record whose program has features."""
    found: dict[int, Features | None] = {}
    made: dict[int, Any] = {}
    for number, record in enumerate(records):
        found[number] = _FEATURES.get((workload.key, record.program_key))
        if found[number] is not None:
            continue
        try:
            made[number] = Trace.from_json(record.trace_json, workload).replay().raw
        except TraceFormatError:
            skipped["unreadable trace"] += 1
        except InvalidTrace:
            skipped["no longer applicable"] += 1
    tables = statement_features([*made.values()], threads)
    for number, features in zip(made, tables, strict=True):
        found[number] = features
        if features is None:
            skipped["no features"] += 1
        elif records[number].program_key:
            _FEATURES[workload.key, records[number].program_key] = features
    while len(_FEATURES) > _MOST_KEPT:
        _FEATURES.popitem(last=False)
    for number, record in enumerate(records):
        features = found[number]
        if features is None:
            continue
        key = workload.key
        if record.target_key != target_key:
            key += f"@{record.target_key}"
        yield Example(features, record.latency if record.ok else None, key, record.trust)
