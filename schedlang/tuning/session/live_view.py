"""Show a tuning run as it goes: on a terminal, in a notebook, in a log.

``LiveView`` is told of each measurement (``Progress``), and draws a ``Snapshot`` of the run where
it can be seen (``screen``).
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from schedlang.database import Record
from schedlang.measurement import Measurement, Status
from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.measurement.disturbance import Disturbance, RunDisturbance
from schedlang.search import Strategy
from schedlang.targets.measure.contention import CoreWatch
from schedlang.terminal import LOGGER
from schedlang.tuning.session.screen import Screen, Snapshot, html_of

# -- What a run tells about itself while it goes --------------------------------------------------


class Progress:
    """Is told of each measurement, and of what the run does; shows nothing by itself."""

    def update(self, measurement: Measurement, search: Strategy) -> None:
        """Count one measurement of a candidate of ``search``."""

    def enter(self, phase: str) -> None:
        """Take what the run does now: ``"exploring"``."""

    def compare_with(self, latency: float, *, complete: bool) -> None:
        """Take the latency of the unscheduled program, in seconds; not ``complete``, a bound."""

    def split(self, seconds: Mapping[str, float]) -> None:
        """Take the seconds that went into each part of the run, as ``TuneResult.time_split``."""


# -- The live view --------------------------------------------------------------------------------


class LiveView(Screen, Progress):
    """A few live lines on a terminal or in a notebook, and a line now and then in a log.

    Where the output is neither, the lines go to standard error if ``show`` is True. The logger
    ``schedlang`` gets them in any case.

    Parameters
    ----------
    title: of the run.
    trials: at most so many; None without a limit.
    seconds: wall-clock budget; infinite without one.
    flops: operations of a call.
    roofline: seconds that a call takes at least; 0 where nobody knows.
    show: None shows it on a terminal and in a notebook only, False nowhere.
    earlier: what a run that goes on has measured before.
    clock: of the session.
    """

    def __init__(
        self,
        title: str,
        trials: int | None,
        *,
        seconds: float = math.inf,
        flops: float = 0.0,
        roofline: float = 0.0,
        show: bool | None = None,
        earlier: Iterable[Record] = (),
        clock: Clock = SYSTEM,
    ) -> None:
        self._title, self._limit, self._budget = title, trials, seconds
        self._flops, self._roofline = flops, roofline
        self._began = clock.now()
        self._first: float | None = None
        self._best: float | None = None
        self._counts: Counter[Status] = Counter()
        self._other_work = OtherWork()
        self._phase = self._report = ""
        self._ended = False
        self._reference, self._complete = math.nan, True
        self._rejected = self._screened = 0
        self._parts: Mapping[str, float] = {}
        for record in earlier:
            self._count(record)
        self._before = self._trials
        super().__init__(show, clock)
        self._line_shown = self._began

    # -- what the run tells ----------------------------------------------------------------------

    def update(self, measurement: Measurement, search: Strategy) -> None:
        """Count one measurement, and show where the search is."""
        if self._first is None:
            self._first = self._clock.now()
        best = self._best
        self._count(measurement)
        self._rejected, self._screened = len(search.rejections), search.screened
        self._report = search.report
        if self._best != best:
            LOGGER.debug("%s: new best, %s", self._title, self.snapshot().best_text)
        self.refresh()

    def enter(self, phase: str) -> None:
        """Show what the run does now."""
        if phase != self._phase:
            self._phase = phase
            self.refresh(now=True)

    def compare_with(self, latency: float, *, complete: bool) -> None:
        """Show how much faster the best is than the unscheduled program."""
        self._reference, self._complete = latency, complete

    def split(self, seconds: Mapping[str, float]) -> None:
        """Show which part took the time."""
        self._parts = seconds

    def snapshot(self) -> Snapshot:
        """Return what is known now."""
        return Snapshot(
            self._title,
            self._phase,
            self._clock.now() - self._began,
            self._left(),
            self._trials,
            self._limit,
            self._best,
            self._flops,
            self._reference,
            self._complete,
            self._roofline,
            self._counts,
            self._rejected,
            self._screened,
            self._other_work.so_far(),
            self._report,
            self._parts,
        )

    # -- where it is shown -----------------------------------------------------------------------

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended = True
        self._phase = "ended" if kind is None else "interrupted"
        self.refresh(now=True)
        super().__exit__(kind, error, traceback)

    def refresh(self, *, now: bool = False) -> None:
        """Show it again, if the last time is long ago or it has to be ``now``."""
        super().refresh(now=now)
        read = self._lines is not None or LOGGER.isEnabledFor(logging.INFO)
        if read and (now or self.line_is_due):
            self.write(self.snapshot().line)

    def html(self) -> str:
        return html_of(self.snapshot())

    def _live_on(self, console: Console) -> Live:
        # Its time goes on between two measurements, and its last picture stays.
        return Live(console=console, refresh_per_second=4, get_renderable=self._picture)

    def _picture(self) -> SnapshotView:
        return SnapshotView(self.snapshot())

    # -- counting --------------------------------------------------------------------------------

    @property
    def _trials(self) -> int:
        return self._counts.total() - self._counts[Status.REJECTED]

    def _count(self, one: Measurement | Record) -> None:
        self._counts[one.status] += 1
        self._other_work.count(one.disturbance)
        if one.ok and (self._best is None or one.latency < self._best):
            self._best = one.latency

    def _left(self) -> float | None:
        """Return about how many seconds the run still takes; None where nobody knows."""
        if self._ended:
            return None
        now = self._clock.now()
        left = self._began + self._budget - now
        done = self._trials - self._before
        if self._limit is not None and done > 1 and self._first is not None:
            each = (now - self._first) / (done - 1)
            left = min(left, each * max(self._limit - self._trials, 0))
        return max(left, 0.0) if math.isfinite(left) else None


# -- A run on a terminal: a few lines that change -------------------------------------------------

_WIDEST_BAR = 60


class SnapshotView:
    """Draws a snapshot in the width that there is."""

    def __init__(self, shown: Snapshot) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._shown
        head = Text(overflow="ellipsis", no_wrap=True)
        head.append(shown.title, "bold")
        if shown.phase:
            head.append(f"  {shown.phase}", "cyan")
        yield head
        yield self._facts()

    def _facts(self) -> Table:
        shown = self._shown
        table = Table.grid(padding=(0, 1))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row("trials", self._bar())
        table.add_row("best", Text(shown.best_text, "green" if shown.best is not None else ""))
        if shown.failures_text:
            table.add_row("failed", Text(shown.failures_text, "yellow"))
        if shown.skipped_text:
            table.add_row("skipped", Text(shown.skipped_text))
        if shown.busy_text:
            table.add_row("busy", Text(shown.busy_text, "yellow"))
        if shown.report:
            table.add_row("search", Text(shown.report))
        time = Text(shown.time_text)
        if shown.shares:
            time.append(f" ({shown.shares_text})", "dim")
        table.add_row("time", time)
        return table

    def _bar(self) -> RenderableType:
        shown = self._shown
        if shown.limit is None:
            return Text(shown.trials_text)
        row = Table.grid(padding=(0, 1))
        row.add_column(width=len(f"{shown.limit}/{shown.limit}"), justify="right", no_wrap=True)
        row.add_column(max_width=_WIDEST_BAR)
        bar = ProgressBar(max(shown.limit, 1), min(shown.trials, shown.limit), width=None)
        row.add_row(Text(shown.trials_text), bar)
        return Group(row)


# -- What other work on the machine has done to a run so far --------------------------------------


class OtherWork:
    """Adds up what other work did to the measurements that a run shows."""

    def __init__(self) -> None:
        self._total = RunDisturbance()
        self._cores = CoreWatch()

    def count(self, one: Disturbance | None) -> None:
        """Add one measurement."""
        self._total = self._total.plus(one)

    def so_far(self) -> RunDisturbance:
        """Return the sum; the cores are read only where the machine is busy."""
        if not self._total.busy:
            return self._total
        return replace(self._total, core_use=self._cores.recent_use())
