"""The kernels of a set: of a single shape, and of a range.

Those of a range are made for any extents, chosen by measuring, and put in one function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from schedlang.errors import WorkloadError
from schedlang.interpreters.conversions import to_symbolic
from schedlang.language.schedule import Trace
from schedlang.shapes.dispatch import Leaf, Split, Tree, mean_of, regions
from schedlang.shapes.extents import MOST, TILES, Extents, Range
from schedlang.tvm.program import intermediate_shapes
from schedlang.tvm.symbolic import Branching, Served, SymbolicProgram, UnifyError, unify
from schedlang.tvm.symbolic.served import Bounds
from schedlang.workloads.construct import Template, assigned

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


# -- The kernels of a range -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kernel:
    """A schedule for any extents of a range, or for one shape of it.

    Attributes
    ----------
    origin: where it comes from, as text.
    extents: the shape that its trace was made for.
    trace: the schedule.
    mod: the scheduled program: with symbolic extents, or for its shape alone.
    alone: whether it is for its shape alone.
    """

    origin: str
    extents: Extents
    trace: Trace = field(repr=False)
    mod: TensorProgram = field(repr=False)
    alone: bool = False


@dataclass(frozen=True, eq=False)
class RangeKernels:
    """What was found for a range.

    Attributes
    ----------
    range: the extents.
    program: the unscheduled program, with symbolic extents.
    kernels: those that regions take.
    tree: says which one a shape takes.
    mod: one function that does what the tree says.
    samples: the shapes that were measured.
    latencies: of the kernels at the samples, in seconds: a row for each sample; infinite where a
        kernel failed.
    best: the least latency that is known for each sample, in seconds.
    regret: time over the least known for each sample, with the kernel that the tree would give it
        had the sample not been measured.
    verified: shapes at which the function's results were compared with the unscheduled program's.
    measured: number of measurements of kernels.
    """

    range: Range
    program: SymbolicProgram = field(repr=False)
    kernels: tuple[Kernel, ...]
    tree: Tree
    mod: TensorProgram = field(repr=False)
    samples: tuple[Extents, ...] = field(repr=False)
    latencies: np.ndarray = field(repr=False)
    best: np.ndarray = field(repr=False)
    regret: np.ndarray = field(repr=False)
    verified: tuple[Extents, ...] = field(repr=False)
    measured: int = 0

    @cached_property
    def served(self) -> Served:
        """The extents that it serves, and the shapes of tensors."""
        return Served(self.range.bounds, self.program.readings, self.program.shapes)

    @property
    def losses(self) -> np.ndarray:
        """Time over the least known for each sample, with the kernel that it takes."""
        taken = [self.tree.find(one) for one in self.samples]
        found: np.ndarray = self.latencies[np.arange(len(taken)), taken] / self.best
        return found

    @property
    def loss(self) -> float:
        """Geometric mean of ``losses``."""
        return mean_of(self.losses)

    def regions(self) -> Iterator[tuple[dict[str, tuple[int, int]], Kernel, float]]:
        """Yield bounds, kernel, and mean loss (NaN without a sample) of each region."""
        losses = self.losses
        for bounds, kernel in regions(self.tree, self.range.bounds):
            inside = [k for k, one in enumerate(self.samples) if one in Range(bounds)]
            loss = mean_of(losses[inside]) if inside else math.nan
            yield bounds, self.kernels[kernel], loss


def unified(template: Template, asked: Range) -> SymbolicProgram:
    """Return the template's program for any extents of a range.

    That is looked at for some hundred shapes: for all of a small range.

    ``WorkloadError`` where the template fails, or its programs are no cases of one, and for a range
    whose largest shape has tensors of more elements than 32-bit indices reach.
    """
    largest = {name: high for name, (_, high) in asked.bounds.items()}
    made = template(largest)
    tensors = [*(arg.shape for arg in made.args), *dict(intermediate_shapes(made.func)).values()]
    elements = max(math.prod(map(int, shape)) for shape in tensors)
    if elements > MOST - TILES:
        raise WorkloadError(
            f"{template.name}({asked}): its largest shape has a tensor of {elements:,} elements",
            f"give a range whose tensors have at most {MOST - TILES:,}",
        )
    shapes = [*asked.samples(), *(one for one in asked.probes() if one not in asked.samples())]
    mods = [template(one).mod for one in shapes]
    remedy = "list single shapes, or ranges in which the template makes the same statements"
    try:
        found = unify(shapes, mods)
    except UnifyError as error:
        raise WorkloadError(f"{template.name}({asked}): {error}", remedy) from None
    for extents in asked.spread():
        if not found.is_program_of(extents, template.make(extents).mod):
            raise WorkloadError(
                f"{template.name}({asked}): the program for {assigned(extents)} is not the one "
                "that those of other extents lead to",
                remedy,
            )
    return found


def kernel_of(origin: str, extents: Extents, trace: Trace, program: SymbolicProgram) -> Kernel:
    """Return a schedule for any extents; ``InvalidTrace`` where it does not apply."""
    if not len(trace):
        return Kernel(origin, extents, trace, program.mod)
    assert trace.workload is not None
    mod = to_symbolic(trace.instructions, trace.workload, program.mod)
    return Kernel(origin, extents, trace, mod)


def kernel_alone(origin: str, extents: Extents, trace: Trace) -> Kernel:
    """Return a schedule for its shape alone."""
    return Kernel(origin, extents, trace, trace.replay().mod, alone=True)


def in_one(
    program: SymbolicProgram, bounds: Bounds, tree: Tree, kernels: Sequence[Kernel]
) -> TensorProgram:
    """Return one function that takes the kernel that the tree says; it fails outside the bounds."""
    branching = Branching(program)

    def statement(node: Tree) -> object:
        if isinstance(node, Split):
            below, above = statement(node.below), statement(node.above)
            return branching.branch(node.name, node.at, below, above)
        assert isinstance(node, Leaf)
        return branching.leaf(kernels[node.kernel].mod)

    return branching.function(branching.within(bounds, statement(tree)))


# -- The program of a single shape of a set -------------------------------------------------------


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
