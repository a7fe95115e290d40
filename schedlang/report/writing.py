"""Write reports and comparisons: one HTML file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedlang.database.history import RunHistory, TrialRow, gains
from schedlang.plot.convergence import rows_of
from schedlang.plot.finals import bests_chart
from schedlang.plot.sources import Runs, history_of
from schedlang.printed import duration_text, latency_unit
from schedlang.report.chart_views import (
    convergence_charts,
    convergence_view,
    decisions_view,
    importance_view,
    packed_decisions,
    time_line_view,
)
from schedlang.report.comparison import RunComparison, bests_table, compare
from schedlang.report.facts import Context, environment, facts, tiles
from schedlang.report.page import Datasets, VegaScript, checked_path, render
from schedlang.report.table_views import (
    finals_view,
    rejections_view,
    trial_data,
    trials_view,
    winner_view,
)
from schedlang.report.view import Chart, Table, View, spec_of

_VIEWS = (
    convergence_view,
    time_line_view,
    importance_view,
    decisions_view,
    rejections_view,
    finals_view,
    winner_view,
    trials_view,
)


def write(history: RunHistory, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write the report of a run as one HTML file, and return its path.

    The file needs nothing else: its scripts, styles and data are inside, and it loads nothing from
    the network. It works without a server, on paper, and with the keyboard alone.

    Parameters
    ----------
    history: of the run, as ``schedlang.database.history`` returns it; or what ``tune`` returns.
    path: of the file, which is replaced if there is one.
    title: heading; by default the workload's name.

    TypeError for what is no run; FileError where the file cannot be written.
    """
    context, place = Context(history_of(history)), checked_path(path)
    with VegaScript() as vega:
        # Charts show them too, and take the rows that are there.
        context.data("trials", lambda: trial_data(context))
        views = [make(context) for make in _VIEWS]
        data: dict[str, Any] = {
            "datasets": context.data.packed(),
            "decisions": packed_decisions(context),
            "unit": context.unit.name,
        }
        return render(
            "report.html.j2",
            place,
            vega,
            data,
            title or context.history.name,
            views,
            tiles=tiles(context),
            facts=facts(context),
            environment=environment(context),
            tags=context.history.run.tags,
        )


# -- Several runs side by side --------------------------------------------------------------------


def write_comparison(runs: Runs, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write several runs side by side as one HTML file, and return its path.

    It shows whether the best programs are equally fast within the noise, how fast each run found
    its own, and what differs between what was run.

    Parameters
    ----------
    runs: what ``tune`` returns or a ``RunHistory``: several in a list, or in a dict by name.
    path: of the file, which is replaced if there is one.
    title: heading; by default the names of the workloads.

    ValueError for fewer than two runs, TypeError for what is none; FileError where the file
    cannot be written.
    """
    comparison, place = compare(runs), checked_path(path)
    names = dict.fromkeys(history.name for history in comparison.runs.values())
    with VegaScript() as vega:
        data = Datasets()
        views = [
            _bests(comparison, data),
            _convergence(comparison, data),
            _differences(comparison),
            _decisions(comparison),
        ]
        page: dict[str, Any] = {"datasets": data.packed(), "unit": ""}
        heading = title or f"{', '.join(names)}: {len(comparison.runs)} runs"
        return render("comparison.html.j2", place, vega, page, heading, views)


def _bests(comparison: RunComparison, data: Datasets) -> View:
    title = "Best programs"
    samples = {best.run: best.samples for best in comparison.bests if best.samples}
    finding = comparison.summary
    if not samples:
        return View("bests", title, finding, empty="no run has a candidate with a latency")
    unit = latency_unit(best.latency for best in comparison.bests if best.latency)
    chart = bests_chart(samples, unit, data)
    reading = (
        "A small mark is a sample: of the finals where the program took part in them, else of the "
        "search. Outliers are drawn at the edge. The point is their median, the line its 95% "
        "confidence interval. The p-value is that of the two-sided Mann-Whitney U test of the "
        "samples. It knows nothing of what changed on the machine between the runs, so smaller "
        "differences may be the machine's: to be sure, time both programs again in one run."
    )
    label = f"Samples of the best program of each run. {finding}"
    charts = [Chart("bests", spec_of(chart), label)] if comparison.same_workload else []
    return View("bests", title, finding, reading, charts=charts, tables=[bests_table(comparison)])


def _convergence(comparison: RunComparison, data: Datasets) -> View:
    title = "Best latency so far"
    rows = rows_of(comparison.runs)
    if not any(row.latency is not None for of_one in rows.values() for row in of_one):
        return View("convergence", title, empty="no run has a candidate with a latency")
    if not comparison.same_workload:
        return View("convergence", title, empty=comparison.workloads)
    label = "Lines of the best latency of each run over {over}."
    charts = convergence_charts(comparison.runs, data, label)
    found = [f"{name} {_when(of_one)}" for name, of_one in rows.items()]
    finding = f"When each run had its fastest trial: {', '.join(found)}."
    knew = [name for name, history in comparison.runs.items() if history.run.known]
    if knew:
        finding += f" Earlier records were there to start from: {', '.join(knew)}."
    reading = (
        "A line is the best latency of a run so far; the band is the 95% confidence interval of "
        "its median, as measured in the search. A search may start from the fastest programs of "
        "earlier runs; transfer=False makes it start from the space alone."
    )
    return View("convergence", title, finding, reading, charts=charts)


def _differences(comparison: RunComparison) -> View:
    title = "What differs"
    names = list(comparison.runs)
    differing = comparison.differences
    equal = {name: texts for name, texts in comparison.settings.items() if name not in differing}
    tables = [
        Table(
            "What differs",
            ("Setting", *names),
            [[name, *texts] for name, texts in differing.items()],
            open=True,
        ),
        Table(
            "What is equal",
            ("Setting", "All runs"),
            [[name, texts[0]] for name, texts in equal.items() if texts[0]],
        ),
    ]
    finding = f"{len(differing)} settings differ, {len(tables[1].rows)} are equal."
    return View("settings", title, finding, tables=tables)


def _decisions(comparison: RunComparison) -> View:
    title = "Decisions of the winners"
    if not comparison.decisions:
        why = "a run has no winner" if comparison.same_workload else comparison.workloads
        return View("decisions", title, empty=why)
    names = list(comparison.runs)
    differing = [[site, *texts] for site, texts in comparison.differing_decisions.items()]
    count = len(comparison.decisions)
    finding = f"The winners differ in {len(differing)} of {count} decisions."
    tables = (
        [Table("Decisions that differ", ("Decision", *names), differing, open=True)]
        if differing
        else []
    )
    return View("decisions", title, finding, tables=tables)


def _when(rows: Sequence[TrialRow]) -> str:
    best = gains(rows)
    if not best:
        return "never"
    row = best[-1].row
    return "took it over from another run" if row.reused else f"after {duration_text(row.seconds)}"
