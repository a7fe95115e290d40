"""The best latency so far, over trials and over seconds."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.database.history import RunHistory
from schedlang.plot.convergence import convergence_chart
from schedlang.plot.seeds import Over
from schedlang.printed import count_text
from schedlang.report.datasets import Datasets
from schedlang.report.numbers import duration_text, latency_text, percent_text
from schedlang.report.views.context import Context
from schedlang.report.views.view import Chart, Table, View, spec_of

_READING = (
    "The line is the best latency so far; the band around it is the 95% confidence interval of "
    "its median, as measured in the search. Grey points are single trials, marks above the chart "
    "are trials that failed. Of an uncertain trial, other work on the machine disturbed the "
    "samples: it may be faster. The roofline is the time that the operations take at the machine's "
    "peak, an upper bound that no program reaches."
)


def convergence_view(context: Context) -> View:
    """Return the view."""
    view = View("convergence", "Best latency so far", reading=_READING)
    history = context.history
    if not context.gains:
        empty = "no trial has a latency" if history.records else "the run has no trials"
        return View(view.key, view.title, empty=empty)
    charts = convergence_charts(
        {history.name: history},
        context.data,
        f"Line chart of the best latency so far over {{over}}. {_finding(context)}",
    )
    rows = [
        [
            f"{gain.row.number:,}" if gain.row.number is not None else "",
            duration_text(gain.row.seconds),
            latency_text(gain.latency) + ("" if gain.row.record.certain else ", uncertain"),
            f"{latency_text(gain.low)} to {latency_text(gain.high)}",
        ]
        for gain in context.gains
    ]
    columns = ("Trial", "Wall time", "Latency in the search", "Confidence interval")
    table = Table("Each new best", columns, rows, (0, 1, 2, 3))
    return View(view.key, view.title, _finding(context), _READING, charts=charts, tables=[table])


def convergence_charts(
    histories: Mapping[str, RunHistory], data: Datasets, label: str
) -> list[Chart]:
    """Return the charts of one or several runs, of which a reader chooses one.

    ``label`` says what they show; ``{over}`` in it stands for trials or seconds.
    """
    both: tuple[Over, Over] = ("trials", "seconds")
    charts = []
    for over in both:
        chart = convergence_chart(histories, over, data)
        said = label.replace("{over}", over)
        charts.append(Chart(f"convergence-{over}", spec_of(chart), said, f"over {over}"))
    return charts


def _finding(context: Context) -> str:
    last, trials = context.gains[-1], max(row.number or 0 for row in context.history.rows)
    text = (
        f"The best latency fell {count_text(len(context.gains), 'time')}, last at trial "
        f"{last.row.number:,} of {trials:,} ({duration_text(last.row.seconds)})."
    )
    half = [gain for gain in context.gains if (gain.row.number or 0) <= trials / 2]
    if trials >= 20 and half:
        gained = half[-1].latency / last.latency - 1
        if gained < 0.005:
            text += " The second half of the trials gained less than 0.5%."
        else:
            text += f" The second half of the trials gained {percent_text(gained, 1)}."
    return text + (f" There is no roofline: {context.limits.why}." if context.limits.why else "")
