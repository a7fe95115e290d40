"""What the workers did when."""

from __future__ import annotations

from schedlang.measurement.disturbance import RunDisturbance
from schedlang.measurement.phase import worker_name
from schedlang.plot.tables.time_line import ACTIVITIES, TimeLine, time_line
from schedlang.plot.timeline import timeline_chart, why_empty
from schedlang.printed import count_text
from schedlang.report.numbers import duration_text, percent_text
from schedlang.report.views.context import Context
from schedlang.report.views.view import Chart, Table, View, spec_of

_READING = (
    "Above, the share of all workers' time that went into each activity; below, what each worker "
    "did. The workers are started before their first work. Drag over the upper part to choose the "
    "range that is shown below, or drag the range that is marked. Orange is the part of the "
    "samples that other work on the machine disturbed. A gap in the lower part is idle time: the "
    "worker waited for the search, or for the machine, as only one program is timed at a time."
)
_PHASES = {"start": "starting workers", "search": "search and measuring", "finals": "finals"}


def time_line_view(context: Context) -> View:
    """Return the view."""
    title = "Time line of the workers"
    line = time_line(context.history)
    if not line.spans:
        return View("time", title, empty=why_empty(context.history))
    numbers = {row.record.id: row.number for row in context.history.rows}
    named = {key: number for key, number in numbers.items() if key and number}
    finding = _finding(line, context.outcome.disturbance)
    chart = timeline_chart(line, named, context.data)
    label = f"Time line of the work of {count_text(len(line.workers), 'worker')}. {finding}"
    return View(
        "time",
        title,
        finding,
        _READING,
        charts=[Chart("time", spec_of(chart), label)],
        tables=[_workers(line), *([_phases(line)] if line.run_spans else [])],
    )


def _finding(line: TimeLine, disturbance: RunDisturbance) -> str:
    shares = line.shares()
    mean = {
        activity: sum(parts[activity] for parts in shares.values()) / len(shares)
        for activity in (*ACTIVITIES, "idle")
    }
    begin, end = line.window
    parts = ", ".join(f"{percent_text(mean[name])} {name}" for name in ACTIVITIES if mean[name])
    busy = f" The machine was busy: {disturbance}." if disturbance.busy else ""
    return (
        f"{count_text(len(shares), 'worker')}, busy {percent_text(1 - mean['idle'])} of "
        f"{duration_text(end - begin)}: {parts}. Their work began {duration_text(begin)} after the "
        f"start of the run.{busy}"
    )


def _workers(line: TimeLine) -> Table:
    rows = [
        [
            worker_name(worker),
            percent_text(1 - parts["idle"], 1),
            *(percent_text(parts[activity], 1) for activity in (*ACTIVITIES, "idle")),
        ]
        for worker, parts in line.shares().items()
    ]
    columns = ("Worker", "Utilisation", "Build", "Run", "Verify", "Idle")
    return Table("Utilisation of the workers", columns, rows, (1, 2, 3, 4, 5))


def _phases(line: TimeLine) -> Table:
    whole = sum(span.end - span.begin for span in line.run_spans) or 1.0
    rows = [
        [
            _PHASES.get(span.activity, span.activity),
            duration_text(span.begin),
            duration_text(span.end - span.begin),
            percent_text((span.end - span.begin) / whole, 1),
        ]
        for span in line.run_spans
    ]
    return Table("Phases of the run", ("Phase", "Began at", "Took", "Share"), rows, (1, 2, 3))
