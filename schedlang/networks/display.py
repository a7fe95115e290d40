"""Show the tuning of networks as it goes: a table of tasks, and a line for all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from schedlang.measurement import Measurement, Status
from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.networks.network_tasks import Shares, SlicedTask, shares_of
from schedlang.networks.tasks import latency_text
from schedlang.search import Strategy
from schedlang.tuning.session.live_view import OtherWork, Progress
from schedlang.tuning.session.screen import Screen, time_text, trials_text

# Tasks that the table shows, those with the largest share first.
_ROWS = 12


@dataclass
class Lane:
    """What one host has done so far.

    Attributes
    ----------
    slices, trials: numbers of them.
    seconds: that they took.
    latest: the place of the task that it had last.
    """

    slices: int = 0
    trials: int = 0
    seconds: float = 0.0
    latest: int = 0


class Display(Screen, Progress):
    """A live table on a terminal or in a notebook, and a line now and then in a log.

    Where the output is neither, the lines go to standard error if ``show`` is True. The logger
    ``schedlang`` gets them in any case. Phases of a slice are not shown: it is short.

    Parameters
    ----------
    title: names of the networks.
    runs: of the tasks.
    trials: limit on all trials; None for no limit.
    show: None shows it on a terminal and in a notebook only, False nowhere.
    clock: of the session.

    Attributes
    ----------
    lanes: what each host has done, by its name; empty where this machine tunes.
    """

    def __init__(
        self,
        title: str,
        runs: Sequence[SlicedTask],
        trials: int | None,
        show: bool | None,
        clock: Clock = SYSTEM,
    ) -> None:
        super().__init__(show, clock)
        self._title, self._runs, self._trials = title, runs, trials
        self._began = self._clock.now()
        self._counts: Counter[Status] = Counter()
        self._other_work = OtherWork()
        self._gains: dict[int, float] = {}
        self._current: int | None = None
        self._phase = "starting workers"
        self.lanes: Mapping[str, Lane] = {}

    def update(self, measurement: Measurement, search: Strategy) -> None:
        """Count one measurement."""
        self._counts[measurement.status] += 1
        self._other_work.count(measurement.disturbance)
        self.refresh()

    def begin_slice(self, place: int) -> None:
        """Say which task is next."""
        self._current, self._phase = place, "tuning"
        self.refresh()

    def end_slice(self, place: int, before: float) -> None:
        """Show what a slice gained; ``before`` is the task's best latency before it."""
        run = self._runs[place]
        now = run.latency
        self._gains[place] = 1.0 - now / before if before > 0 else math.nan
        if self.line_is_due:
            self.write(self._line(place))
        self.refresh()

    def say(self, phase: str) -> None:
        """Show another phase than tuning."""
        self._current, self._phase = None, phase
        self.write(self._summary())
        self.refresh(now=True)

    def _picture(self) -> Group:
        hosts = [self._hosts()] if self.lanes else []
        return Group(self._table(), *hosts, Text(self._summary()))

    def _hosts(self) -> Table:
        """Return a row for each host, those with most trials first."""
        table = Table(box=None, pad_edge=False)
        table.add_column("host", no_wrap=True, max_width=30)
        for name in ("slices", "trials", "busy", "task"):
            table.add_column(name, justify="right", no_wrap=True, max_width=44)
        spent = max(self._clock.now() - self._began, 1e-9)
        busiest = sorted(self.lanes.items(), key=lambda one: -one[1].trials)
        for name, lane in busiest[:_ROWS]:
            task = self._runs[lane.latest].shared.name
            busy = f"{min(lane.seconds / spent, 1.0):.0%}"
            table.add_row(name, str(lane.slices), str(lane.trials), busy, task)
        if len(busiest) > _ROWS:
            table.add_row(f"and {len(busiest) - _ROWS} more")
        return table

    def _table(self) -> Table:
        shares = shares_of(self._runs)
        table = Table(box=None, pad_edge=False)
        table.add_column("task", no_wrap=True, max_width=44)
        for name in ("calls", "share", "best", "last slice", "trials"):
            table.add_column(name, justify="right")
        order = sorted(range(len(self._runs)), key=lambda k: (-shares.parts[k], k))
        for place in order[:_ROWS]:
            run = self._runs[place]
            style = "bold" if place == self._current else ""
            table.add_row(run.shared.name, *self._cells(place, shares), style=style)
        if len(order) > _ROWS:
            table.add_row(f"and {len(order) - _ROWS} more")
        return table

    def _cells(self, place: int, shares: Shares) -> list[str]:
        run = self._runs[place]
        gain = self._gains.get(place, math.nan)
        return [
            str(sum(run.shared.weights)),
            f"{shares.parts[place]:.1%}" if shares.parts[place] > 0 else "-",
            latency_text(run.latency),
            "-" if math.isnan(gain) else f"-{gain:.1%}",
            str(run.trials),
        ]

    def _line(self, place: int) -> str:
        share, best, gain = self._cells(place, shares_of(self._runs))[1:4]
        name = self._runs[place].shared.name
        return f"{self._summary()}; {name}: {share} of it, {best}, last slice {gain}"

    def _summary(self) -> str:
        shares = shares_of(self._runs)
        done = sum(run.trials for run in self._runs)
        tuned = sum(run.trials > 0 for run in self._runs)
        failures = [
            f"{count} {status}"
            for status, count in sorted(self._counts.items())
            if status is not Status.OK
        ]
        other_work = self._other_work.so_far()
        parts = [
            f"{self._title}: {self._phase}, {trials_text(done, self._trials)} trials",
            f"{tuned} of {len(self._runs)} tasks",
            *([f"{len(self.lanes)} hosts"] if self.lanes else []),
            f"{shares.total} so far",
            *failures,
            *([f"machine busy: {other_work}"] if other_work.busy else []),
            self._time(done),
        ]
        return ", ".join(parts)

    def _time(self, done: int) -> str:
        """Say how long it took, and about how long the trials will take that are left."""
        spent = self._clock.now() - self._began
        measured = self._counts.total() - self._counts[Status.REJECTED]
        left = None
        if self._trials is not None and measured > 0 and self._current is not None:
            left = spent / measured * max(self._trials - done, 0)
        return time_text(spent, left)
