"""The tasks of several networks, those with one key merged."""

from __future__ import annotations

from collections.abc import Sequence
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
    """

    task: Task
    weights: tuple[int, ...]

    @property
    def operations(self) -> float:
        """Arithmetic operations of all its calls."""
        return sum(self.weights) * self.task.flops


def shared_tasks(networks: Sequence[Network]) -> list[SharedTask]:
    """Return the distinct tasks, those with most arithmetic first."""
    merged: dict[str, tuple[Task, list[int]]] = {}
    for position, network in enumerate(networks):
        for task in network.tasks:
            first, weights = merged.setdefault(task.workload.exact_key, (task, [0] * len(networks)))
            weights[position] += task.weight
    found = [SharedTask(task, tuple(weights)) for task, weights in merged.values()]
    return sorted(found, key=lambda one: -one.operations)
