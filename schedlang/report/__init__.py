"""Reports: a run, or several of them, as one HTML file that needs nothing else."""

from schedlang.report.comparison import Best, Comparison, compare
from schedlang.report.write import write
from schedlang.report.write_comparison import write_comparison

__all__ = ["Best", "Comparison", "compare", "write", "write_comparison"]
