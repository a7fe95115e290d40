"""Standard error, as far as a run can be seen there."""

from __future__ import annotations

from rich.console import Console


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
