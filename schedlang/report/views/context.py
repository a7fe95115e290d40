"""What the views of one report share: tables that several of them need."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from schedlang.database.history import RunHistory
from schedlang.database.outcome import Outcome, outcome_of
from schedlang.database.trials import Gain, gains
from schedlang.plot.convergence import unit_of
from schedlang.plot.style import Unit
from schedlang.plot.tables.decisions import Decisions, Weight, read_decisions, weigh
from schedlang.plot.tables.finals import FinalsTable, finals_table, names_of
from schedlang.plot.tables.machine import MachineLimits, machine_limits
from schedlang.report.datasets import Datasets


@dataclass
class Context:
    """A run, what was computed of it, and the data of its page."""

    history: RunHistory
    data: Datasets = field(default_factory=Datasets)

    @cached_property
    def gains(self) -> list[Gain]:
        """Trials that were faster than all before."""
        return gains(self.history.rows)

    @cached_property
    def unit(self) -> Unit:
        """Of all latencies."""
        return unit_of({self.history.name: self.history.rows})

    @cached_property
    def outcome(self) -> Outcome:
        """How the run ended."""
        return outcome_of(self.history)

    @cached_property
    def limits(self) -> MachineLimits:
        """What the machine allows."""
        return machine_limits(self.history)

    @cached_property
    def decisions(self) -> Decisions:
        """The decisions of all candidates."""
        return read_decisions(self.history.records)

    @cached_property
    def weights(self) -> list[Weight]:
        """What each decision has to do with latency."""
        return weigh(self.decisions, self.history.records)

    @cached_property
    def finals(self) -> FinalsTable:
        """The finals."""
        return finals_table(self.history)

    @cached_property
    def names(self) -> dict[int, str]:
        """What each record is called, by its id."""
        return dict(names_of(self.history))

    def name_of(self, record_id: int | None) -> str:
        """Return what a record is called."""
        known = "a record without a number" if record_id is None else f"record {record_id}"
        return known if record_id is None else self.names.get(record_id, known)
