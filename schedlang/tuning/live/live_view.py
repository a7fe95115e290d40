"""Show a tuning run as it goes, where it can be seen."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from types import TracebackType

from rich.console import Console
from rich.live import Live

from schedlang.announcing import LOGGER
from schedlang.database import Record
from schedlang.measurement import Measurement, Status
from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.search import Strategy
from schedlang.tuning.live.notebook import html_of
from schedlang.tuning.live.other_work import OtherWork
from schedlang.tuning.live.screen import Screen
from schedlang.tuning.live.snapshot import Snapshot
from schedlang.tuning.live.terminal import View


class LiveView(Screen):
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

    def _picture(self) -> View:
        return View(self.snapshot())

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
