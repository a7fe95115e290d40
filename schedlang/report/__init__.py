"""Reports: a run, several of them, or a set of shapes, as one HTML file that needs nothing else."""

from schedlang.report.comparison import BestOfRun, RunComparison, compare
from schedlang.report.shapes import write_shapes
from schedlang.report.writing import write, write_comparison

__all__ = ["BestOfRun", "RunComparison", "compare", "write", "write_comparison", "write_shapes"]
