"""The decisions and latencies of a run's candidates, as columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.database import Record
from schedlang.errors import SchedlangError
from schedlang.language.schedule import Trace
from schedlang.workloads.workload import Workload

MOST_TRACES = 2000
"""Number of candidates that are read at most, evenly spread over the run: reading takes time."""


@dataclass(frozen=True)
class Table:
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


def table_of(records: Iterable[Record], workload: Workload, winner: Record) -> Table:
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
    return Table(kept, decisions)
