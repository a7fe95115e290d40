"""Reports: a run, several of them, or a set of shapes, as one HTML file that needs nothing else."""

from schedlang.report.comparison import Best, Comparison, compare
from schedlang.report.write import write
from schedlang.report.write_comparison import write_comparison
from schedlang.report.write_shapes import write_shapes

__all__ = ["Best", "Comparison", "compare", "write", "write_comparison", "write_shapes"]
