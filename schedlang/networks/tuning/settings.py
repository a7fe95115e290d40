"""What the runs of all tasks of one call share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.database import Database
from schedlang.measurement import Measurer
from schedlang.measurement.measurer import bind_to_call
from schedlang.measurement.problem import Problem, Verify
from schedlang.search import MakeStrategy, Strategy, make_search
from schedlang.spaces.space import Space
from schedlang.targets import Target
from schedlang.tuning.budget import Budget
from schedlang.tuning.callbacks import Steps
from schedlang.workloads.workload import Workload

# Tasks of a network get some tens of trials each, for which descending at once measured best.
_AUTO = "coordinate_descent"


@dataclass(frozen=True)
class Settings:
    """The arguments of one call of ``tune_network``.

    Attributes
    ----------
    space: of tasks that compute.
    search: name of a search, or what makes one.
    seed: of searches and random inputs.
    batch: maximum number of candidates per ``ask``.
    verify: as given; it is part of a run's identity.
    verified: which records may win: those with compared results, unless False.
    transfer: start searches from what was fast for the task and for similar ones.
    remeasure: ignore what the database holds.
    finals: number of finalists of a task; 0 for no finals.
    stored_in: the database as the user gave it, to be opened again; ``database`` if none was given.
    measurer_identity: of the measurer that was given; None for the target's own.
    measurer: measures; it is bound to one task after the other.
    problem: how a measurer that stays between calls verifies.
    steps: callbacks of all tasks, and rules that end the search of one.
    notes, tags: of the run of each task; None keeps those that it has.
    """

    target: Target
    space: Space
    search: str | MakeStrategy
    seed: int
    batch: int
    verify: Verify
    verified: Verify
    transfer: bool
    remeasure: bool
    finals: int
    database: Database
    stored_in: Database | str | os.PathLike[str]
    budget: Budget
    measurer_identity: object
    measurer: Measurer
    problem: Problem
    steps: Steps
    notes: str | None = None
    tags: Sequence[str] | None = None

    def bind(self, workload: Workload) -> None:
        """Have the measurer measure a task."""
        bind_to_call(self.measurer, workload, self.problem)

    def make_search(self, space: Space, workload: Workload) -> Strategy:
        """Make the search of a task; it does not depend on the number of trials."""
        if callable(self.search):
            made = self.search(space, workload, self.seed)
            if not isinstance(made, Strategy):
                raise ValueError(
                    f"search={self.search!r} made a {type(made).__name__}, not a Strategy"
                )
            return made
        name = _AUTO if self.search == "auto" else self.search
        return make_search(name, space, workload, self.seed)
