"""Results of runs in a notebook: a run, a comparison of runs, an explanation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup

from schedlang.database.history import TrialGain
from schedlang.database.past_runs import fastest_first
from schedlang.database.record import Record
from schedlang.printed import count_text, latency_text, ratio_text
from schedlang.report.cells import bar, card, clipped, code, folded, join, line, named, row, table
from schedlang.report.comparison import BestOfRun, RunComparison, bests_table
from schedlang.report.facts import Context, FactTile, tiles
from schedlang.tuning.explaining import DecisionEffect, Explanation
from schedlang.tuning.result import TuneResult

# -- A tuning run: the numbers that matter, how the best latency fell, and the fastest programs.

_LEADERS = 5
_LONGEST_REASON = 600


def result_html(result: TuneResult) -> str | None:
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


# -- A comparison: the best program of each run, and whether their difference is noise ------------

_MOST_DECISIONS, _MOST_SETTINGS, _MOST_SIDES = 10, 12, 4
_WIDEST_VALUE = 110


def comparison_html(comparison: RunComparison) -> str:
    """Return a row for each run, the fastest first, and the settings that differ."""
    shown = bests_table(comparison)
    title, best, _, ratio, speedup, verified, verdict = range(7)
    ends = _ends(comparison.bests[:_MOST_DECISIONS])
    rows: list[tuple[str, ...]] = [
        (
            clipped(cells[title], 60),
            cells[best],
            cells[ratio],
            _interval(one, ends),
            cells[speedup],
            cells[verified],
            cells[verdict],
        )
        for cells, one in zip(shown.rows[:_MOST_DECISIONS], comparison.bests, strict=False)
    ]
    columns = (
        *("run", "median", "ratio", "95% interval of the median"),
        *("speed-up", "verified", "verdict"),
    )
    parts = [table(columns, rows, numbers=(1, 2, 4), long=(6,))]
    if (missing := len(comparison.bests) - _MOST_DECISIONS) > 0:
        parts.append(line(f"And {count_text(missing, 'more run')}:", code("print(comparison)")))
    if comparison.differences:
        parts.append(_settings(comparison))
    parts.append(
        line(
            code('sl.report.write_comparison(runs, "runs.html")'),
            "shows charts, settings and decisions side by side.",
            kind="foot",
        )
    )
    return card(f"{len(comparison.runs)} runs", comparison.workloads, *parts)


def _settings(comparison: RunComparison) -> Markup:
    """Return the settings that differ between the first runs, folded."""
    found = list(comparison.differences.items())
    names = [clipped(name, 40) for name in comparison.runs][:_MOST_SIDES]
    rows = [
        [name, *(clipped(text, 80) for text in texts[:_MOST_SIDES])]
        for name, texts in found[:_MOST_SETTINGS]
    ]
    shown = table(("setting", *names), rows, long=range(1, len(names) + 1))
    if len(found) > _MOST_SETTINGS or len(comparison.runs) > _MOST_SIDES:
        shown += line("The rest:", code("comparison.differences"))
    return folded(count_text(len(found), "setting differs", "settings differ"), shown)


def _ends(bests: Sequence[BestOfRun]) -> tuple[float, float]:
    """Return the lowest and the highest end of all intervals."""
    found = [end for one in bests for end in one.ratio_interval or ()]
    return min(found, default=1.0), max(found, default=1.0)


def _interval(best: BestOfRun, ends: tuple[float, float]) -> Markup | str:
    """Return the interval of a ratio as a line with its median, and as text."""
    if best.ratio_interval is None or best.ratio is None:
        return ""
    low, high = ends
    scale = (_WIDEST_VALUE - 8) / ((high - low) or 1.0)
    left, middle, right = (
        round(4 + (value - low) * scale, 1)
        for value in (best.ratio_interval[0], best.ratio, best.ratio_interval[1])
    )
    text = f"{ratio_text(best.ratio_interval[0])} to {ratio_text(best.ratio_interval[1])}"
    return Markup(
        '<svg width="{0}" height="12" viewBox="0 0 {0} 12" aria-hidden="true">'
        '<path d="M{1:g} 6H{3:g}" stroke="var(--accent)" stroke-width="2"/>'
        '<circle cx="{2:g}" cy="6" r="3.5" fill="var(--accent)"/></svg>{4}'
    ).format(_WIDEST_VALUE, left, middle, right, text)


# -- An explanation: the decisions that matter, with their effects, limits and doubts -------------

_MOST_EFFECTS = 12
_LONGEST = 600


def explanation_html(explanation: Explanation) -> str:
    """Return the summary, a row for each decision that matters, limits and doubts."""
    matter = [one for one in explanation.decisions if one.matters]
    parts = [line(clipped(explanation.summary, _LONGEST))]
    if matter:
        columns = ("decision", "value", "explains alone", "the best other value takes")
        rows = [
            (clipped(one.site, 60), clipped(repr(one.value), 60), bar(_part(one), 1.0), _other(one))
            for one in matter[:_MOST_EFFECTS]
        ]
        parts.append(table(columns, rows))
    rest = len(explanation.decisions) - min(len(matter), _MOST_EFFECTS)
    if rest:
        parts.append(line(f"{count_text(rest, 'decision')} more: print it.", kind="quiet"))
    for name, sentences in (("Near a limit", explanation.limits), ("Doubt", explanation.doubts)):
        parts += [
            line(f"{name}: {clipped(sentence, _LONGEST)}", kind="warn")
            for sentence in sentences[:_MOST_EFFECTS]
        ]
    of = count_text(explanation.candidates, "candidate")
    return card("Explanation", f"from {of} with a latency", *parts)


def _part(effect: DecisionEffect) -> float:
    return math.nan if effect.importance is None else effect.importance.part


def _other(effect: DecisionEffect) -> str:
    if effect.without is None:
        return "not measured"
    return f"{effect.without:.2f}x the time ({effect.low:.2f} to {effect.high:.2f})"


# -- How the best latency of a run fell, as a small picture ---------------------------------------

_WIDTH, _HEIGHT = 300, 84
_COLUMNS = 150
"""Number of places along the axis: of gains at one place, only the last is drawn."""
_TOP, _BOTTOM = 18, 8
"""Room above the highest and below the lowest point."""

_SHORTEST = 1e-12


def curve(gains: Sequence[TrialGain], trials: int) -> Markup:
    """Return the best latency so far over trials, on a log scale, as SVG.

    Parameters
    ----------
    gains: trials that were faster than all before them, in order; at least one.
    trials: number of all trials of the run.
    """
    points = _thinned(gains, max(trials, 1))
    begin, end = points[0], points[-1]
    steps = [f"H{x:g}V{y:g}" for x, y in points[1:]]
    way = f"M{begin[0]:g} {begin[1]:g}{''.join(steps)}H{_WIDTH}"
    first, last = gains[0], gains[-1]
    label = (
        f"The best latency fell from {latency_text(first.latency)} at {first.row.name} to "
        f"{latency_text(last.latency)} at {last.row.name}, of {trials:,}."
    )
    shapes = [
        Markup('<path d="{}V{}H{:g}Z" fill="var(--soft)"/>').format(way, _HEIGHT, begin[0]),
        Markup('<path d="M0 {0}H{1}" stroke="var(--edge)"/>').format(_HEIGHT, _WIDTH),
        Markup('<path d="{}" fill="none" stroke="var(--accent)" stroke-width="2"/>').format(way),
        Markup('<circle cx="{:g}" cy="{:g}" r="3.2" fill="var(--accent)"/>').format(*end),
        _text(_WIDTH + 6, end[1] + 4, latency_text(last.latency)),
        _text(0, _HEIGHT + 14, "trial 1"),
        _text(_WIDTH, _HEIGHT + 14, f"{trials:,}", end=True),
    ]
    if len(points) > 1:
        shapes.append(_text(begin[0], begin[1] - 6, latency_text(first.latency)))
    return Markup(
        '<svg role="img" aria-label="{0}" width="{1}" height="{2}" viewBox="0 0 {1} {2}">'
        "<title>{0}</title>{3}</svg>"
    ).format(label, _WIDTH + 66, _HEIGHT + 18, join(shapes))


def _thinned(gains: Sequence[TrialGain], trials: int) -> list[tuple[float, float]]:
    """Return the places in the picture of the first gain, and of the last in each column."""
    high, low = _logarithm(gains[0]), _logarithm(gains[-1])
    span = (high - low) or 1.0

    def place(gain: TrialGain) -> tuple[float, float]:
        height = (high - _logarithm(gain)) / span * (_HEIGHT - _TOP - _BOTTOM)
        return round(_column(gain, trials) * _WIDTH / _COLUMNS, 1), round(_TOP + height, 1)

    columns = {_column(gain, trials): gain for gain in gains}
    return [place(gains[0]), *(place(one) for one in columns.values() if one is not gains[0])]


def _column(gain: TrialGain, trials: int) -> int:
    assert gain.row.number is not None  # it has a latency, so it ran
    return _COLUMNS * (gain.row.number - 1) // max(trials - 1, 1)


def _logarithm(gain: TrialGain) -> float:
    # A measurer may round short times to 0.
    return math.log(max(gain.latency, _SHORTEST))


def _text(x: float, y: float, text: str, *, end: bool = False) -> Markup:
    anchor = Markup(' text-anchor="end"') if end else ""
    return Markup('<text x="{:g}" y="{:g}"{} opacity=".75">{}</text>').format(x, y, anchor, text)


# -- The numbers that matter, side by side, as at the top of a report -----------------------------


def tiles_html(tiles: Iterable[FactTile]) -> Markup:
    """Return tiles: what a number is, the number, and what belongs to it."""
    return Markup('<div class="tiles">{}</div>').format(join(map(_tile, tiles)))


def _tile(tile: FactTile) -> Markup:
    return Markup(
        '<div class="tile"><div class="quiet">{}</div><b class="{}">{}</b>'
        '<div class="quiet">{}</div></div>'
    ).format(tile.label, tile.tone, clipped(tile.value), clipped(tile.note))
