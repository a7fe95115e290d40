"""Which decisions have to do with latency."""

from __future__ import annotations

from schedlang.plot.importance import LIKELY, MOST_SITES, TOO_FEW, importance_chart
from schedlang.plot.tables.decisions import Weight
from schedlang.printed import count_text
from schedlang.report.numbers import percent_text
from schedlang.report.views.context import Context
from schedlang.report.views.view import Chart, Table, View, spec_of

_READING = (
    "A point is the part of the differences in (the logarithm of) latency that a decision "
    "explains by itself; the bar is its range in 9 of 10 random halves of the candidates. "
    "Decisions that may have to do with latency by chance only (p > 0.05) are grey. Decisions "
    "that the search changed together explain the same differences, so the parts do not add up to "
    "100%."
)


def importance_view(context: Context) -> View:
    """Return the view."""
    title = "Importance of decisions"
    weights = context.weights
    if not any(weight.importance for weight in weights):
        return View("importance", title, empty=TOO_FEW)
    finding = _finding(context)
    chart = importance_chart({context.history.name: weights}, context.data)
    label = f"Parts of the differences in latency that decisions explain, with ranges. {finding}"
    columns = ("Decision", "Module", "Values tried", "Explains alone", "Range", "p-value")
    table = Table(
        "All decisions", columns, [_row(weight) for weight in weights], numbers=(2, 3, 4, 5)
    )
    return View(
        "importance",
        title,
        finding,
        _READING,
        charts=[Chart("importance", spec_of(chart), label)],
        tables=[table],
    )


def _finding(context: Context) -> str:
    first = context.weights[0]
    assert first.importance is not None
    part, low, high, _ = first.importance
    likely = [
        weight
        for weight in context.weights
        if weight.importance is not None and weight.importance.p_value <= LIKELY
    ]
    # As many as the chart has rows, but for its limit; the others explain nothing by themselves.
    weighed = sum(weight.importance is not None for weight in context.weights)
    others = len(context.weights) - weighed
    text = (
        f"{first.column.name} explains most: {percent_text(part)} of the differences "
        f"({percent_text(low)} to {percent_text(high)}). "
        f"{len(likely)} of {count_text(weighed, 'decision')} explain more than chance would"
    )
    if weighed > MOST_SITES:
        text += f"; the chart has the first {MOST_SITES}"
    if others:
        text += f"; {count_text(others, 'other was', 'others were')} not varied, or too seldom"
    return f"{text}."


def _row(weight: Weight) -> list[str]:
    found = weight.importance
    names = [weight.column.name, weight.column.module, f"{weight.tried:,}"]
    if found is None:
        return [*names, "", "not varied" if weight.tried < 2 else "too few candidates", ""]
    return [
        *names,
        percent_text(found.part, 1),
        f"{percent_text(found.low, 1)} to {percent_text(found.high, 1)}",
        f"{found.p_value:.2g}",
    ]
