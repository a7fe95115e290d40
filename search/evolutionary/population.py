"""Programs on their way to be proposed: made in threads, with what the cost models see of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from schedlang.errors import InstructionError, InvalidTrace
from schedlang.language.schedule import Schedule, Trace
from schedlang.search.evolutionary.crossover import Child
from schedlang.search.evolutionary.metropolis import Move
from schedlang.search.models.decision_model import site_values
from schedlang.search.proposals import Ledger
from schedlang.spaces.mutation import revise
from schedlang.spaces.space import Space
from schedlang.tvm.analysis.features import Features, statement_features
from schedlang.tvm.program import structural_key

Failure = InvalidTrace | InstructionError


@dataclass(frozen=True, eq=False)
class Individual:
    """A program, and what the cost models see of it.

    Attributes
    ----------
    schedule: with the trace applied.
    key: structural key of the program.
    features: a row for each statement; None where they cannot be extracted.
    """

    schedule: Schedule = field(repr=False)
    key: str
    features: Features | None = field(repr=False)

    @cached_property
    def trace(self) -> Trace:
        """How it is made."""
        return self.schedule.trace

    @cached_property
    def log_prior(self) -> float:
        """log P(tau)."""
        return self.trace.log_prob()

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """Decisions and numbers of options by site."""
        return site_values(self.trace)


class Nursery:
    """Makes individuals, several at a time; the same programs get the same features, once.

    Parameters
    ----------
    threads: TVM's work is done outside Python's lock.

    Attributes
    ----------
    seconds: wall time of ``replay`` (making programs) and ``features``.
    """

    def __init__(self, space: Space, ledger: Ledger, threads: int) -> None:
        self._space = space
        self._ledger = ledger
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "schedlang-search") if threads > 1 else None
        self._features: dict[str, Features | None] = {}
        self.seconds = {"replay": 0.0, "features": 0.0}

    def draw(self, seeds: Sequence[int]) -> list[Individual | None]:
        """One draw from the prior a seed; None, and a rejection, where it gave no program."""
        return self._make(lambda seed: self._space.sample(self._ledger.workload, seed=seed), seeds)

    def move(self, moves: Sequence[Move]) -> list[Individual | None]:
        """What each trace becomes with a step's decisions; None where that is no program."""

        def revised(move: Move) -> Schedule:
            trace, step, seed = move
            space = self._space if step.jump else None
            return revise(trace, step.wanted, random.Random(seed), space=space)

        return self._make(revised, moves)

    def cross(self, children: Sequence[Child]) -> list[Individual | None]:
        """Traces with the decisions of another; those that do not fit are repaired."""
        return self._make(
            lambda child: child.parent.with_decisions(child.taken).replay(misfit="repair"), children
        )

    def replay(self, traces: Iterable[Trace]) -> list[Individual | None]:
        """The same programs again."""
        return self._make(lambda trace: trace.replay(), list(traces))

    def _make(
        self, function: Callable[[Any], Schedule], items: Sequence[Any]
    ) -> list[Individual | None]:
        started = time.perf_counter()

        def attempt(item: Any) -> tuple[Schedule, str] | Failure:
            try:
                schedule = function(item)
            except (InvalidTrace, InstructionError) as error:
                return error
            return schedule, structural_key(schedule.mod)

        made = list(map(attempt, items) if self._pool is None else self._pool.map(attempt, items))
        self.seconds["replay"] += time.perf_counter() - started
        self._extract(entry for entry in made if isinstance(entry, tuple))
        individuals: list[Individual | None] = []
        for entry in made:
            if isinstance(entry, tuple):
                schedule, key = entry
                individuals.append(Individual(schedule, key, self._features[key]))
            else:
                self._ledger.refuse(entry)
                individuals.append(None)
        return individuals

    def _extract(self, made: Iterable[tuple[Schedule, str]]) -> None:
        started = time.perf_counter()
        new = {key: schedule.raw for schedule, key in made if key not in self._features}
        features = statement_features(list(new.values()), self._threads)
        self._features.update(zip(new, features, strict=True))
        self.seconds["features"] += time.perf_counter() - started
