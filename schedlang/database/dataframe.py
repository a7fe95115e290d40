"""The trials of a run as a data frame."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedlang.database.details import TrialDetails
from schedlang.database.record import Record
from schedlang.errors import MissingExtraError
from schedlang.formats.decisions import stored_decisions
from schedlang.measurement import Status

if TYPE_CHECKING:
    import pandas

_ACTIVITIES = ("build", "run", "verify")
# Whole numbers that some rows lack.
_NULLABLE = ("number", "worker")


def dataframe_of(
    run_id: int | None,
    records: Sequence[Record],
    unscheduled: float,
    trials: Mapping[int, TrialDetails],
    seconds_at: Callable[[float], float],
    finals: Mapping[int, float],
) -> pandas.DataFrame:
    """Return one row for each candidate of a run; see ``RunHistory.to_dataframe``.

    ``unscheduled`` is the latency of that program in seconds, NaN where it is not known; ``finals``
    are latencies in the finals, by the record's id.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError(
            'to_dataframe needs pandas: pip install "schedlang[dataframe]"'
        ) from error
    rows = list(_rows(run_id, records, unscheduled, trials, seconds_at, finals))
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else _NO_ROWS
    decisions = _decisions(records)
    kinds = {name: _kind_of(values) for name, values in decisions.items()}
    frame = pandas.DataFrame(
        {
            **columns,
            # As objects first: a column of numbers with gaps would become one of floats.
            **{name: pandas.Series(values, dtype=object) for name, values in decisions.items()},
            **_texts(records),
        }
    )
    return frame.astype({**dict.fromkeys(_NULLABLE, "Int64"), **kinds})


def _rows(
    run_id: int | None,
    records: Sequence[Record],
    unscheduled: float,
    trials: Mapping[int, TrialDetails],
    seconds_at: Callable[[float], float],
    finals: Mapping[int, float],
) -> Iterator[dict[str, Any]]:
    best, reached, number = math.nan, 0.0, 0
    for record in records:
        reused = record.run_id != run_id
        details = None if record.id is None else trials.get(record.id)
        measured = details.phases[-1].end if details and details.phases else record.created
        # A record that was taken over is older than the run.
        reached = reached if reused else max(reached, seconds_at(measured))
        ran = record.status is not Status.REJECTED
        number += ran
        latency = record.latency if record.ok else math.nan
        if record.ok and not best <= latency:
            best = latency
        yield {
            "number": number if ran else None,
            "seconds": reached,
            "status": str(record.status),
            "latency": latency,
            "finals_latency": math.nan if record.id is None else finals.get(record.id, math.nan),
            "speedup": unscheduled / latency,
            "best": best,
            "verified": record.verified,
            "reused": reused,
            "worker": None if details is None else details.worker,
            **_spent(details),
            "search": record.search,
        }


def _spent(details: TrialDetails | None) -> dict[str, float]:
    """Return the seconds of each activity; NaN where they are not known."""
    seconds = {name: math.nan if details is None else 0.0 for name in _ACTIVITIES}
    for phase in () if details is None else details.phases:
        if phase.activity in seconds:
            seconds[phase.activity] += phase.end - phase.begin
    return {f"{name}_seconds": value for name, value in seconds.items()}


def _decisions(records: Sequence[Record]) -> dict[str, list[Any]]:
    """Return a column for each site; None where a candidate has no decision there."""
    columns: dict[str, list[Any]] = {}
    for place, record in enumerate(records):
        for site, value in stored_decisions(record.trace_json).items():
            if site not in columns:
                columns[site] = [None] * len(records)
            columns[site][place] = value
    return {f"decision:{site}": values for site, values in columns.items()}


def _kind_of(values: list[Any]) -> str:
    """Return the type of a column: whole numbers, of which some may be missing, or anything."""
    return "Int64" if all(one is None or type(one) is int for one in values) else "object"


def _texts(records: Sequence[Record]) -> dict[str, list[Any]]:
    return {
        "message": [record.message for record in records],
        "program_key": [record.program_key for record in records],
        "record": [record.id for record in records],
    }


_NO_ROWS: dict[str, list[Any]] = {
    name: []
    for name in (
        *("number", "seconds", "status", "latency", "finals_latency", "speedup", "best"),
        *("verified", "reused"),
        *("worker", *_spent(None), "search"),
    )
}
