"""Reading a run as it was: its trials, where their time went, its finals, and how it ended."""

from __future__ import annotations

import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedlang.database.database import Database
from schedlang.database.history import (
    FINALS,
    REJECTIONS,
    TIME_LINE,
    UNSCHEDULED_LATENCY,
    RunHistory,
)
from schedlang.database.opening import opened_database
from schedlang.database.ranking import Timing
from schedlang.database.record import FinalsEntry, Record
from schedlang.database.run import (
    Rejections,
    Run,
    RunDetails,
    beside,
    named_unscheduled,
    told,
    went_on,
    why_finished,
)
from schedlang.errors import DatabaseError
from schedlang.measurement.disturbance import CoreUse, RunDisturbance
from schedlang.measurement.finals import Interval
from schedlang.measurement.measurement import reason_of

# -- Reading a run as it was: its trials in order, where their time went, and its finals ----------

_MOST_NAMED = 20
_NOT_KEPT = (
    "this run was stored by a version of schedlang that did not keep it, or it was imported; runs "
    "of this version keep it"
)
_NOT_YET = (
    "nothing is stored of it: the first batch of the run has not ended, or it was interrupted, or "
    "a version of schedlang stored the run that did not keep it"
)
_NO_LATENCY = "the unscheduled program has no record: it was not measured to the end"


def history(database: Database | str | os.PathLike[str], run_id: int | None = None) -> RunHistory:
    """Return what a database holds of one run, by default of the newest; a path is only read.

    ``run_id`` is the id of one of ``runs()``. DatabaseError where there is no such run, and for a
    file that cannot be read.
    """
    if not isinstance(database, Database | str | os.PathLike):
        raise TypeError(f"a run is read from a database or its path, not {type(database).__name__}")
    with opened_database(database, read_only=True) as opened:
        if run_id is not None and type(run_id) is not int:
            raise TypeError(f"run_id={run_id!r}; give the id of a run, a whole number")
        run = _chosen(opened, run_id)
        assert run.id is not None
        own = opened.query(run_id=run.id)
        order = told(run)
        known = {one.id: one for one in own}
        known |= {one.id: one for one in opened.get(set(order) - known.keys())}
        listed = set(order)
        records = [known[number] for number in order if number in known]
        records += [one for one in own if one.id not in listed and not one.unscheduled]
        entries = opened.finals(run.workload_key, run.target_key, run.toolchain_key)
        return as_history(
            run,
            _name_of(opened, run, own),
            records,
            _unscheduled_of(opened, run, own),
            details_of(opened, run, records),
            entries,
            why_finished(run, len(records)),
            opened.get_workload(run.workload_key) or "",
        )


def details_of(database: Database, run: Run, records: Sequence[Record]) -> RunDetails:
    """Return the details of a run that has these records.

    With those of other runs that measured some of them after it began: they searched beside it.
    """
    assert run.id is not None
    found = database.details(run.id)
    ids = {one.id for one in records}
    others = {one.run_id for one in records if one.created >= run.created} - {run.id, None}
    for number in sorted(others, key=str):
        other = database.details(number or 0)
        trials = tuple(one for one in other.trials if one.record_id in ids)
        found = found.updated(replace(other, trials=trials))
    return found


def as_history(
    run: Run,
    name: str,
    records: Sequence[Record],
    unscheduled: Record | None,
    details: RunDetails,
    entries: Iterable[FinalsEntry],
    finished: str,
    program: str,
) -> RunHistory:
    """Put a run's history together.

    ``records`` are of its candidates, in order; ``entries`` may hold those of other finals too.
    ``finished`` says why the run ended; ``program`` is TVM's JSON text.
    """
    finals = _newest_finals(records, unscheduled, details, entries)
    nothing = "" if details.phases else _NOT_KEPT if finished else _NOT_YET
    lost = nothing if finished else ""
    lacks = {
        TIME_LINE: "" if details.trials else nothing or _why_no_time_line(run, records),
        REJECTIONS: nothing,
        FINALS: "" if finals else lost or _why_no_finals(finished),
        UNSCHEDULED_LATENCY: "" if unscheduled is not None else lost or _NO_LATENCY,
    }
    return RunHistory(
        run,
        name,
        records,
        unscheduled,
        {trial.record_id: trial for trial in details.trials},
        _all_rejections(records, details),
        details.phases,
        finals,
        finished,
        {what: why for what, why in lacks.items() if why},
        program,
    )


