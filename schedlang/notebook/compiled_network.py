"""A compiled network: what runs each of its tasks, and where its time goes."""

from __future__ import annotations

import math

from schedlang.networks.compiled.network import CompiledNetwork
from schedlang.networks.compiled.summary import Summary, TaskSummary
from schedlang.notebook.markup import bar, card, clipped, code, line, table
from schedlang.printed import count_text
from schedlang.report.numbers import latency_text, speedup_text

_MOST = 12


def html_of(compiled: CompiledNetwork) -> str:
    """Return what ``print(compiled)`` tells: the tasks with most time first."""
    summary = compiled.summary
    shares = [share for task in summary if (share := summary.share(task)) > 0]
    rows = [_row(summary, task, max(shares, default=1.0)) for task in summary[:_MOST]]
    columns = ("time", "share", "calls", "each", "speed-up", "program", "task")
    parts = [table(columns, rows, numbers=(0, 2, 3, 4), long=(6,))] if rows else []
    if (missing := len(summary) - _MOST) > 0:
        parts.append(line(f"And {count_text(missing, 'more task')}:", code("print(compiled)")))
    parts += [line(text) for text in summary.totals()]
    parts.append(
        line(
            "Call it like the model;",
            code("compiled.profile()"),
            "times each task inside it.",
            kind="foot",
        )
    )
    return card(compiled.network.name, f"compiled for {compiled.target.key}", *parts)


def _row(summary: Summary, task: TaskSummary, largest: float) -> tuple[str, ...]:
    packed = f" ({task.packed} packed)" if task.packed else ""
    return (
        latency_text(task.total),
        bar(summary.share(task), largest),
        str(task.weight),
        latency_text(task.latency),
        "\N{EN DASH}" if math.isnan(task.speedup) else speedup_text(task.speedup),
        task.origin,
        f"{clipped(task.name)}{packed}",
    )
