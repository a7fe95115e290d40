"""Networks in a notebook: as imported, as tuned, as compiled."""

from __future__ import annotations

import math

from markupsafe import Markup

from schedlang.networks.compiled_network import CompiledNetwork, Summary, TaskSummary
from schedlang.networks.convention import Tensor
from schedlang.networks.network import Network
from schedlang.networks.network_result import NetworkResult, TaskResult
from schedlang.networks.tasks import Task
from schedlang.printed import count_text, duration_text, latency_text, speedup_text
from schedlang.report.cells import bar, card, clipped, code, line, table
from schedlang.report.facts import FactTile
from schedlang.report.result_cells import tiles_html

# -- What ``tune_network`` measured: the latency of all tasks, and where it goes ------------------

_MOST_TASKS_SHOWN = 12
_LONGEST_NOTE = 160


def network_result_html(result: NetworkResult) -> str:
    """Return the sums, and the tasks that take most of the time."""
    tasks = result.by_share()
    largest = max((one.share for one in tasks if one.share > 0), default=1.0)
    rows = [_tuned_row(one, largest) for one in tasks[:_MOST_TASKS_SHOWN]]
    columns = ("best", "share", "calls", "speed-up", "trials", "task")
    parts = [tiles_html(_tiles(result)), table(columns, rows, numbers=(0, 2, 3, 4), long=(5,))]
    if rest := tasks[_MOST_TASKS_SHOWN:]:
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


def _tiles(result: NetworkResult) -> list[FactTile]:
    bound = "" if result.complete else "\N{GREATER-THAN OR EQUAL TO} "
    known = not math.isnan(result.latency)
    measured = f"{len(result.tasks) - result.unmeasured} of {len(result.tasks)}"
    default = sum(one.keeps_default for one in result.tasks)
    return [
        FactTile(
            "Latency",
            f"{bound if known else ''}{latency_text(result.latency)}",
            "of its tensor functions" if known else "no task was measured",
            tone="" if known else "warn",
        ),
        FactTile(
            "Speed-up",
            "\N{EN DASH}" if math.isnan(result.speedup) else speedup_text(result.speedup),
            "over the unscheduled functions",
        ),
        FactTile(
            "Tasks measured",
            measured,
            f"{count_text(default, 'keeps', 'keep')} the default schedule" if default else "",
            tone="warn" if result.unmeasured else "",
        ),
        FactTile("Trials", f"{result.trials:,}"),
        FactTile("Time", duration_text(result.seconds)),
    ]


def _tuned_row(one: TaskResult, largest: float) -> tuple[str, ...]:
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


# -- A network: its tensors, its tasks with their part of the arithmetic, and what is not tuned.

_MOST_TASKS, _MOST_TENSORS, _MOST_REASONS = 12, 4, 4
_LONGEST_REASON = 300


def network_html(network: Network) -> str:
    """Return what ``print(network)`` tells: the tasks with most arithmetic first."""
    tasks = network.by_work()
    largest = network.share(tasks[0]) if tasks else 1.0
    rows = [
        (
            task.describe_work(),
            bar(network.share(task), largest),
            str(task.weight),
            _name(task),
        )
        for task in tasks[:_MOST_TASKS]
    ]
    parts = [
        _tensors("in", network.inputs),
        _tensors("out", network.outputs),
        line(f"{network.describe_calls()}."),
    ]
    if rows:
        columns = ("operations", "share", "calls", "task")
        parts.append(table(columns, rows, numbers=(0, 2), long=(3,)))
    if rest := tasks[_MOST_TASKS:]:
        share = sum(task.weight * task.flops for task in rest) / (network.flops or 1.0)
        said = f"And {count_text(len(rest), 'more task')} with {share:.1%} of the operations:"
        parts.append(line(said, code("print(network)")))
    parts += [
        line(f"not tunable: {clipped(name)}: {clipped(reason, _LONGEST_REASON)}", kind="warn")
        for name, reason in list(network.untunable.items())[:_MOST_REASONS]
    ]
    if (more := len(network.untunable) - _MOST_REASONS) > 0:
        parts.append(line(f"and {count_text(more, 'more function')} that are not tunable"))
    parts.append(line(code('sl.tune_network(network, "cpu")'), "tunes it.", kind="foot"))
    return card(network.name, network.describe_size(), *parts)


def _tensors(way: str, tensors: tuple[Tensor, ...]) -> Markup:
    shown = [clipped(tensor) for tensor in tensors[:_MOST_TENSORS]]
    if len(tensors) > _MOST_TENSORS:
        shown.append(f"{len(tensors) - _MOST_TENSORS} more")
    return line(f"{way}: {'; '.join(shown)}", kind="quiet")


def _name(task: Task) -> str:
    equal = len(task.functions) - 1
    more = f" = {count_text(equal, 'other function')}" if equal else ""
    return f"{clipped(task.name)}{more}"


# -- A compiled network: what runs each of its tasks, and where its time goes ---------------------

_MOST_RUN = 12


def compiled_network_html(compiled: CompiledNetwork) -> str:
    """Return what ``print(compiled)`` tells: the tasks with most time first."""
    summary = compiled.summary
    shares = [share for task in summary if (share := summary.share(task)) > 0]
    rows = [_compiled_row(summary, task, max(shares, default=1.0)) for task in summary[:_MOST_RUN]]
    columns = ("time", "share", "calls", "each", "speed-up", "program", "task")
    parts = [table(columns, rows, numbers=(0, 2, 3, 4), long=(6,))] if rows else []
    if (missing := len(summary) - _MOST_RUN) > 0:
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


def _compiled_row(summary: Summary, task: TaskSummary, largest: float) -> tuple[str, ...]:
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
