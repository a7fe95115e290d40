"""Who writes reports of results, and who shows values in notebooks.

They are imported when the first one is written or shown. What they show stands below them and must
not import them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlang.printed import register_html_writer, register_report_writer

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from schedlang.database.history import RunHistory


@register_report_writer
def write(history: RunHistory, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write the report of a run: see ``schedlang.report.write``."""
    from schedlang.report import write as write_report

    return write_report(history, path, title=title)


@register_html_writer
def html_of(kind: str, value: object) -> str | None:
    """Return a value as HTML for a notebook: see ``schedlang.report.cells``."""
    from schedlang.report.cells import html_of as shown_by_kind

    return shown_by_kind(kind, value)
