"""What was rejected or failed, and why."""

from __future__ import annotations

from schedlang.plot.rejections import rejections_chart, why_empty
from schedlang.plot.tables.rejections import REST, reasons_of, rejection_places
from schedlang.printed import count_text
from schedlang.report.numbers import percent_text
from schedlang.report.views.context import Context
from schedlang.report.views.view import Chart, Table, View, spec_of

_READING = (
    "Traces that did not become candidates, and candidates that failed, by the module and the "
    "instruction or decision that was the cause. Many rejections at one place cost search time: a "
    "module that checks earlier, or a smaller support of the decision, saves it."
)
_MOST_ROWS = 500


def rejections_view(context: Context) -> View:
    """Return the view."""
    title = "Rejections and failures"
    history = context.history
    places = rejection_places(history)
    if not places:
        return View("rejections", title, empty=why_empty(history))
    total = sum(place.count for place in places)
    reason = reasons_of(places)[0]
    of_it = sum(place.reasons.get(reason, 0) for place in places)
    worst = next((place for place in places if place.name != REST), places[0])
    finding = (
        f"{count_text(total, 'trace')} did not become a measured program. "
        f"Most frequent reason: {reason} ({percent_text(of_it / total)}). "
        f"Most frequent place: {worst.name} ({percent_text(worst.count / total)})."
    )
    chart = rejections_chart(places, context.data)
    rows = [
        [one.module, one.instruction, one.block, one.reason, f"{one.count:,}", one.message]
        for one in history.rejections[:_MOST_ROWS]
    ]
    columns = ("Module", "Instruction or decision", "Block", "Reason", "Traces", "One message")
    return View(
        "rejections",
        title,
        finding,
        _READING,
        charts=[Chart("rejections", spec_of(chart), f"Bars of traces by place. {finding}")],
        tables=[Table("All places and reasons", columns, rows, (4,))],
    )
