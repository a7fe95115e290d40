"""A tuning run: the numbers that matter, how the best latency fell, and the fastest programs."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.database.outcome import fastest_first
from schedlang.database.record import Record
from schedlang.notebook.curve import curve
from schedlang.notebook.markup import card, clipped, code, line, named, row, table
from schedlang.notebook.tiles import tiles_html
from schedlang.report.facts import tiles
from schedlang.report.numbers import latency_text, ratio_text
from schedlang.report.views.context import Context
from schedlang.tuning.result import TuneResult

_LEADERS = 5
_LONGEST_REASON = 600


def html_of(result: TuneResult) -> str | None:
    """Return what a report begins with; None for a result without history, as ``tune`` makes none.

    The numbers are those of ``schedlang.report.facts``, which come from the run's history.
    """
    if not result.has_history:
        return None
    context = Context(result.history)
    parts = [tiles_html(tiles(context))]
    beside = []
    if context.gains:
        trials = max(one.number or 0 for one in result.history.rows)
        beside.append(named("Best latency in the search", curve(context.gains, trials)))
    if leaders := _leaders(context):
        columns = ("", "program", "latency", "to the best")
        beside.append(named("Fastest programs", table(columns, leaders, numbers=(0, 2, 3))))
    if beside:
        parts.append(row(*beside))
    if finals := result.describe_finals():
        parts.append(line(f"Finals: {clipped(finals, _LONGEST_REASON)}."))
    if not result.has_best:
        why = clipped(result.describe_rejections(), _LONGEST_REASON)
        parts.append(line(f"No best program: {why}.", kind="warn"))
    parts += [
        line(f"{name}: {clipped(text, _LONGEST_REASON)}", kind="warn")
        for name, text in result.remarks.items()
    ]
    parts.append(
        line(
            f"Ended: {clipped(result.finished)}.",
            code('result.report("run.html")'),
            "writes all trials and charts,",
            code("print(result.best.trace)") if result.has_best else code("print(result)"),
            "shows the schedule." if result.has_best else "says more.",
            kind="foot",
        )
    )
    subtitle = f"{result.history.run.search} search on {result.history.run.target_key}"
    return card(result.workload.name, subtitle, *parts)


def _leaders(context: Context) -> list[tuple[str, ...]]:
    """Return the winner and the next programs: place, name, latency, and ratio to the winner."""
    best = context.outcome.latency
    found: list[tuple[str, ...]] = []
    for place, record in zip(range(1, _LEADERS + 1), _ranked(context), strict=False):
        latency = context.history.timing(record).latency
        ratio = "" if place == 1 else ratio_text(latency / best)
        found.append((str(place), context.name_of(record.id), latency_text(latency), ratio))
    return found


def _ranked(context: Context) -> Iterator[Record]:
    """Yield the records that could win, each program once: as finals have them, then the others."""
    history = context.history
    known = {one.id: one for one in (*history.records, history.unscheduled) if one is not None}
    finals = sorted((one for one in history.finals if one.ok), key=lambda one: one.place)
    ranked = [known[one.record_id] for one in finals if one.record_id in known]
    first = [] if context.outcome.winner is None else [context.outcome.winner]
    seen: set[str] = set()
    for record in (*first, *ranked, *fastest_first(history)):
        program = record.program_key or record.trace_json
        if program not in seen:
            seen.add(program)
            yield record
