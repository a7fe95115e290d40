"""The program of a single shape of a set."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from schedlang.language.schedule import Trace
from schedlang.shapes.extents import Extents
from schedlang.tvm.symbolic import Served

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


@dataclass(frozen=True)
class PointKernel:
    """The program of a single shape.

    Attributes
    ----------
    extents: the shape.
    weight: how much it counts.
    trace: makes the program.
    origin: ``"tuned"`` in earnest, ``"carried over"`` from other shapes and measured here, or
        ``"default schedule"``, which was not measured.
    latency: in seconds; NaN where it was not measured.
    trials: candidates that were measured.
    """

    extents: Extents
    weight: float
    trace: Trace = field(repr=False)
    origin: str
    latency: float
    trials: int

    @cached_property
    def served(self) -> Served:
        """Its extents, and the shapes of its tensors."""
        assert self.trace.workload is not None
        return Served.alone(self.extents, [arg.shape for arg in self.trace.workload.args])

    @cached_property
    def mod(self) -> TensorProgram:
        """The scheduled program."""
        return self.trace.replay().mod
