"""A picture that changes on a terminal or in a notebook, and lines where there is neither."""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

from schedlang.announcing import LOGGER
from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.tuning.live.notebook import NotebookView, in_notebook

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
