"""A network: its tensors, its tasks with their part of the arithmetic, and what is not tuned."""

from __future__ import annotations

from markupsafe import Markup

from schedlang.networks.network import Network
from schedlang.networks.tasks import Task
from schedlang.networks.tensor import Tensor
from schedlang.notebook.markup import bar, card, clipped, code, line, table
from schedlang.printed import count_text

_MOST, _MOST_TENSORS, _MOST_REASONS = 12, 4, 4
_LONGEST_REASON = 300


def html_of(network: Network) -> str:
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
        for task in tasks[:_MOST]
    ]
    parts = [
        _tensors("in", network.inputs),
        _tensors("out", network.outputs),
        line(f"{network.describe_calls()}."),
    ]
    if rows:
        columns = ("operations", "share", "calls", "task")
        parts.append(table(columns, rows, numbers=(0, 2), long=(3,)))
    if rest := tasks[_MOST:]:
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
