"""The finals: who won, and how sure that is."""

from __future__ import annotations

from schedlang.measurement.finals import CONFIDENCE
from schedlang.plot.finals import comparable, finals_chart, why_empty
from schedlang.plot.tables.finals import Finalist
from schedlang.report.numbers import latency_text, p_text, percent_text
from schedlang.report.views.context import Context
from schedlang.report.views.view import Chart, Table, View, spec_of

_READING = (
    "In the finals the fastest programs are timed again, one sample of each in turn, so that each "
    "round compares them under the same conditions. Small marks are rounds, outliers are drawn at "
    "the edge; the point is the median of the differences to the winner, the line its 95% "
    "confidence interval. Differences "
    "inside the grey band cannot be told from noise. The p-value is that of the two-sided Mann- "
    "Whitney U test: the probability of samples that differ this much if both programs are "
    "equally fast. Programs whose medians are within 1% and that the test cannot tell apart are a "
    "tie. The program that won earlier finals then stays the winner; without one, the program that "
    "was found first wins, so that the same programs give the same winner again."
)


def finals_view(context: Context) -> View:
    """Return the view."""
    title = "Finals"
    table = context.finals
    shown = Table(
        "The finalists",
        ("Place", "Program", "Median", "Confidence interval", "Difference", "Interval", "p-value"),
        [_row(one) for one in table.finalists],
        (0, 2, 3, 4, 5, 6),
        open=True,
    )
    if not comparable(table):
        tables = [shown] if table.finalists else []
        return View("finals", title, empty=why_empty(context.history), tables=tables)
    finding = _finding(context)
    chart = finals_chart(table, context.data)
    label = f"Differences of the finalists to the winner, with intervals. {finding}"
    return View(
        "finals",
        title,
        finding,
        _READING,
        charts=[Chart("finals", spec_of(chart), label)],
        tables=[shown],
    )


def _finding(context: Context) -> str:
    winner = context.finals.finalists[0]
    second = next(one for one in context.finals.finalists if one.difference is not None)
    assert second.difference is not None and second.p_value is not None
    noise = percent_text(context.finals.noise or 0.0, 1)
    rule = ""
    if second.p_value >= 1 - CONFIDENCE:
        text = (
            f"{winner.name} won, but cannot be told from {second.name} ({p_text(second.p_value)})"
        )
        if second.difference < 0:
            rule = " In a tie, the program wins that won before or was found first."
    else:
        by = percent_text(abs(second.difference), 1)
        word = "slower" if second.difference >= 0 else "faster"
        text = f"{winner.name} won; {second.name} is {by} {word} ({p_text(second.p_value)})"
    if abs(second.difference) < (context.finals.noise or 0.0) and second.p_value < 1 - CONFIDENCE:
        noise += ", more than that: the machine was noisy"
    return f"{text[0].upper()}{text[1:]}.{rule} The noise floor is {noise}."


def _row(one: Finalist) -> list[str]:
    place = f"{one.entry.place + 1}"
    if one.latency is None or one.interval is None:
        return [place, one.name, f"failed: {one.entry.status}", "", "", "", ""]
    interval = f"{latency_text(one.interval.low)} to {latency_text(one.interval.high)}"
    around = ""
    if one.low is not None and one.high is not None:
        around = f"{one.low:+.2%} to {one.high:+.2%}"
    return [
        place,
        one.name,
        latency_text(one.latency),
        interval,
        "" if one.difference is None else f"{one.difference:+.2%}",
        around,
        "" if one.p_value is None else f"{one.p_value:.2g}",
    ]
