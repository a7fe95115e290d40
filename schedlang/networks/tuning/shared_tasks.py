"""The tasks of several networks, those with one key merged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from schedlang.networks.network import Network
from schedlang.networks.tasks import Task


@dataclass(frozen=True)
class SharedTask:
    """A task, and how often each of the networks calls it in one run.

    Attributes
    ----------
    task: as the first network has it that calls it.
    weights: number of calls, one number for each network.
    sizes: of the networks that call it, where all are one model; empty otherwise.
    follows: whether its search begins with what was fast for representatives, of which none calls
        it.
    """

    task: Task
    weights: tuple[int, ...]
    sizes: str = ""
    follows: bool = False

    @property
    def name(self) -> str:
        """The name of the task, with the sizes that it is of."""
        return f"{self.task.name} at {self.sizes}" if self.sizes else self.task.name

    @property
    def operations(self) -> float:
        """Arithmetic operations of all its calls."""
        return sum(self.weights) * self.task.flops


def shared_tasks(
    networks: Sequence[Network],
    sizes: Sequence[str] = (),
    representatives: Collection[int] = (),
) -> list[SharedTask]:
    """Return the distinct tasks, those with most arithmetic first.

    Parameters
    ----------
    networks: that call them.
    sizes: of the networks, where they are one model.
    representatives: places of the networks to tune first; empty where all are alike.
    """
    merged: dict[str, tuple[Task, list[int]]] = {}
    for position, network in enumerate(networks):
        for task in network.tasks:
            first, weights = merged.setdefault(task.workload.exact_key, (task, [0] * len(networks)))
            weights[position] += task.weight
    found = [
        SharedTask(
            task,
            tuple(weights),
            sizes_text(sizes, weights),
            bool(representatives) and not any(weights[place] for place in representatives),
        )
        for task, weights in merged.values()
    ]
    return sorted(found, key=lambda one: -one.operations)


def sizes_text(sizes: Sequence[str], weights: Sequence[float]) -> str:
    """Return the sizes whose networks call a task: one, ``16 and 3 others``, or ``all sizes``."""
    called = [size for size, weight in zip(sizes, weights, strict=False) if weight]
    if len(called) < 2:
        return "".join(called)
    if len(called) == len(sizes):
        return "all sizes"
    return f"{called[0]} and {len(called) - 1} other{'s' if len(called) > 2 else ''}"
