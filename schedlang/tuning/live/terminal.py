"""A run on a terminal: a few lines that change, for 60 columns and more."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from schedlang.tuning.live.snapshot import Snapshot

_WIDEST_BAR = 60


class View:
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
