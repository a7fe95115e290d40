"""What the runs of all tasks of a session share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.database import Database
from schedlang.measurement.problem import Verify
from schedlang.targets import Target
from schedlang.tuning.budget import Budget
from schedlang.tuning.callbacks import Steps
from schedlang.tuning.options import Option
from schedlang.tuning.session.measuring import Measuring


@dataclass(frozen=True)
class Settings:
    """The arguments of one call of ``tune`` or ``tune_network``.

    Attributes
    ----------
    options: what the call takes, and which of it identifies a run.
    target: the machine.
    seed: of searches and random inputs.
    batch: maximum number of candidates per ``ask``.
    verify: as given; it is part of a run's identity.
    transfer: start searches from what was fast for the task and for similar ones.
    remeasure: ignore what the database holds.
    finals: number of finalists of a task; 0 for no finals.
    database: where records go.
    journaled: whether runs are written there too, so that the same call continues them.
    budget: wall time of the call.
    measuring: measures one task after the other.
    steps: callbacks of all tasks, and rules that end the search of one.
    notes, tags: of the run of each task; None keeps those that it has.
    """

    options: tuple[Option, ...]
    target: Target
    seed: int
    batch: int
    verify: Verify
    transfer: bool
    remeasure: bool
    finals: int
    database: Database
    journaled: bool
    budget: Budget
    measuring: Measuring
    steps: Steps
    notes: str | None = None
    tags: Sequence[str] | None = None
