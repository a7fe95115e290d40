"""What ``tune_network`` measured: the latency of all tasks, and where it goes."""

from __future__ import annotations

import math

from schedlang.networks.tuning.result import NetworkResult, TaskResult
from schedlang.notebook.markup import bar, card, clipped, code, line, table
from schedlang.notebook.tiles import tiles_html
from schedlang.printed import count_text
from schedlang.report.facts import Tile
from schedlang.report.numbers import duration_text, latency_text, speedup_text

_MOST = 12
_LONGEST_NOTE = 160


def html_of(result: NetworkResult) -> str:
    """Return the sums, and the tasks that take most of the time."""
    tasks = result.by_share()
    largest = max((one.share for one in tasks if one.share > 0), default=1.0)
    rows = [_row(one, largest) for one in tasks[:_MOST]]
    columns = ("best", "share", "calls", "speed-up", "trials", "task")
    parts = [tiles_html(_tiles(result)), table(columns, rows, numbers=(0, 2, 3, 4), long=(5,))]
    if rest := tasks[_MOST:]:
        known = math.fsum(one.share for one in rest if one.share > 0)
        said = f"And {count_text(len(rest), 'more task')} with {known:.1%} of the time:"
        parts.append(line(said, code("print(result)")))
    if (disturbance := result.disturbance).busy:
        parts.append(line(f"machine: busy: {disturbance}", kind="warn"))
    parts.append(
        line(
            f"Ended: {clipped(result.finished)}.",
            code("result.compile()"),
            "makes it callable,",
            code('result.tasks[0].result.report("task.html")'),
            "shows the run of a task.",
            kind="foot",
        )
    )
    names = ", ".join(clipped(network.name) for network in result.networks[:4])
    if len(result.networks) > 4:
        names += f" and {len(result.networks) - 4} more"
    return card(names, f"on {result.target.key}", *parts)


def _tiles(result: NetworkResult) -> list[Tile]:
    bound = "" if result.complete else "\N{GREATER-THAN OR EQUAL TO} "
    known = not math.isnan(result.latency)
    measured = f"{len(result.tasks) - result.unmeasured} of {len(result.tasks)}"
    default = sum(one.keeps_default for one in result.tasks)
    return [
        Tile(
            "Latency",
            f"{bound if known else ''}{latency_text(result.latency)}",
            "of its tensor functions" if known else "no task was measured",
            tone="" if known else "warn",
        ),
        Tile(
            "Speed-up",
            "\N{EN DASH}" if math.isnan(result.speedup) else speedup_text(result.speedup),
            "over the unscheduled functions",
        ),
        Tile(
            "Tasks measured",
            measured,
            f"{count_text(default, 'keeps', 'keep')} the default schedule" if default else "",
            tone="warn" if result.unmeasured else "",
        ),
        Tile("Trials", f"{result.trials:,}"),
        Tile("Time", duration_text(result.seconds)),
    ]


def _row(one: TaskResult, largest: float) -> tuple[str, ...]:
    speedup = "\N{EN DASH}" if math.isnan(one.speedup) else speedup_text(one.speedup)
    note = f" ({clipped(one.note, _LONGEST_NOTE)})" if one.note else ""
    return (
        latency_text(one.latency),
        bar(one.share, largest),
        str(sum(one.weights)),
        speedup,
        f"{one.trials:,}",
        f"{clipped(one.name)}{note}",
    )
