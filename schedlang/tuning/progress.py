"""Show a tuning run as it goes: a bar with the best latency and the counts by status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self

from rich import progress
from rich.console import Console

from schedlang.database import Record
from schedlang.measurement import Measurement, Status, describe_latency


class Progress(Protocol):
    """What a run tells of each measurement."""

    def update(self, measurement: Measurement, rejected: int, report: str = "") -> None:
        """Count one measurement.

        ``rejected`` is the number of traces that did not become candidates, ``report`` the search's
        own. Candidates that the measurer rejected before they ran are counted with them.
        """


class ProgressBar:
    """A live line on a terminal; elsewhere it writes nothing unless ``show`` is True.

    ``earlier`` is what a run that goes on has measured before.
    """

    def __init__(
        self,
        title: str,
        trials: int | None,
        flops: float,
        show: bool | None = None,
        earlier: Iterable[Record] = (),
    ) -> None:
        console = Console(stderr=True)
        # Not rich's own view, which FORCE_COLOR turns: a log file wants no moving bar.
        visible = console.file.isatty() if show is None else show
        self._flops = flops
        self._best: float | None = None
        self._counts: Counter[Status] = Counter()
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[state]}"),
            console=console,
            disable=not visible,
        )
        self._task = self._progress.add_task(title, total=trials, state="")
        for record in earlier:
            self._count(record)
        if self._counts:
            self._show(self._counts.total() - self._counts[Status.REJECTED])

    def update(self, measurement: Measurement, rejected: int, report: str = "") -> None:
        """Count one measurement, see ``Progress``."""
        self._count(measurement)
        self._show(int(measurement.status is not Status.REJECTED), rejected, report)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def _count(self, one: Measurement | Record) -> None:
        self._counts[one.status] += 1
        if one.ok and (self._best is None or one.latency < self._best):
            self._best = one.latency

    def _show(self, advance: int, rejected: int = 0, report: str = "") -> None:
        state = "no result yet" if self._best is None else describe_latency(self._best, self._flops)
        shown_apart = (Status.OK, Status.REJECTED)
        failures = [f"{n} {s}" for s, n in sorted(self._counts.items()) if s not in shown_apart]
        rejected += self._counts[Status.REJECTED]
        if rejected:
            failures.append(f"{rejected} rejected")
        shown = ", ".join(filter(None, [state, *failures, report]))
        self._progress.update(self._task, advance=advance, state=shown)
