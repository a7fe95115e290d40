"""The best programs of several runs as a table."""

from __future__ import annotations

from schedlang.report.comparison import Best, Comparison
from schedlang.report.numbers import latency_text, ratio_text, speedup_text
from schedlang.report.views.view import Table

_COLUMNS = ("Run", "Best", "Interval", "To the fastest", "Speed-up", "Verified", "Verdict")


def bests_table(comparison: Comparison) -> Table:
    """Return a row for each run, the fastest first."""
    rows = [_row(best) for best in comparison.bests]
    return Table("Best program of each run", _COLUMNS, rows, (1, 2, 3, 4), open=True)


def _row(best: Best) -> list[str]:
    if best.latency is None or best.interval is None:
        return [best.run, "", "", "", "", "", best.verdict]
    winner = best.outcome.winner
    speedup = best.outcome.speedup
    return [
        best.run,
        latency_text(best.latency),
        f"{latency_text(best.interval.low)} to {latency_text(best.interval.high)}",
        "" if best.ratio is None else ratio_text(best.ratio),
        speedup_text(speedup) if speedup == speedup else "",
        "yes" if winner is not None and winner.verified else "no",
        best.verdict,
    ]
