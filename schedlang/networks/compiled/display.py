"""Show how far the compilation of a network is."""

from __future__ import annotations

import time

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from schedlang.tuning.session.screen import Screen, time_text

_BAR_COLUMNS = 30


class CompileDisplay(Screen):
    """A line that changes on a terminal or in a notebook, and a line now and then in a log.

    Parameters
    ----------
    title: of the compilation.
    show: None shows it on a terminal and in a notebook only, False nowhere.
    """

    def __init__(self, title: str, show: bool | None) -> None:
        self._title = title
        self._phase, self._things = "preparing", "functions"
        self._done = self._count = 0
        self._began = self._entered = time.monotonic()
        super().__init__(show)

    def enter(self, phase: str, count: int = 0, things: str = "functions") -> None:
        """Begin a phase of ``count`` functions, or sizes; ``tell`` says how many are done."""
        self._phase, self._done, self._count, self._things = phase, 0, count, things
        self._entered = time.monotonic()
        self.write(self._line())
        self.refresh(now=True)

    def tell(self, done: int) -> None:
        """Say how many of them are done."""
        self._done = done
        if self.line_is_due:
            self.write(self._line())
        self.refresh()

    def _line(self) -> str:
        counted = f", {self._done} of {self._count} {self._things}" if self._count else ""
        return f"{self._title}: {self._phase}{counted}, {self._time()}"

    def _time(self) -> str:
        """Say how long it took, and about how long this phase still takes."""
        now = time.monotonic()
        left = None
        if 0 < self._done < self._count:
            left = (now - self._entered) / self._done * (self._count - self._done)
        return time_text(now - self._began, left)

    def _picture(self) -> RenderableType:
        text = Text(self._line())
        if not self._count:
            return text
        row = Table.grid(padding=(0, 1))
        row.add_row(text, ProgressBar(self._count, self._done, width=_BAR_COLUMNS))
        return row
