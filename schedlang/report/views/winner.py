"""The winner against the runner-up: decisions, traces and programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from schedlang.database.history import RunHistory
from schedlang.database.programs import workload_of
from schedlang.database.record import Record
from schedlang.errors import SchedlangError
from schedlang.language.schedule import Trace
from schedlang.plot.tables.decisions import read_decisions
from schedlang.printed import count_text, first_line
from schedlang.report.numbers import latency_text
from schedlang.report.side_by_side import Part, side_by_side
from schedlang.report.views.context import Context
from schedlang.report.views.view import Table, View

_READING = (
    "What differs is marked. Equal lines between differences are folded. The programs are what "
    "the traces make of the workload, as TVMScript."
)
_MOST_LINES = 3000


@dataclass(frozen=True)
class Comparison:
    """Two texts side by side.

    Attributes
    ----------
    title: what the texts are. parts: their rows. same: whether they are equal.
    why: why they are not shown; empty where they are.
    """

    title: str
    parts: Sequence[Part] = ()
    same: bool = False
    why: str = ""


def winner_view(context: Context) -> View:
    """Return the view; ``more`` has names and comparisons."""
    title = "Winner and runner-up"
    winner, runner_up = context.outcome.winner, context.outcome.runner_up
    if winner is None:
        return View("winner", title, empty="no candidate has a latency")
    if runner_up is None:
        return View("winner", title, empty="no other program has a latency")
    names = (_name(context, winner), _name(context, runner_up))
    decisions = _decisions(winner, runner_up, names)
    traces = _compared("Traces", lambda one: str(_trace(one)), winner, runner_up)
    programs = _compared("Programs", partial(_program, context.history), winner, runner_up)
    return View(
        "winner",
        title,
        _finding(context, names, decisions, programs),
        _READING,
        more={"names": names, "decisions": decisions, "comparisons": [traces, programs]},
    )


def _name(context: Context, record: Record) -> str:
    if record.unscheduled:
        return "unscheduled program"
    return context.name_of(record.id)


def _finding(
    context: Context, names: tuple[str, str], decisions: Table, programs: Comparison
) -> str:
    text = f"{names[0]} ({latency_text(context.outcome.latency)}) against {names[1]}: "
    if programs.same:
        text += "both traces make the same program."
    elif decisions.rows:
        text += f"{count_text(len(decisions.rows), 'decision differs', 'decisions differ')}."
    else:
        text += "no decision differs."
    return text[0].upper() + text[1:]


def _decisions(winner: Record, runner_up: Record, names: tuple[str, str]) -> Table:
    found = read_decisions([winner, runner_up])
    rows = [
        [column.name, *column.labels]
        for column in found.sites
        if column.values[0] != column.values[1]
    ]
    return Table("Decisions that differ", ("Decision", *names), rows)


def _trace(record: Record) -> Trace:
    return Trace.from_json(record.trace_json)


def _program(history: RunHistory, record: Record) -> str:
    """Return the program that a record's trace makes, as TVMScript."""
    text: str = _trace(record).replay(workload_of(history)).mod.script()
    # Tabs take less room than four spaces.
    return re.sub("^(?: {4})+", lambda found: "\t" * (len(found[0]) // 4), text, flags=re.M)


def _compared(
    title: str, text_of: Callable[[Record], str], winner: Record, runner_up: Record
) -> Comparison:
    texts = []
    for record in (winner, runner_up):
        try:
            texts.append(text_of(record).splitlines())
        except SchedlangError as error:
            return Comparison(title, why=f"record {record.id}: {first_line(error)}")
    if max(map(len, texts)) > _MOST_LINES:
        return Comparison(title, why=f"they have more than {_MOST_LINES:,} lines")
    return Comparison(title, side_by_side(*texts), same=texts[0] == texts[1])
