"""The finals of a run: how each program compares with the winner, round by round."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlang.database.history import RunHistory
from schedlang.database.record import FinalsEntry
from schedlang.measurement.finals import Interval, mann_whitney, median_interval


@dataclass(frozen=True, slots=True)
class Finalist:
    """A program of the finals.

    Attributes
    ----------
    name: ``trial 12``, ``unscheduled``, or ``record 7`` where the record is not of this run.
    entry: its entry.
    latency: median of its samples in seconds; None where it failed. interval: of the median.
    differences: of each round, its sample over the winner's, minus 1; where some of them do not
        count, as other work disturbed them, each sample over the winner's median. Empty for the
        winner.
    difference: median of them, with the confidence interval of it; None without any.
    p_value: probability of samples that differ this much if it is as fast as the winner (two-sided
        Mann-Whitney U test, which the finals use too); None for the winner.
    """

    name: str
    entry: FinalsEntry
    latency: float | None = None
    interval: Interval | None = None
    differences: Sequence[float] = ()
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class FinalsTable:
    """The finals.

    Attributes
    ----------
    finalists: the winner first.
    noise: half the width of the confidence interval of the winner's median, over the median:
        smaller differences cannot be told from noise. None without a winner.
    """

    finalists: Sequence[Finalist] = ()
    noise: float | None = None


def names_of(history: RunHistory) -> Mapping[int, str]:
    """Return what each record is called, by its id."""
    names = {row.record.id: row.name for row in history.rows if row.record.id is not None}
    if history.unscheduled is not None and history.unscheduled.id is not None:
        names[history.unscheduled.id] = "unscheduled"
    return names


def finals_table(history: RunHistory) -> FinalsTable:
    """Compare the programs of the newest finals with their winner."""
    names = names_of(history)
    entries = sorted(history.finals, key=lambda entry: entry.place)
    winner = next((entry for entry in entries if entry.ok), None)
    if winner is None:
        unknown = [Finalist(_name(names, entry), entry) for entry in entries]
        return FinalsTable(unknown)
    finalists = [_finalist(_name(names, entry), entry, winner) for entry in entries]
    interval = median_interval(winner.samples)
    noise = (interval.high - interval.low) / 2 / winner.latency
    return FinalsTable(finalists, noise)


def _name(names: Mapping[int, str], entry: FinalsEntry) -> str:
    return names.get(entry.record_id, f"record {entry.record_id}")


def _finalist(name: str, entry: FinalsEntry, winner: FinalsEntry) -> Finalist:
    if not entry.ok:
        return Finalist(name, entry)
    latency, interval = entry.latency, median_interval(entry.samples)
    if entry is winner:
        return Finalist(name, entry, latency, interval)
    p_value = mann_whitney(entry.samples, winner.samples)
    beside: Sequence[float] = winner.samples
    if len(entry.samples) != len(winner.samples):
        beside = [winner.latency] * len(entry.samples)
    differences = [one / other - 1 for one, other in zip(entry.samples, beside, strict=True)]
    around = median_interval(differences)
    return Finalist(
        name,
        entry,
        latency,
        interval,
        differences,
        statistics.median(differences),
        around.low,
        around.high,
        p_value,
    )
