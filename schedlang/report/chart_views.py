"""The views of a report that are charts: the best latency, the workers, the decisions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from schedlang.database.history import RunHistory
from schedlang.measurement.clock import worker_name
from schedlang.measurement.disturbance import RunDisturbance
from schedlang.plot.convergence import Over, convergence_chart
from schedlang.plot.decisions import (
    LIKELY,
    MOST_SITES,
    NO_PAIR,
    TOO_FEW,
    decisions_chart,
    importance_chart,
)
from schedlang.plot.tables import Column, Weight, default_pair, label, shown_values
from schedlang.plot.timeline import ACTIVITIES, TimeLine, time_line, timeline_chart, why_empty
from schedlang.printed import count_text, duration_text, interval_text, latency_text, percent_text
from schedlang.report.facts import Context
from schedlang.report.page import Datasets
from schedlang.report.view import Chart, Table, View, spec_of

# -- The best latency so far, over trials and over seconds ----------------------------------------

_READING_CONVERGENCE = (
    "The line is the best latency so far; the band around it is the 95% confidence interval of "
    "its median, as measured in the search. Grey points are single trials, marks above the chart "
    "are trials that failed. Of an uncertain trial, other work on the machine disturbed the "
    "samples: it may be faster. The roofline is the time that the operations take at the machine's "
    "peak, an upper bound that no program reaches."
)


def convergence_view(context: Context) -> View:
    """Return the view."""
    view = View("convergence", "Best latency so far", reading=_READING_CONVERGENCE)
    history = context.history
    if not context.gains:
        empty = "no trial has a latency" if history.records else "the run has no trials"
        return View(view.key, view.title, empty=empty)
    charts = convergence_charts(
        {history.name: history},
        context.data,
        f"Line chart of the best latency so far over {{over}}. {_convergence_finding(context)}",
    )
    rows = [
        [
            f"{gain.row.number:,}" if gain.row.number is not None else "",
            duration_text(gain.row.seconds),
            latency_text(gain.latency) + ("" if gain.row.record.certain else ", uncertain"),
            interval_text(gain.low, gain.high),
        ]
        for gain in context.gains
    ]
    columns = ("Trial", "Wall time", "Latency in the search", "Confidence interval")
    table = Table("Each new best", columns, rows, (0, 1, 2, 3))
    return View(
        view.key,
        view.title,
        _convergence_finding(context),
        _READING_CONVERGENCE,
        charts=charts,
        tables=[table],
    )


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


def _convergence_finding(context: Context) -> str:
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


# -- What the workers did when --------------------------------------------------------------------

_READING_TIME_LINE = (
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
    finding = _time_line_finding(line, context.outcome.disturbance)
    chart = timeline_chart(line, named, context.data)
    label = f"Time line of the work of {count_text(len(line.workers), 'worker')}. {finding}"
    return View(
        "time",
        title,
        finding,
        _READING_TIME_LINE,
        charts=[Chart("time", spec_of(chart), label)],
        tables=[_workers(line), *([_phases(line)] if line.run_spans else [])],
    )


def _time_line_finding(line: TimeLine, disturbance: RunDisturbance) -> str:
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


# -- Two decisions against each other, with the way of the search ---------------------------------

_READING_DECISIONS = (
    "A cell has the lowest latency of the candidates with its two values; an empty cell was not "
    "measured. The line leads through the candidates that were faster than all before them, to "
    "the star, the fastest of the search. Of a decision with several numbers, such as the sizes "
    "of a tile, each number can be chosen by itself."
)


def decisions_view(context: Context) -> View:
    """Return the view; ``more`` has the decisions of all candidates, for the page's script."""
    title = "Two decisions and the search's path"
    pair = default_pair(context.decisions, context.weights)
    varied = [column for column in context.decisions.columns if column.tried >= 2]
    if pair is None or len(varied) < 2 or not context.gains:
        return View("decisions", title, empty=NO_PAIR)
    chart = decisions_chart(
        context.decisions.column(pair[0]),
        context.decisions.column(pair[1]),
        context.history.rows,
        context.unit,
        context.data,
    )
    known = any(weight.importance for weight in context.weights)
    which = "the two decisions that explain most of the differences in latency"
    return View(
        "decisions",
        title,
        f"At first, {which if known else 'two decisions that were varied'}.",
        _READING_DECISIONS,
        charts=[Chart("decisions", spec_of(chart), f"Heat map of {pair[0]} and {pair[1]}.")],
        more={"names": [column.name for column in varied], "x": pair[0], "y": pair[1]},
    )


def packed_decisions(context: Context) -> dict[str, Any]:
    """Return the decisions of all candidates for the page's script.

    ``sites`` has a name, a module, the texts of the values and, for each candidate, the number of
    its value, -1 without one. ``axes`` has what a heat map can show: a name, the number of its
    site, the labels in order, and the number of the label for each value of the site.
    """
    sites, axes = [], []
    for place, site in enumerate(context.decisions.sites):
        known: dict[Hashable, int] = {}
        at = [-1 if value is None else known.setdefault(value, len(known)) for value in site.values]
        texts = [label(value) for value in known]
        sites.append({"name": site.name, "module": site.module, "of": texts, "at": at})
        for number, column in enumerate(context.decisions.of_site(site.name), -1):
            if column.tried >= 2:
                axes.append(_axis(column, place, known, number))
    best = {id(gain.row) for gain in context.gains}
    path = [place for place, row in enumerate(context.history.rows) if id(row) in best]
    return {"sites": sites, "axes": axes, "path": path}


def _axis(column: Column, site: int, known: dict[Hashable, int], number: int) -> dict[str, Any]:
    labels, named = shown_values(column)
    places = {text: place for place, text in enumerate(labels)}
    values = [
        value[number] if number >= 0 and isinstance(value, tuple) else value for value in known
    ]
    return {
        "name": column.name,
        "site": site,
        "labels": labels,
        "map": [places[named[value]] for value in values],
    }


# -- Which decisions have to do with latency ------------------------------------------------------

_READING_IMPORTANCE = (
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
    finding = _importance_finding(context)
    chart = importance_chart({context.history.name: weights}, context.data)
    label = f"Parts of the differences in latency that decisions explain, with ranges. {finding}"
    columns = ("Decision", "Module", "Values tried", "Explains alone", "Range", "p-value")
    table = Table(
        "All decisions",
        columns,
        [_importance_row(weight) for weight in weights],
        numbers=(2, 3, 4, 5),
    )
    return View(
        "importance",
        title,
        finding,
        _READING_IMPORTANCE,
        charts=[Chart("importance", spec_of(chart), label)],
        tables=[table],
    )


def _importance_finding(context: Context) -> str:
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


def _importance_row(weight: Weight) -> list[str]:
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
