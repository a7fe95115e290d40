"""Show a tuning run as it goes: a bar with the best latency and the counts by status."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from schedlang.measurement import Measurement, Status, describe_latency


class ProgressBar:
    """A live line on a terminal; elsewhere it writes nothing unless ``show`` is True."""

    def __init__(
        self, title: str, trials: int | None, flops: float, show: bool | None = None
    ) -> None:
        console = Console(stderr=True)
        # Not rich's own view, which FORCE_COLOR turns: a log file wants no moving bar.
        visible = console.file.isatty() if show is None else show
        self._flops = flops
        self._best: float | None = None
        self._counts: Counter[Status] = Counter()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[state]}"),
            console=console,
            disable=not visible,
        )
        self._task = self._progress.add_task(title, total=trials, state="")

    def update(self, measurement: Measurement, rejected: int, report: str = "") -> None:
        """Count one measurement.

        ``rejected`` is the number of traces that did not become candidates, ``report`` the search's
        own.
        """
        self._counts[measurement.status] += 1
        if measurement.ok and (self._best is None or measurement.latency < self._best):
            self._best = measurement.latency
        state = "no result yet" if self._best is None else describe_latency(self._best, self._flops)
        failures = [f"{n} {s}" for s, n in sorted(self._counts.items()) if s is not Status.OK]
        if rejected:
            failures.append(f"{rejected} rejected")
        self._progress.update(
            self._task, advance=1, state=", ".join(filter(None, [state, *failures, report]))
        )

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
