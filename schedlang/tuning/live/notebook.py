"""A run in a Jupyter notebook: the same facts as on a terminal, as HTML that changes in place."""

from __future__ import annotations

import html
import sys
from typing import Any

from schedlang.tuning.live.snapshot import Snapshot


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
