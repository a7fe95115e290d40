"""What a compiled network runs: one line for each task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args, overload

from schedlang.networks.compiled.function_programs import Origin
from schedlang.networks.tasks import Total, latency_text

# A call that takes this many times what its tasks add up to is said to be slower.
_SLOWER = 1.15


@dataclass(frozen=True)
class TaskSummary:
    """How a network runs one of its tasks.

    Attributes
    ----------
    name: of the function; it lists the operators that are fused in it.
    functions: names in ``Network.mod`` of all functions of the task.
    weight: number of calls. Those of a plain reshape cost nothing and do not count.
    origin: ``"tuned"``, by a record of the database; ``"carried"``, by the schedule of a record of
        other shapes, and ``"default"``, by one of the space, neither of which was measured;
        ``"hasty"``, by one that there was no time to choose; ``"unscheduled"``, where the record
        says that nothing is faster, or where there is neither.
    latency: of one call in seconds, as the record or ``profile`` says; NaN without.
    unscheduled_latency: of the unscheduled function, in seconds; NaN where it was not measured.
    record: id of the record in the database; None without one.
    packed: number of its weights' layouts that are computed when the network is compiled.
    """

    name: str
    functions: tuple[str, ...]
    weight: int
    origin: Origin
    latency: float
    unscheduled_latency: float
    record: int | None
    packed: int

    @property
    def total(self) -> float:
        """Seconds of all calls; 0 without calls, NaN where the latency is not known."""
        return self.weight * self.latency if self.weight else 0.0

    @property
    def speedup(self) -> float:
        """Latency of the unscheduled function over that of this one; NaN where not known."""
        return self.unscheduled_latency / self.latency


@dataclass(frozen=True)
class Summary(Sequence[TaskSummary]):
    """The tasks of a compiled network, those with the largest part of its time first.

    Attributes
    ----------
    tasks: in that order.
    measured: where their latencies are from.
    call: seconds of a call of the whole network; NaN where it was not timed.
    """

    tasks: tuple[TaskSummary, ...]
    measured: str
    call: float = math.nan

    @property
    def known(self) -> Total:
        """The time of all tasks, as far as it is known."""
        return Total.of(task.total for task in self.tasks)

    @property
    def latency(self) -> float:
        """Seconds of all tasks together, as far as their latency is known; NaN where none is."""
        return self.known.seconds

    @property
    def complete(self) -> bool:
        """Whether the latency of every task is known."""
        return self.known.complete

    def share(self, task: TaskSummary) -> float:
        """Return the part of ``latency`` that a task has, from 0 to 1; NaN where not known."""
        return self.known.share(task.total)

    @overload
    def __getitem__(self, place: int) -> TaskSummary: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[TaskSummary]: ...
    def __getitem__(self, place: int | slice) -> TaskSummary | Sequence[TaskSummary]:
        return self.tasks[place]

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[TaskSummary]:
        return iter(self.tasks)

    def with_latencies(self, latencies: dict[str, float], measured: str) -> Summary:
        """Return a summary with other latencies of one call, in seconds, by the task's name."""
        timed = [replace(task, latency=latencies.get(task.name, math.nan)) for task in self.tasks]
        return Summary(ordered(timed), measured, self.call)

    @property
    def slowdown(self) -> float:
        """Seconds of a call over those of its tasks; NaN where either is not known."""
        return self.call / self.latency if self.complete and self.latency else math.nan

    def __str__(self) -> str:
        head = ("share", "time", "calls", "each", "speed-up", "record", "program", "function")
        rows = [head, *(self._row(task) for task in self.tasks)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 2)]
        lines = []
        for row in rows:
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  ".join([*cells, row[-2].ljust(11), row[-1]]))
        lines += self.totals()
        return "\n".join(line.rstrip() for line in lines)

    def totals(self) -> list[str]:
        """Return the time of all calls, what the tasks run, and the time of a call, as lines."""
        calls = f"{sum(task.weight for task in self.tasks)} calls"
        said = f"{calls}, none of them measured"
        if not math.isnan(self.latency):
            said = f"{self.known} for {calls}, {self.measured}"
        counts = [
            f"{sum(task.origin == origin for task in self.tasks)} {origin}"
            for origin in get_args(Origin)
            if any(task.origin == origin for task in self.tasks)
        ]
        lines = [f"{said}; tasks: {', '.join(counts) or 'none'}"]
        if not math.isnan(self.call):
            lines.append(f"one call takes {latency_text(self.call)}{self._why_slower()}")
        return lines

    def _why_slower(self) -> str:
        if not self.slowdown >= _SLOWER:
            return ""
        return (
            f", {self.slowdown:.3g}x what its functions add up to: alone they found their data in "
            "the caches, and the steps between them take time; profile() times each in its place"
        )

    def _row(self, task: TaskSummary) -> tuple[str, ...]:
        share, speedup = self.share(task), task.speedup
        return (
            "-" if math.isnan(share) else f"{share:.1%}",
            latency_text(task.total),
            str(task.weight),
            latency_text(task.latency),
            "-" if math.isnan(speedup) else f"{speedup:.1f}x",
            "-" if task.record is None else str(task.record),
            task.origin,
            task.name + (f" ({task.packed} packed)" if task.packed else ""),
        )


def ordered(tasks: Sequence[TaskSummary]) -> tuple[TaskSummary, ...]:
    """Return tasks with the most time first; those whose time is not known come last."""
    return tuple(sorted(tasks, key=lambda task: -_or_zero(task.total)))


def _or_zero(seconds: float) -> float:
    return 0.0 if math.isnan(seconds) else seconds
