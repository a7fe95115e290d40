"""What the workers of a run did when, and how busy they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    disturbed: part of the samples that other work disturbed, by the record's id, where it is known.
    """

    spans: Sequence[Span]
    run_spans: Sequence[Span]
    disturbed: Mapping[int, float] = field(default_factory=dict)

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
        workers = len(self.workers)
        return [
            {
                "begin": begin,
                "end": end,
                **_with_idle(
                    {
                        activity: sum(
                            seconds for span, seconds in parts if span.activity == activity
                        )
                        for activity in ACTIVITIES
                    },
                    (end - begin) * workers,
                ),
            }
            for begin, end, parts in self._parts(self.spans, bins)
        ]

    def disturbance(self, bins: int) -> list[dict[str, float]]:
        """Return ``begin`` and ``end`` of those parts of the window in which programs ran.

        ``share`` is the part of their samples that other work disturbed: the mean over the time
        that they ran.
        """
        ran = [
            span
            for span in self.spans
            if span.activity == "run" and span.record_id in self.disturbed
        ]
        return [
            {
                "begin": begin,
                "end": end,
                "share": sum(self.disturbed[span.record_id or 0] * time for span, time in parts)
                / whole,
            }
            for begin, end, parts in self._parts(ran, bins)
            if (whole := sum(time for _, time in parts)) > 0
        ]

    def _parts(
        self, spans: Sequence[Span], bins: int
    ) -> list[tuple[float, float, list[tuple[Span, float]]]]:
        """Return equal parts of the window, each with the spans in it and their seconds there."""
        begin, end = self.window
        if end <= begin:
            return []
        width = (end - begin) / bins
        found: list[list[tuple[Span, float]]] = [[] for _ in range(bins)]
        for span in spans:
            first = min(int((span.begin - begin) / width), bins - 1)
            last = min(int((span.end - begin) / width), bins - 1)
            for place in range(first, last + 1):
                low = max(span.begin, begin + place * width)
                high = min(span.end, begin + (place + 1) * width)
                found[place].append((span, max(high - low, 0.0)))
        return [
            (begin + place * width, begin + (place + 1) * width, parts)
            for place, parts in enumerate(found)
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
    disturbed = {
        record.id: record.disturbance.share
        for record in history.records
        if record.id is not None and record.disturbance is not None
    }
    return TimeLine(spans, sorted(run_spans, key=lambda span: span.begin), disturbed)
