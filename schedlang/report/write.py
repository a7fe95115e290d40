"""Write reports: one HTML file that needs nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from schedlang.database.history import RunHistory
from schedlang.plot.sources import history_of
from schedlang.report.facts import environment, facts, tiles
from schedlang.report.page import checked_path, render
from schedlang.report.vega import VegaScript
from schedlang.report.views.context import Context
from schedlang.report.views.convergence import convergence_view
from schedlang.report.views.decisions import decisions_view, packed_decisions
from schedlang.report.views.finals import finals_view
from schedlang.report.views.importance import importance_view
from schedlang.report.views.rejections import rejections_view
from schedlang.report.views.time_line import time_line_view
from schedlang.report.views.trials import trial_data, trials_view
from schedlang.report.views.winner import winner_view

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
