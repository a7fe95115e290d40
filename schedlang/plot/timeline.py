"""What the workers of a run did when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from schedlang.database.history import TIME_LINE, RunHistory
from schedlang.measurement.clock import worker_name
from schedlang.plot.sources import Runs, one_run
from schedlang.plot.style import (
    BLUE,
    GREEN,
    ORANGE,
    VERMILLION,
    WIDTH,
    Source,
    in_order,
    inline,
    styled,
)
from schedlang.printed import Unit, duration_unit, significant

COLORS = {"build": BLUE, "run": VERMILLION, "verify": GREEN, "idle": "rgba(138, 147, 160, 0.28)"}
"""Of what workers do; idle is quiet on white and on black."""
BINS = 120
AXIS = 76
"""Width of the axis labels of both parts in pixels: their plots are aligned."""
# 0, 0.5, 1: without zeros that say nothing.
_SECONDS = ",.3~f"
# With more spans, the lower part begins with some of them.
_AT_ONCE = 1500


def timeline(runs: Runs) -> alt.VConcatChart:
    """Return a chart of what the workers of a run did when.

    Above are the shares of the workers' time, below the work of each worker, from the start of the
    run. Between them is the part of the samples that other work disturbed, where that is known. A
    range that is marked above with the mouse is what is shown below. ValueError for several runs,
    and for a run whose database has no time line.
    """
    name, history = one_run("timeline", runs)
    line = time_line(history)
    if not line.spans:
        raise ValueError(f"{name}: {why_empty(history)}")
    numbers = {record.id: place for place, record in enumerate(history.records, 1) if record.id}
    chart = timeline_chart(line, numbers, inline)
    return styled(chart, f"Workers: {name}")


def why_empty(history: RunHistory) -> str:
    """Return why a run has no time line."""
    return history.lacks.get(TIME_LINE, "no candidate was measured in this run")


def timeline_chart(line: TimeLine, numbers: Mapping[int, int], source: Source) -> alt.VConcatChart:
    """Return the chart without its style; ``numbers`` are those of the trials by record."""
    time = duration_unit(line.window[1])
    order = list(COLORS)
    color = alt.Color(
        "activity:N",
        title=None,
        scale=alt.Scale(domain=order, range=list(COLORS.values())),
        legend=alt.Legend(orient="top", symbolType="square", offset=4),
    )
    brush = alt.selection_interval(
        name="window",
        encodings=["x"],
        value={"x": _first_window(line, time)},
        mark=alt.BrushConfig(fill="black", fillOpacity=0.06, stroke="black", strokeOpacity=0.8),
    )
    over = f"Wall time ({time.name})"
    above = (
        alt.Chart(source("busy", lambda: _busy(line, time)))
        .mark_rect()
        .encode(
            alt.X(
                "begin:Q",
                title=None,
                scale=alt.Scale(domain=_whole(line, time), nice=False),
                axis=alt.Axis(grid=False, format=_SECONDS),
            ),
            alt.X2("end:Q"),
            alt.Y(
                "low:Q",
                title="Share of time",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%", values=[0, 0.5, 1], minExtent=AXIS, maxExtent=AXIS),
            ),
            alt.Y2("high:Q"),
            color,
            tooltip=[
                alt.Tooltip("activity:N", title="Activity"),
                alt.Tooltip("share:Q", title="Share of workers' time", format=".1%"),
                alt.Tooltip("begin:Q", title=f"From ({time.name})", format=",.2f"),
                alt.Tooltip("end:Q", title=f"To ({time.name})", format=",.2f"),
            ],
        )
        .add_params(brush)
        .properties(width=WIDTH, height=90)
    )
    below = (
        alt.Chart(source("spans", lambda: _spans(line, numbers, time)))
        .mark_rect(clip=True, stroke=None)
        .encode(
            alt.X(
                "begin:Q",
                title=over,
                scale=alt.Scale(domain=brush),
                axis=alt.Axis(grid=False, format=_SECONDS),
            ),
            alt.X2("end:Q"),
            alt.Y(
                "lane:N",
                title=None,
                scale=in_order(map(worker_name, line.workers), padding=0.18),
                axis=alt.Axis(
                    minExtent=AXIS, maxExtent=AXIS, ticks=False, domain=False, labelPadding=8
                ),
            ),
            color,
            tooltip=[
                alt.Tooltip("trial:N", title="Trial"),
                alt.Tooltip("lane:N", title="Worker"),
                alt.Tooltip("activity:N", title="Activity"),
                alt.Tooltip("seconds:Q", title="Took (s)", format=",.3f"),
                alt.Tooltip("begin:Q", title=f"Began at ({time.name})", format=",.3f"),
            ],
        )
        .properties(width=WIDTH, height=alt.Step(max(12, min(34, 640 // len(line.workers)))))
    )
    lanes = [_disturbance_lane(line, time, source)] if line.disturbed else []
    return alt.vconcat(above, *lanes, below, spacing=14, usermeta={"reserve": AXIS + 24})


def _disturbance_lane(line: TimeLine, time: Unit, source: Source) -> alt.Chart:
    """Return the part of the samples that other work disturbed, over the time of the run."""
    lane: alt.Chart = (
        alt.Chart(source("disturbed", lambda: _disturbed(line, time)))
        .mark_rect(color=ORANGE)
        .encode(
            alt.X(
                "begin:Q",
                title=None,
                scale=alt.Scale(domain=_whole(line, time), nice=False),
                axis=alt.Axis(grid=False, labels=False, ticks=False),
            ),
            alt.X2("end:Q"),
            alt.Y(
                "share:Q",
                title="Disturbed",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%", values=[0, 1], minExtent=AXIS, maxExtent=AXIS),
            ),
            y2=alt.Y2Datum(0),
            tooltip=[
                alt.Tooltip("share:Q", title="Samples disturbed by other work", format=".0%"),
                alt.Tooltip("begin:Q", title=f"From ({time.name})", format=",.2f"),
                alt.Tooltip("end:Q", title=f"To ({time.name})", format=",.2f"),
            ],
        )
        .properties(width=WIDTH, height=40)
    )
    return lane


def _whole(line: TimeLine, time: Unit) -> list[float]:
    """Return the range of the whole run."""
    return [0, significant(line.window[1] * time.scale, 7)]


def _first_window(line: TimeLine, time: Unit) -> list[float]:
    """Return the range that is shown first: all, or as many spans as one can tell apart."""
    if len(line.spans) > _AT_ONCE:
        middle = len(line.spans) // 2
        first = line.spans[max(middle - _AT_ONCE // 8, 0)].begin
        last = line.spans[min(middle + _AT_ONCE // 8, len(line.spans) - 1)].end
        return [first * time.scale, last * time.scale]
    return [0.0, line.window[1] * time.scale]


def _busy(line: TimeLine, time: Unit) -> list[dict[str, Any]]:
    rows = []
    for part in line.busy(BINS):
        low = 0.0
        for activity in COLORS:
            rows.append(
                {
                    "begin": significant(part["begin"] * time.scale),
                    "end": significant(part["end"] * time.scale),
                    "activity": activity,
                    "share": significant(part[activity], 4),
                    "low": significant(low, 4),
                    "high": significant(low + part[activity], 4),
                }
            )
            low += part[activity]
    return rows


def _disturbed(line: TimeLine, time: Unit) -> list[dict[str, Any]]:
    return [
        {
            "begin": significant(part["begin"] * time.scale),
            "end": significant(part["end"] * time.scale),
            "share": significant(part["share"], 4),
        }
        for part in line.disturbance(BINS)
    ]


def _spans(line: TimeLine, numbers: Mapping[int, int], time: Unit) -> list[dict[str, Any]]:
    return [
        {
            "lane": worker_name(span.worker or 0),
            "activity": span.activity,
            "begin": significant(span.begin * time.scale, 7),
            "end": significant(span.end * time.scale, 7),
            "seconds": significant(span.end - span.begin, 4),
            "trial": None if span.record_id is None else numbers.get(span.record_id),
        }
        for span in line.spans
    ]


# -- The spans of the workers, and how busy they were ---------------------------------------------

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
