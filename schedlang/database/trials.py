"""The trials of a run as rows, and how its best latency fell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schedlang.database.details import TrialDetails
from schedlang.database.record import Record
from schedlang.measurement import Status
from schedlang.measurement.finals import median_interval


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A candidate of a run.

    Attributes
    ----------
    number: of the trial, from 1; None for a candidate that was rejected before it ran.
    seconds: wall time that the run had used when its measurement ended.
    record: its record; latency: median of it in seconds, None where it has none.
    reused: whether another run measured it.
    worker: number of the worker that measured it; None where it is not known.
    build, run, verify: wall seconds of its phases; None where they are not known.
    """

    number: int | None
    seconds: float
    record: Record
    latency: float | None
    reused: bool
    worker: int | None = None
    build: float | None = None
    run: float | None = None
    verify: float | None = None

    @property
    def name(self) -> str:
        """What it is called: ``trial 12``."""
        return "rejected candidate" if self.number is None else f"trial {self.number}"


def trial_rows(
    run_id: int | None,
    records: Sequence[Record],
    trials: Mapping[int, TrialDetails],
    seconds_at: Callable[[float], float],
) -> list[TrialRow]:
    """Return a row for each record of a run, in its order; see ``RunHistory.rows``."""
    rows = []
    ran = 0
    reached = 0.0
    for record in records:
        number = None
        if record.status is not Status.REJECTED:
            ran += 1
            number = ran
        # A record that was taken over is older than the run.
        reused = record.run_id != run_id
        seconds = reached if reused else seconds_at(record.created)
        details = None if record.id is None else trials.get(record.id)
        parts: dict[str, float] = {}
        if details is not None:
            for phase in details.phases:
                parts[phase.activity] = parts.get(phase.activity, 0.0) + (phase.end - phase.begin)
            if details.phases:
                seconds = seconds_at(details.phases[-1].end)
        reached = max(reached, seconds)
        rows.append(
            TrialRow(
                number,
                seconds,
                record,
                record.latency if record.ok else None,
                reused,
                None if details is None else details.worker,
                parts.get("build"),
                parts.get("run"),
                parts.get("verify"),
            )
        )
    return rows


@dataclass(frozen=True, slots=True)
class Gain:
    """A trial that was faster than all before it.

    Attributes
    ----------
    row: the trial.
    latency: its median latency in seconds; low, high: confidence interval of it.
    """

    row: TrialRow
    latency: float
    low: float
    high: float


def gains(rows: Sequence[TrialRow]) -> list[Gain]:
    """Return the trials at which the best latency fell, in order."""
    found: list[Gain] = []
    for row in rows:
        if row.latency is not None and (not found or row.latency < found[-1].latency):
            interval = median_interval(row.record.samples)
            found.append(Gain(row, row.latency, interval.low, interval.high))
    return found