def _age(run: Run) -> tuple[float, int]:
    return run.created, run.id or 0


def _chosen(database: Database, run_id: int | None) -> Run:
    runs = {run.id: run for run in database.runs()}
    name = "the database" if database.path is None else f"database {database.path}"
    if not runs:
        raise DatabaseError(
            f"{name} holds no run: records that were imported or saved belong to none; tune with "
            "database= to store one"
        )
    if run_id is None:
        newest = max(runs.values(), key=_age)
        # Runs that were saved have no identity, and no run is beside them.
        first = beside(newest)
        asked = [run for run in runs.values() if first and run.identity == first]
        return max(asked, key=_age, default=newest)
    if run_id not in runs:
        ids = [str(number) for number in runs]
        some = ", ".join(ids[-_MOST_NAMED:])
        more = "" if len(ids) <= _MOST_NAMED else f" and {len(ids) - _MOST_NAMED} older ones"
        raise DatabaseError(f"{name} holds no run {run_id}; it has {some}{more}")
    return runs[run_id]


def _name_of(database: Database, run: Run, own: Sequence[Record]) -> str:
    """Return the name that the run gave its workload; another run may have named it otherwise."""
    if own:
        return own[0].workload_name
    names = dict(database.workloads())
    return names.get(run.workload_key, run.workload_key)


def _unscheduled_of(database: Database, run: Run, own: Sequence[Record]) -> Record | None:
    """Return the record of the unscheduled program: the run's own, or that which it took over."""
    number = named_unscheduled(run)
    if number is not None and (found := database.get([number])):
        return found[0]
    if mine := [one for one in own if one.unscheduled]:
        return mine[-1]
    keys = (run.workload_key, run.target_key, run.toolchain_key)
    equal = database.query(*keys, program_key=run.workload_key)
    return next((one for one in equal if one.unscheduled and one.ok), None)


def _newest_finals(
    records: Sequence[Record],
    unscheduled: Record | None,
    details: RunDetails,
    entries: Iterable[FinalsEntry],
) -> tuple[FinalsEntry, ...]:
    """Return the entries of the newest finals that the run held.

    Entries name records, which other runs may have taken over into finals of their own.
    """
    own = {one.id for one in (*records, *([] if unscheduled is None else [unscheduled]))}
    by_time: dict[float, list[FinalsEntry]] = defaultdict(list)
    for entry in entries:
        by_time[entry.held].append(entry)
    spans = [(one.begin, one.end) for one in details.phases if one.activity == "finals"]
    held = [
        moment
        for moment, found in by_time.items()
        if all(entry.record_id in own for entry in found)
        and (not details.phases or any(begin <= moment <= end for begin, end in spans))
    ]
    return tuple(sorted(by_time[max(held)], key=lambda one: one.place)) if held else ()


def _all_rejections(records: Iterable[Record], details: RunDetails) -> tuple[Rejections, ...]:
    """Return what was refused before it became a candidate, and the candidates that failed.

    Where some of those are known by their place, the others of the same reason have none.
    """
    failed: Counter[str] = Counter()
    messages: dict[str, str] = {}
    for record in records:
        if not record.ok:
            reason = reason_of(record.status, record.message)
            failed[reason] += 1
            messages[reason] = record.message
    found = {one.place: one for one in details.rejections}
    for one in details.rejections:
        if one.reason in failed:
            failed[one.reason] -= one.count
    for reason, count in failed.items():
        if count > 0:
            one = Rejections("", "", "", reason, count, messages[reason])
            found[one.place] = one
    return tuple(sorted(found.values(), key=lambda one: (-one.count, one.place)))


def _why_no_time_line(run: Run, records: Sequence[Record]) -> str:
    if not records:
        return "no candidate was measured"
    if not any(record.run_id == run.id for record in records):
        return "the run measured nothing itself: its records are of other runs"
    return "the measurer does not tell when its workers built and ran candidates"


def _why_no_finals(finished: str) -> str:
    if not finished:
        return "the run was interrupted before its finals, or it is still in progress"
    return (
        "no finals were held: finals=0 was given, no program worked, or the time was over; the run "
        f"ended: {finished}"
    )


# -- How a run ended or where it stands, and who won ----------------------------------------------

NOT_ENDED = "not yet, or it was interrupted"
"""Why a run ended that has not, as far as its database tells."""


@dataclass(frozen=True)
class RunOutcome:
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


def outcome_of(history: RunHistory) -> RunOutcome:
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
    known = RunOutcome(
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
