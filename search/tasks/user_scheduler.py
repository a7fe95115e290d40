"""A scheduler that is an object of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedlang.errors import SchedlangError
from schedlang.search.tasks.progress import TaskProgress
from schedlang.search.tasks.scheduler import TaskScheduler


class UserScheduler:
    """Checks what the ``next`` of an object of the user returns."""

    def __init__(self, scheduler: TaskScheduler) -> None:
        self.scheduler = scheduler
        self.name = str(getattr(scheduler, "name", type(scheduler).__name__))

    def next(self, progress: Sequence[TaskProgress]) -> int | None:
        """Return its choice; SchedlangError if that is no task or one that takes no more trials."""
        chosen = self.scheduler.next(progress)
        if chosen is None:
            return None
        if isinstance(chosen, bool) or not hasattr(chosen, "__index__"):
            raise SchedlangError(
                f"scheduler {self.name!r}: next returned {chosen!r}; return the index of a task, "
                "or None to stop"
            )
        index = chosen.__index__()
        if not 0 <= index < len(progress):
            raise SchedlangError(
                f"scheduler {self.name!r}: next returned {index} for {len(progress)} tasks"
            )
        if not progress[index].open:
            raise SchedlangError(
                f"scheduler {self.name!r}: next returned task {index}, which takes no more trials; "
                "choose one with progress[i].open"
            )
        return index

    @property
    def settings(self) -> Mapping[str, object]:
        """Its own settings, where it has some."""
        return dict(getattr(self.scheduler, "settings", {}))
