"""All trials as a table."""

from __future__ import annotations

from collections import Counter
from typing import Any

from schedlang.measurement import Status
from schedlang.plot.style import significant
from schedlang.printed import count_text
from schedlang.report.views.context import Context
from schedlang.report.views.view import View

_READING = (
    "Choose a column's title to sort by it. The filter finds text in any column, in messages and "
    "in decisions (tile:C=4). Open a trial to see its decisions and its latency in the finals. "
    "Search is its median latency in the search, which To best compares. A question mark stands "
    "behind an uncertain one: other work on the machine disturbed its samples. Disturbed is the "
    "part of them. Record is the number in the database."
)
_LONGEST_MESSAGE = 400


def trials_view(context: Context) -> View:
    """Return the view; its rows are the page's data ``trials``."""
    title = "All trials"
    if not context.history.rows:
        return View("trials", title, empty="the run has no trials")
    statuses = Counter(row.record.status for row in context.history.rows)
    ok = statuses.pop(Status.OK, 0)
    failed = ", ".join(f"{count:,} {status}" for status, count in statuses.most_common())
    finding = f"{count_text(len(context.history.rows), 'candidate')}: {ok:,} have a latency"
    finding += f"; {failed}." if failed else "."
    reused = sum(row.reused for row in context.history.rows)
    if reused:
        finding += f" {count_text(reused, 'record')} came from other runs."
    return View("trials", title, finding, _READING, more={"statuses": [*statuses, Status.OK]})


def trial_data(context: Context) -> list[dict[str, Any]]:
    """Return a row of data for each candidate."""
    scale = context.unit.scale
    again = {one.record_id: one.latency for one in context.history.finals if one.ok}
    rows = []
    for row in context.history.rows:
        record = row.record
        disturbance = record.disturbance
        finals = None if record.id is None else again.get(record.id)
        rows.append(
            {
                "trial": row.number,
                "record": record.id,
                "status": str(record.status),
                "uncertain": int(not record.certain),
                "latency": None if row.latency is None else significant(row.latency * scale),
                "finals": None if finals is None else significant(finals * scale),
                "samples": len(record.samples) if record.ok else None,
                "disturbed": None if disturbance is None else significant(disturbance.share, 3),
                "low": None if disturbance is None else significant(disturbance.low * scale),
                "verified": int(record.verified),
                "seconds": significant(row.seconds),
                "worker": row.worker,
                "build": _short(row.build),
                "run": _short(row.run),
                "verify": _short(row.verify),
                "search": record.search,
                "reused": int(row.reused),
                "message": record.message[:_LONGEST_MESSAGE],
            }
        )
    return rows


def _short(seconds: float | None) -> float | None:
    return None if seconds is None else significant(seconds, 4)
