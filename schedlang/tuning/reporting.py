"""How a result's report is written: a package above this one registers the writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from schedlang.database.history import RunHistory


class ReportWriter(Protocol):
    """Writes the report of a run as one HTML file, and returns its path."""

    def __call__(
        self, history: RunHistory, path: str | os.PathLike[str], *, title: str | None = None
    ) -> Path:
        """Write the report of ``history`` to ``path``; ``title`` is its heading."""


_registered: dict[str, ReportWriter] = {}


def register_report_writer(writer: ReportWriter) -> ReportWriter:
    """Have ``TuneResult.report`` call ``writer``; the last one that is registered counts."""
    _registered["writer"] = writer
    return writer


def report_writer() -> ReportWriter:
    """Return the registered writer; ``import schedlang`` registers ``schedlang.report.write``."""
    return _registered["writer"]
