"""A program on its way to be proposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from schedlang.distributions.base import Decision
from schedlang.language.schedule import Schedule, Trace
from schedlang.search.models.decision_model import site_values
from schedlang.tvm.analysis.statement_features import Features, statement_features
from schedlang.tvm.program import structural_key


class Program:
    """A schedule with its trace applied, and what searches and cost models need of it.

    Everything but ``features`` is computed once, when it is first asked for.

    Attributes
    ----------
    schedule: with the trace applied.
    features: a row for each statement; ``None`` where they were not, or cannot be, extracted.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.features: Features | None = None

    @cached_property
    def key(self) -> str:
        """Structural key of the program."""
        return structural_key(self.schedule.mod)

    @cached_property
    def trace(self) -> Trace:
        """How it is made."""
        return self.schedule.trace

    @cached_property
    def log_prior(self) -> float:
        """log P(tau)."""
        return self.trace.log_prob()

    @cached_property
    def values(self) -> Mapping[str, Decision]:
        """Decisions and numbers of options by site."""
        return site_values(self.trace)


def extract_features(programs: Sequence[Program], threads: int = 1) -> None:
    """Set ``features`` of each program."""
    tables = statement_features([program.schedule.raw for program in programs], threads)
    for program, features in zip(programs, tables, strict=True):
        program.features = features
