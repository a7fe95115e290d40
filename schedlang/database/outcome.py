"""How a run ended or where it stands, and who won: what a database tells besides the records."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedlang.database.history import RunHistory
from schedlang.database.ranking import Timing
from schedlang.database.record import FinalsEntry, Record
from schedlang.database.run import went_on
from schedlang.measurement.disturbance import CoreUse, RunDisturbance
from schedlang.measurement.finals import Interval

NOT_ENDED = "not yet, or it was interrupted"
"""Why a run ended that has not, as far as its database tells."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes
    ----------
    finished: why it ended; empty where it has not, or the database does not say.
    seconds: wall time of all calls together, as the run's phases have it.
    winner: record of the fastest program: the winner of the finals, else the fastest verified
        candidate or the unscheduled program, else the fastest; None where nothing has a latency.
    timing: of the winner; ``latency`` and ``interval`` are NaN and None without one.
    runner_up: record of the second of the finals, else of the next fastest other program.
    reference: latency of the unscheduled program in seconds, NaN where it is not known; it is a
        lower bound where it is not ``complete``.
    reference_run: id of the run that measured the reference, where it is another one.
    space: names of the space's modules; empty where the database does not say.
    disturbance: what other work on the machine did to its samples.
    """

    finished: str
    seconds: float
    winner: Record | None = field(default=None, repr=False)
    timing: Timing | None = field(default=None, repr=False)
    runner_up: Record | None = field(default=None, repr=False)
    reference: float = math.nan
    complete: bool = True
    reference_run: int | None = None
    space: Sequence[str] = ()
    disturbance: RunDisturbance = RunDisturbance()

    @property
    def latency(self) -> float:
        """Median latency of the winner in seconds: of the finals, where they were held."""
        return math.nan if self.timing is None else self.timing.latency

    @property
    def interval(self) -> Interval | None:
        """Confidence interval of that median."""
        return None if self.timing is None else self.timing.interval

    @property
    def speedup(self) -> float:
        """Reference over latency; NaN where one is not known."""
        return self.reference / self.latency


def outcome_of(history: RunHistory) -> Outcome:
    """Return the result of a run, as far as its database tells."""
    stored = _stored(history)
    space = stored.get("space")
    if has_gone_on(history):
        stored = {}
    records = {record.id: record for record in history.records}
    if history.unscheduled is not None:
        records[history.unscheduled.id] = history.unscheduled
    placed = sorted((one for one in history.finals if one.ok), key=lambda one: one.place)
    ranked = [records[one.record_id] for one in placed if one.record_id in records]
    decided = bool(ranked) and not _is_older(placed, history, stored)
    if not decided:
        ranked = _fastest(history, stored)
    reference = stored.get("reference")
    if not isinstance(reference, int | float) or math.isnan(reference):
        reference = history.reference
    seconds = stored.get("seconds")
    said = isinstance(seconds, int | float) and not history.phases
    known = Outcome(
        history.finished,
        float(seconds or 0.0) if said else _used(history),
        reference=float(reference),
        complete=stored.get("complete") is not False,
        reference_run=history.reference_run,
        space=tuple(map(str, space)) if isinstance(space, list) else (),
        disturbance=RunDisturbance.of(
            (record.disturbance for record in history.records), _core_use(stored)
        ),
    )
    if not ranked:
        return known
    winner, *others = ranked
    return replace(
        known,
        winner=winner,
        timing=history.timing(winner) if decided else Timing(winner),
        runner_up=others[0] if others else None,
    )


def has_gone_on(history: RunHistory) -> bool:
    """Whether the run has measured more since the end that its outcome tells of."""
    return went_on(history.run, len(history.records))


def fastest_first(history: RunHistory) -> list[Record]:
    """Return the records that may win, the fastest first; of equal ones the unscheduled program.

    Where results were compared, candidates whose results were not come last.
    """
    unscheduled = () if history.unscheduled is None else (history.unscheduled,)
    compared = any(one.ok and one.verified for one in history.records)
    ok = [one for one in (*unscheduled, *history.records) if one.ok]
    return sorted(ok, key=lambda one: (compared and not one.verified, one.most))


def _core_use(stored: dict[str, Any]) -> CoreUse | None:
    """Return what others used of the cores, as far as the outcome tells."""
    try:
        return CoreUse.from_numbers(stored.get("core_use", ()))
    except (TypeError, ValueError):
        return None


def _stored(history: RunHistory) -> dict[str, Any]:
    try:
        stored = json.loads(history.run.outcome)
    except (ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _is_older(placed: Sequence[FinalsEntry], history: RunHistory, stored: dict[str, Any]) -> bool:
    """Whether the finals are those of an earlier call, and the run has gone on without new ones."""
    winner = stored.get("winner")
    if winner is not None:
        return bool(placed[0].record_id != winner)
    return has_gone_on(history) and any(
        one.created > placed[0].held for one in history.records if one.run_id == history.run.id
    )


def _fastest(history: RunHistory, stored: dict[str, Any]) -> list[Record]:
    """Return the winner that the run named, else the fastest, and the fastest other program."""
    ok = fastest_first(history)
    named = [one for one in ok if one.id is not None and one.id == stored.get("winner")]
    winner = (named or ok)[:1]
    others = [one for one in ok if one not in winner and _program(one) != _program(*winner)]
    return [*winner, *others[:1]]


def _program(record: Record) -> str:
    return record.program_key or record.trace_json


def _used(history: RunHistory) -> float:
    """Return the wall seconds of a run that does not say."""
    moments = [phase.end for phase in history.phases]
    moments += [record.created for record in history.records if record.run_id == history.run.id]
    return history.seconds_at(max(moments)) if moments else 0.0
