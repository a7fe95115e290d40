"""One tuning for many shapes: ``tune_shapes`` and what it finds."""

from schedlang.shapes.ranges import PointKernel
from schedlang.shapes.shape_set import ShapeSet
from schedlang.shapes.tune_shapes import tune_shapes

__all__ = ["PointKernel", "ShapeSet", "tune_shapes"]
