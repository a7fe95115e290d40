"""What a task scheduler minimizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from schedlang.errors import SchedlangError
from schedlang.search.tasks.progress import TaskProgress


class ObjectiveError(SchedlangError):
    """An objective gave no usable number."""


class Objective(ABC):
    """A cost of the networks' latencies (Ansor, Table 2).

    Attributes
    ----------
    name: a short name.
    """

    name: str

    @abstractmethod
    def cost(self, progress: Sequence[TaskProgress]) -> float:
        """Return what is minimized; NaN while the latency of a network is unknown."""

    @abstractmethod
    def slopes(self, progress: Sequence[TaskProgress]) -> list[float]:
        """Return the derivative of the cost by each task's latency.

        0 where a lower latency of the task is worth nothing; such a task gets no trials.
        """

    @property
    def settings(self) -> Mapping[str, object]:
        """What tells it from another objective of the same name."""
        return {}
