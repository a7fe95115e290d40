"""Who writes the reports of results: ``schedlang.report``, imported when the first is written.

``tuning`` stands below ``report`` and must not import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlang.tuning.reporting import register_report_writer

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from schedlang.database.history import RunHistory


@register_report_writer
def write(history: RunHistory, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write the report of a run: see ``schedlang.report.write``."""
    from schedlang.report import write as write_report

    return write_report(history, path, title=title)
