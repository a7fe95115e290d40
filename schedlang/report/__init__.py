"""Reports: a run, several of them, or a set of shapes, as one HTML file that needs nothing else.

The names are imported when they are first used: what a notebook shows of a trace draws no charts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlang.report.comparison import BestOfRun, RunComparison, compare
    from schedlang.report.shapes import write_shapes
    from schedlang.report.writing import write, write_comparison
else:
    from schedlang._lazy import attach

    __getattr__, __dir__ = attach(__name__)

__all__ = ["BestOfRun", "RunComparison", "compare", "write", "write_comparison", "write_shapes"]
