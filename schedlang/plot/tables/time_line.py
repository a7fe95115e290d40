"""What the workers of a run did when, and how busy they were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlang.database.history import RunHistory

ACTIVITIES = ("build", "run", "verify")
"""What a worker does; the rest of the time it is idle."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a run.

    Attributes
    ----------
    worker: number of the worker; None for what the run itself did.
    activity: as in ``Phase``. begin, end: wall seconds of the run. record_id: of the trial.
    """

    worker: int | None
    activity: str
    begin: float
    end: float
    record_id: int | None = None


@dataclass(frozen=True)
class TimeLine:
    """The spans of a run, sorted by begin.

    Attributes
    ----------
    spans: of all workers; run_spans: of the run itself.
    """

    spans: Sequence[Span]
    run_spans: Sequence[Span]

    @property
    def workers(self) -> list[int]:
        """The numbers of the workers."""
        return sorted({span.worker for span in self.spans if span.worker is not None})

    @property
    def window(self) -> tuple[float, float]:
        """From the first begin to the last end of what workers did, in seconds of the run."""
        if not self.spans:
            return (0.0, 0.0)
        return (self.spans[0].begin, max(span.end for span in self.spans))

    def shares(self) -> dict[int, dict[str, float]]:
        """Return the part of the window that each worker spent on each activity, and idle."""
        begin, end = self.window
        busy: dict[int, dict[str, float]] = {worker: {} for worker in self.workers}
        for span in self.spans:
            if span.worker is not None:
                parts = busy[span.worker]
                parts[span.activity] = parts.get(span.activity, 0.0) + span.end - span.begin
        length = end - begin or 1.0
        return {worker: _with_idle(parts, length) for worker, parts in busy.items()}

    def busy(self, bins: int) -> list[dict[str, float]]:
        """Return ``begin`` and ``end`` of equal parts of the window, with the share of activities.

        Shares are of the time of all workers together.
        """
        begin, end = self.window
        workers = len(self.workers)
        if not workers or end <= begin:
            return []
        width = (end - begin) / bins
        sums: list[defaultdict[str, float]] = [defaultdict(float) for _ in range(bins)]
        for span in self.spans:
            first = min(int((span.begin - begin) / width), bins - 1)
            last = min(int((span.end - begin) / width), bins - 1)
            for place in range(first, last + 1):
                low = max(span.begin, begin + place * width)
                high = min(span.end, begin + (place + 1) * width)
                sums[place][span.activity] += max(high - low, 0.0)
        return [
            {
                "begin": begin + place * width,
                "end": begin + (place + 1) * width,
                **_with_idle(parts, width * workers),
            }
            for place, parts in enumerate(sums)
        ]


def _with_idle(parts: Mapping[str, float], whole: float) -> dict[str, float]:
    shares = {activity: parts.get(activity, 0.0) / whole for activity in ACTIVITIES}
    return {**shares, "idle": max(1.0 - sum(shares.values()), 0.0)}


def time_line(history: RunHistory) -> TimeLine:
    """Return the time line of a run; it is empty where the database has none."""
    clock = history.seconds_at
    spans = [
        Span(details.worker_of(phase), phase.activity, clock(phase.begin), clock(phase.end), number)
        for number, details in history.trials.items()
        for phase in details.phases
    ]
    spans.sort(key=lambda span: (span.begin, span.end))
    run_spans = [
        Span(None, phase.activity, clock(phase.begin), clock(phase.end)) for phase in history.phases
    ]
    return TimeLine(spans, sorted(run_spans, key=lambda span: span.begin))
