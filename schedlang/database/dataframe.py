"""The trials of a run as a data frame."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from schedlang.database.record import Record
from schedlang.database.trials import TrialRow
from schedlang.errors import require
from schedlang.formats.decisions import stored_decisions

if TYPE_CHECKING:
    import pandas

_ACTIVITIES = ("build", "run", "verify")
# Whole numbers that some rows lack.
_NULLABLE = ("number", "worker")


def dataframe_of(
    rows: Sequence[TrialRow], unscheduled: float, finals: Mapping[int | None, float]
) -> pandas.DataFrame:
    """Return one row for each candidate of a run; see ``RunHistory.to_dataframe``.

    ``unscheduled`` is the latency of that program in seconds, NaN where it is not known; ``finals``
    are latencies in the finals, by the record's id.
    """
    require("pandas", "to_dataframe", "dataframe")
    import pandas

    records = [row.record for row in rows]
    decisions = _decisions(records)
    kinds = {name: _kind_of(values) for name, values in decisions.items()}
    frame = pandas.DataFrame(
        {
            **_measured(rows, unscheduled, finals),
            # As objects first: a column of numbers with gaps would become one of floats.
            **{name: pandas.Series(values, dtype=object) for name, values in decisions.items()},
            "message": [record.message for record in records],
            "program_key": [record.program_key for record in records],
            "record": [record.id for record in records],
        }
    )
    return frame.astype({**dict.fromkeys(_NULLABLE, "Int64"), **kinds})


def _measured(
    rows: Sequence[TrialRow], unscheduled: float, finals: Mapping[int | None, float]
) -> dict[str, list[Any]]:
    """Return the columns of what was measured; NaN where a latency or a time is not known."""
    latencies = [math.nan if row.latency is None else row.latency for row in rows]
    return {
        "number": [row.number for row in rows],
        "seconds": list(accumulate((row.seconds for row in rows), max)),
        "status": [str(row.record.status) for row in rows],
        "latency": latencies,
        "finals_latency": [finals.get(row.record.id, math.nan) for row in rows],
        "speedup": [unscheduled / latency for latency in latencies],
        "best": list(accumulate(latencies, _lower)),
        "verified": [row.record.verified for row in rows],
        "reused": [row.reused for row in rows],
        "worker": [row.worker for row in rows],
        **{f"{name}_seconds": [_spent(row, name) for row in rows] for name in _ACTIVITIES},
        "search": [row.record.search for row in rows],
    }


def _lower(best: float, latency: float) -> float:
    """Return the lower of two latencies; a NaN only where both are."""
    return latency if math.isnan(best) or latency < best else best


def _spent(row: TrialRow, activity: str) -> float:
    seconds: float | None = getattr(row, activity)
    return math.nan if row.worker is None else seconds or 0.0


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
