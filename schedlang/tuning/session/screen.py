"""What people see of a run: the facts in words, and a picture that changes.

A ``Snapshot`` is what is known of a run at one moment. A ``Screen`` shows a picture that changes
on a terminal or in a notebook, and lines where there is neither.
"""

from __future__ import annotations

import html
import io
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live

from schedlang.measurement import Status
from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.measurement.disturbance import RunDisturbance
from schedlang.printed import describe_latency, describe_speedup, duration
from schedlang.terminal import LOGGER

# -- What is known of a run at one moment ---------------------------------------------------------

NO_TIME_LEFT = 0.5
"""Seconds below which the time left is not worth saying."""
# Parts of the time that are smaller are left out.
_SMALLEST_PART = 0.02
_PARTS = {
    "start": "starting workers",
    "search": "search",
    "model": "cost model",
    "build": "build",
    "run": "run",
    "measure": "waiting",
    "finals": "finals",
}


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment.

    Attributes
    ----------
    title: of the run; phase: what it does.
    seconds: wall time so far; left: about how many are to come, None where nobody knows.
    trials: measured candidates; limit: how many there will be at most, None without a limit.
    best: lowest latency in seconds, None before any. flops: operations of a call.
    reference: latency of the unscheduled program in seconds, NaN before it is known; a lower bound
        unless ``reference_complete``.
    roofline: seconds that a call takes at least; 0 where nobody knows.
    counts: candidates by status.
    rejected: traces that did not become candidates.
    screened: candidates that a model of the search predicted, and that were not measured.
    disturbance: what other work did to the samples.
    report: the search's own. parts: seconds by what they went into.
    """

    title: str
    phase: str = ""
    seconds: float = 0.0
    left: float | None = None
    trials: int = 0
    limit: int | None = None
    best: float | None = None
    flops: float = 0.0
    reference: float = math.nan
    reference_complete: bool = True
    roofline: float = 0.0
    counts: Mapping[Status, int] = field(default_factory=dict)
    rejected: int = 0
    screened: int = 0
    disturbance: RunDisturbance = RunDisturbance()
    report: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def best_text(self) -> str:
        """The lowest latency: ``36.1 us, 148.7 GFLOPS, 59.5x faster, 65% of the roofline``."""
        if self.best is None:
            return "no result yet"
        parts = [describe_latency(self.best, self.flops)]
        if self.reference > 0:
            bound = "" if self.reference_complete else ">= "
            parts.append(bound + describe_speedup(self.reference / self.best))
        if 0 < self.roofline <= self.best:
            parts.append(f"{self.roofline / self.best:.0%} of the roofline")
        return ", ".join(parts)

    @property
    def trials_text(self) -> str:
        """How many candidates there were: ``31/64``."""
        return trials_text(self.trials, self.limit)

    @property
    def failures_text(self) -> str:
        """How many candidates failed, by status: ``2 wrong_result``; empty without any."""
        shown_apart = (Status.OK, Status.REJECTED)
        found = [(s, n) for s, n in sorted(self.counts.items()) if s not in shown_apart and n]
        return ", ".join(f"{count} {status}" for status, count in found)

    @property
    def skipped_text(self) -> str:
        """What was not measured: ``412 predicted slower, 14 rejected``; empty without any."""
        rejected = self.rejected + self.counts.get(Status.REJECTED, 0)
        parts = [
            f"{self.screened:,} predicted slower" if self.screened else "",
            f"{rejected:,} rejected" if rejected else "",
        ]
        return ", ".join(filter(None, parts))

    @property
    def busy_text(self) -> str:
        """What other work did: ``43% of 384 samples disturbed by other work, 31 repeated``.

        Empty if little.
        """
        return str(self.disturbance) if self.disturbance.busy else ""

    @property
    def shares(self) -> list[tuple[str, float]]:
        """What took the time, largest part first, as fractions of it."""
        total = sum(self.parts.values())
        # Before the first batch has ended, nothing is known of the parts.
        if total - self.parts.get("other", 0.0) < _SMALLEST_PART * total or total <= 0:
            return []
        shares = [(_PARTS.get(name, name), spent / total) for name, spent in self.parts.items()]
        shares = [(name, part) for name, part in shares if part >= _SMALLEST_PART]
        return sorted(shares, key=lambda share: -share[1])

    @property
    def shares_text(self) -> str:
        """The same as text: ``build 45%, run 30%``."""
        return ", ".join(f"{name} {part:.0%}" for name, part in self.shares)

    @property
    def time_text(self) -> str:
        """How long it took and will take: ``12 s, about 40 s left``."""
        return time_text(self.seconds, self.left)

    @property
    def line(self) -> str:
        """All of it as one line, for a log file."""
        parts = [f"{self.trials_text} trials"]
        if self.best is not None:
            parts.append(f"best {self.best_text}")
        skipped = self.skipped_text
        parts += [self.failures_text, f"skipped: {skipped}" if skipped else ""]
        busy = f"machine busy: {self.busy_text}" if self.busy_text else ""
        parts += [busy, self.report, self.time_text]
        head = f"{self.title}: {self.phase}; " if self.phase else f"{self.title}: "
        return head + "; ".join(filter(None, parts))


def trials_text(done: int, limit: int | None) -> str:
    """Return how many trials there were, of how many; earlier calls may have made more."""
    return str(done) if limit is None or done > limit else f"{done}/{limit}"


def time_text(spent: float, left: float | None) -> str:
    """Return how long something took and will take; a time left that is too short is not told."""
    if left is None or left < NO_TIME_LEFT:
        return duration(spent)
    return f"{duration(spent)}, about {duration(left)} left"


# -- Where a run is shown, and how its picture is replaced ----------------------------------------

_LINE_SECONDS, _NOTEBOOK_SECONDS = 5.0, 0.5
"""Seconds between two lines of a log, and between two pictures of a notebook."""
_NOTEBOOK_COLUMNS = 110


class Output:
    """Where a run is shown: a terminal on which text can move, lines of text, or nowhere.

    What cannot be written ends no run: standard error may be closed, and nobody may read it.

    Parameters
    ----------
    show: None shows a run on a terminal only, False nowhere.

    Attributes
    ----------
    console: on standard error.
    moves: whether it is a terminal that can move its cursor. Not rich's own view of that, which
        FORCE_COLOR turns: a log file wants no moving bar.
    """

    def __init__(self, show: bool | None) -> None:
        self.console = Console(stderr=True)
        try:
            terminal = self.console.file.isatty()
        except ValueError:  # it is closed
            terminal = show = False
        dumb = terminal and self.console.is_dumb_terminal
        self.moves = terminal and not dumb and show is not False
        self._takes_lines = not self.moves and (bool(show) or (dumb and show is None))

    @property
    def takes_lines(self) -> bool:
        """Whether lines are shown."""
        return self._takes_lines

    def write(self, line: str) -> None:
        """Write a line, if lines are shown."""
        if not self._takes_lines:
            return
        try:
            self.console.file.write(f"{line}\n")
            self.console.file.flush()
        except (OSError, ValueError):
            self._takes_lines = False


class Screen(ABC):
    """Shows ``_picture()``, made anew each time; it is gone from a terminal at the end.

    Shown inside ``with``. The logger ``schedlang`` gets the lines in any case.

    Parameters
    ----------
    show: None shows it on a terminal and in a notebook only, False nowhere; True writes the lines
        to standard error where the output is neither.
    clock: of the session.
    """

    def __init__(self, show: bool | None, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        output = Output(show)
        self._picture_shown = self._clock.now()
        self._line_shown = -math.inf
        self._notebook = NotebookView() if show is not False and in_notebook() else None
        self._live: Live | None = None
        if output.moves and self._notebook is None:
            self._live = self._live_on(output.console)
        self._lines = output if output.takes_lines and self._notebook is None else None

    @abstractmethod
    def _picture(self) -> RenderableType:
        """Return the picture of this moment."""

    def _live_on(self, console: Console) -> Live:
        """Return what shows it on a terminal."""
        return Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        self.refresh()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def refresh(self, *, now: bool = False) -> None:
        """Show a new picture; in a notebook if the last one is long ago, or ``now``."""
        if self._live is not None:
            self._live.update(self._picture())
        moment = self._clock.now()
        if self._notebook is not None and (
            now or moment - self._picture_shown >= _NOTEBOOK_SECONDS
        ):
            self._picture_shown = moment
            self._notebook.show(self.html())

    def html(self) -> str:
        """Return the picture as HTML; rich escapes all text."""
        console = Console(record=True, width=_NOTEBOOK_COLUMNS, file=io.StringIO())
        console.print(self._picture())
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    @property
    def line_is_due(self) -> bool:
        """Whether the last line is long ago."""
        return self._clock.now() - self._line_shown >= _LINE_SECONDS

    def write(self, line: str) -> None:
        """Write a line."""
        self._line_shown = self._clock.now()
        LOGGER.info("%s", line)
        if self._lines is not None:
            self._lines.write(line)


# -- A run in a Jupyter notebook: the same facts as HTML ------------------------------------------


def html_of(shown: Snapshot) -> str:
    """Return a snapshot as HTML; all text is escaped."""
    rows = [("trials", _bar(shown)), ("best", html.escape(shown.best_text))]
    rows += [
        (name, html.escape(text))
        for name, text in (
            ("failed", shown.failures_text),
            ("skipped", shown.skipped_text),
            ("busy", shown.busy_text),
            ("search", shown.report),
        )
        if text
    ]
    time = shown.time_text + (f" ({shown.shares_text})" if shown.shares else "")
    rows.append(("time", html.escape(time)))
    cells = "".join(
        f'<tr><th scope="row" style="text-align:left">{name}</th>'
        f'<td style="text-align:left">{content}</td></tr>'
        for name, content in rows
    )
    title, phase = html.escape(shown.title), html.escape(shown.phase)
    return f"<div><b>{title}</b> {phase}<table>{cells}</table></div>"


def _bar(shown: Snapshot) -> str:
    text = html.escape(shown.trials_text)
    if shown.limit is None:
        return text
    value = min(shown.trials, shown.limit)
    return f'{text} <progress max="{max(shown.limit, 1)}" value="{value}"></progress>'


class _Html:
    """An object that notebooks show as HTML."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text


class NotebookView:
    """The output of the running cell, which is replaced by the newest picture of the run."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        """Show HTML in place of what was there before."""
        from IPython.display import display

        if self._handle is None:
            self._handle = display(_Html(text), display_id=True)
        else:
            self._handle.update(_Html(text))


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
