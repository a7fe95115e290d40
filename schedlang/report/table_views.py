"""The views of a report that are tables: finals, winner and runner-up, rejections, all trials."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from schedlang.database.history import RunHistory
from schedlang.database.programs import workload_of
from schedlang.database.record import Record
from schedlang.errors import SchedlangError
from schedlang.language.schedule import Trace
from schedlang.measurement import Status
from schedlang.measurement.finals import is_noise
from schedlang.plot.decisions import rejections_chart, why_no_rejections
from schedlang.plot.finals import comparable, finals_chart, why_no_finals
from schedlang.plot.tables import REST, FinalistRow, read_decisions, reasons_of, rejection_places
from schedlang.printed import (
    count_text,
    first_line,
    interval_text,
    latency_text,
    p_text,
    percent_text,
    significant,
)
from schedlang.report.facts import Context
from schedlang.report.view import Chart, RowGroup, Table, View, side_by_side, spec_of

# -- The finals: who won, and how sure that is ----------------------------------------------------

_READING_FINALS = (
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
        [_finals_row(one) for one in table.finalists],
        (0, 2, 3, 4, 5, 6),
        open=True,
    )
    if not comparable(table):
        tables = [shown] if table.finalists else []
        return View("finals", title, empty=why_no_finals(context.history), tables=tables)
    finding = _finals_finding(context)
    chart = finals_chart(table, context.data)
    label = f"Differences of the finalists to the winner, with intervals. {finding}"
    return View(
        "finals",
        title,
        finding,
        _READING_FINALS,
        charts=[Chart("finals", spec_of(chart), label)],
        tables=[shown],
    )


def _finals_finding(context: Context) -> str:
    winner = context.finals.finalists[0]
    second = next(one for one in context.finals.finalists if one.difference is not None)
    assert second.difference is not None and second.p_value is not None
    noise = percent_text(context.finals.noise or 0.0, 1)
    rule = ""
    if is_noise(second.p_value):
        text = (
            f"{winner.name} won, but cannot be told from {second.name} ({p_text(second.p_value)})"
        )
        if second.difference < 0:
            rule = " In a tie, the program wins that won before or was found first."
    else:
        by = percent_text(abs(second.difference), 1)
        word = "slower" if second.difference >= 0 else "faster"
        text = f"{winner.name} won; {second.name} is {by} {word} ({p_text(second.p_value)})"
    if abs(second.difference) < (context.finals.noise or 0.0) and not is_noise(second.p_value):
        noise += ", more than that: the machine was noisy"
    return f"{text[0].upper()}{text[1:]}.{rule} The noise floor is {noise}."


def _finals_row(one: FinalistRow) -> list[str]:
    place = f"{one.entry.place + 1}"
    if one.latency is None or one.interval is None:
        return [place, one.name, f"failed: {one.entry.status}", "", "", "", ""]
    interval = interval_text(one.interval.low, one.interval.high)
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


# -- The winner against the runner-up: decisions, traces and programs -----------------------------

_READING_WINNER = (
    "What differs is marked. Equal lines between differences are folded. The programs are what "
    "the traces make of the workload, as TVMScript."
)
_MOST_LINES = 3000


@dataclass(frozen=True)
class TextComparison:
    """Two texts side by side.

    Attributes
    ----------
    title: what the texts are. parts: their rows. same: whether they are equal.
    why: why they are not shown; empty where they are.
    """

    title: str
    parts: Sequence[RowGroup] = ()
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
    decisions = _decision_rows(winner, runner_up, names)
    traces = _compared("Traces", lambda one: str(_trace_sides(one)), winner, runner_up)
    programs = _compared("Programs", partial(_program_sides, context.history), winner, runner_up)
    return View(
        "winner",
        title,
        _winner_finding(context, names, decisions, programs),
        _READING_WINNER,
        more={"names": names, "decisions": decisions, "comparisons": [traces, programs]},
    )


def _name(context: Context, record: Record) -> str:
    if record.unscheduled:
        return "unscheduled program"
    return context.name_of(record.id)


def _winner_finding(
    context: Context, names: tuple[str, str], decisions: Table, programs: TextComparison
) -> str:
    text = f"{names[0]} ({latency_text(context.outcome.latency)}) against {names[1]}: "
    if programs.same:
        text += "both traces make the same program."
    elif decisions.rows:
        text += f"{count_text(len(decisions.rows), 'decision differs', 'decisions differ')}."
    else:
        text += "no decision differs."
    return text[0].upper() + text[1:]


def _decision_rows(winner: Record, runner_up: Record, names: tuple[str, str]) -> Table:
    found = read_decisions([winner, runner_up])
    rows = [
        [column.name, *column.labels]
        for column in found.sites
        if column.values[0] != column.values[1]
    ]
    return Table("Decisions that differ", ("Decision", *names), rows)


def _trace_sides(record: Record) -> Trace:
    return Trace.from_json(record.trace_json)


def _program_sides(history: RunHistory, record: Record) -> str:
    """Return the program that a record's trace makes, as TVMScript."""
    text: str = _trace_sides(record).replay(workload_of(history)).mod.script()
    # Tabs take less room than four spaces.
    return re.sub("^(?: {4})+", lambda found: "\t" * (len(found[0]) // 4), text, flags=re.M)


def _compared(
    title: str, text_of: Callable[[Record], str], winner: Record, runner_up: Record
) -> TextComparison:
    texts = []
    for record in (winner, runner_up):
        try:
            texts.append(text_of(record).splitlines())
        except SchedlangError as error:
            return TextComparison(title, why=f"record {record.id}: {first_line(error)}")
    if max(map(len, texts)) > _MOST_LINES:
        return TextComparison(title, why=f"they have more than {_MOST_LINES:,} lines")
    return TextComparison(title, side_by_side(*texts), same=texts[0] == texts[1])


# -- What was rejected or failed, and why ---------------------------------------------------------

_READING_REJECTIONS = (
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
        return View("rejections", title, empty=why_no_rejections(history))
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
        _READING_REJECTIONS,
        charts=[Chart("rejections", spec_of(chart), f"Bars of traces by place. {finding}")],
        tables=[Table("All places and reasons", columns, rows, (4,))],
    )


# -- All trials as a table ------------------------------------------------------------------------

_READING_TRIALS = (
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
    return View(
        "trials", title, finding, _READING_TRIALS, more={"statuses": [*statuses, Status.OK]}
    )


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
