"""The kernels of a set: of a single shape, and of a range.

Those of a range are made for any extents, chosen by measuring them, verified, and put in one
function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from schedlang.errors import WorkloadError
from schedlang.interpreters.conversions import to_symbolic
from schedlang.language.schedule import Trace
from schedlang.measurement import Candidate, Measurement, Measurer, Status
from schedlang.shapes.dispatch import (
    Bound,
    Leaf,
    Split,
    Tree,
    cover,
    fit_tree,
    labels_of,
    mean_of,
    regions,
    relabelled,
    with_exact,
)
from schedlang.shapes.extents import MOST, TILES, Extents, Range
from schedlang.tvm.program import TensorProgram, intermediate_shapes
from schedlang.tvm.served_extents import Bounds, Branching, Served
from schedlang.tvm.symbolic_program import SymbolicProgram, UnifyError, unify
from schedlang.workloads.construct import Template, assigned

# -- The kernels of a set: of a single shape, and of a range --------------------------------------
#
# Those of a range are made for any extents, chosen by measuring, and put in one function.

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
class BestKnown:
    """The best program of a shape that is known.

    Attributes
    ----------
    trace: makes it; empty for the unscheduled program.
    latency: in seconds.
    trials: candidates that were measured for the shape.
    """

    trace: Trace
    latency: float
    trials: int


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


# -- The kernels of a range chosen by measuring them ----------------------------------------------

Bind = Callable[[Extents], Measurer]


class RangeFit:
    """Measures kernels at samples of a range, and makes one function of the best ones.

    Parameters
    ----------
    asked: the range.
    program: the unscheduled program, for any extents.
    kernels: candidates; the last one is the default, which takes regions where others fail.
    exact: kernels for one value each of the only extent that varies.
    bind: returns the measurer, bound to the program for some extents.
    known: the least latency that tuning found for a shape, in seconds, by its extents' values.

    Attributes
    ----------
    measured: number of measurements so far.
    """

    def __init__(
        self,
        asked: Range,
        program: SymbolicProgram,
        kernels: Sequence[Kernel],
        exact: Mapping[int, Kernel],
        bind: Bind,
        known: Mapping[tuple[int, ...], float],
    ) -> None:
        self._range, self._program, self._kernels = asked, program, list(kernels)
        self._exact = dict(exact)
        self._bind = bind
        self._known = known
        self._samples = asked.large().samples()
        self.measured = 0
        self._wrong: set[int] = set()
        self._refusals: dict[int, str] = {}
        self._latencies = np.full((len(self._samples), len(kernels)), np.inf)

    def run(self, bound: Bound, most: int) -> RangeKernels:
        """Measure; choose; verify at shapes that no measuring saw, and choose again without those.

        ``WorkloadError`` where even the default kernel is wrong, or cannot be built.
        """
        for row, extents in enumerate(self._samples):
            for found in self._measure(extents, [kernel.mod for kernel in self._kernels]):
                self._note(row, found)
        while True:
            made = self._chosen(bound, most)
            probes = [one for one in self._range.probes() if one not in self._samples]
            wrong = {self._wrong_kernel(made, extents) for extents in probes} - {None}
            if not wrong:
                break
            self._wrong |= {self._kernels.index(one) for one in wrong if one in self._kernels}
            self._exact = {at: one for at, one in self._exact.items() if one not in wrong}
        edges = [self._range.edge(0), self._range.edge(1)]
        for extents in [*edges, *self._range.small()[-1:], *self._samples[:1]]:
            [found] = self._measure(extents, [made.mod])
            if found.status is not Status.OK or not found.verified:
                raise WorkloadError(
                    f"{self._range}: the kernels in one function fail for {assigned(extents)}: "
                    f"{found.status}: {found.message}"
                )
        verified = [*self._samples, *probes, *self._range.small()]
        verified = [one for k, one in enumerate(verified) if one not in verified[:k]]
        return replace(made, verified=tuple(verified), measured=self.measured)

    def _wrong_kernel(self, made: RangeKernels, extents: Extents) -> Kernel | None:
        """Return the kernel that a shape takes if its results are wrong there."""
        kernel = made.kernels[made.tree.find(extents)]
        if kernel.alone and kernel.extents == extents:
            return None  # its tuning has verified it
        [found] = self._measure(extents, [kernel.mod])
        return None if found.status is Status.OK and found.verified else kernel

    def _measure(self, extents: Extents, mods: Sequence[TensorProgram]) -> list[Measurement]:
        self.measured += len(mods)
        measurer = self._bind(extents)
        return list(measurer.measure([Candidate(k, mod) for k, mod in enumerate(mods)]))

    def _note(self, row: int, found: Measurement) -> None:
        if found.status is Status.OK and found.verified:
            self._latencies[row, found.id] = found.latency
            return
        self._refusals[row] = f"{found.status}: {found.message}"  # the default's is last
        if found.status is Status.WRONG_RESULT:
            self._wrong.add(found.id)

    def _chosen(self, bound: Bound, most: int) -> RangeKernels:
        latencies = self._latencies.copy()
        latencies[:, list(self._wrong)] = np.inf
        usable = [k for k in range(len(self._kernels)) if k not in self._wrong]
        default = len(self._kernels) - 1
        if default not in usable:
            raise WorkloadError(f"{self._range}: the default schedule gives wrong results")
        own = [self._known.get(tuple(one.values()), math.inf) for one in self._samples]
        best = np.minimum(latencies.min(axis=1), own)
        if not np.isfinite(best).all():
            place = int(np.argmin(np.isfinite(best)))
            raise WorkloadError(
                f"no kernel runs for {assigned(self._samples[place])}: {self._refusals.get(place)}"
            )
        losses = latencies / best[:, None]
        weights = np.ones(len(self._samples))
        kept = cover(losses[:, usable], weights, bound, most)
        chosen = sorted(usable[k] for k in kept)
        if default not in chosen:
            chosen.append(default)
        place = chosen.index(default)
        tree = fit_tree(self._samples, losses[:, chosen], weights, place)
        regret = self._left_out(losses[:, chosen], weights, place)
        latencies = latencies[:, chosen]
        everywhere = [self._kernels[k] for k in chosen]
        if self._exact:
            [name] = self._range.varying
            numbers = {at: len(chosen) + k for k, at in enumerate(sorted(self._exact))}
            tree = with_exact(name, numbers, tree, self._range.bounds[name][0])
            everywhere += [self._exact[at] for at in sorted(self._exact)]
        used = sorted(labels_of(tree))
        tree = relabelled(tree, {old: new for new, old in enumerate(used)})
        kernels = tuple(everywhere[k] for k in used)
        return RangeKernels(
            self._range,
            self._program,
            kernels,
            tree,
            in_one(self._program, self._range.bounds, tree, kernels),
            tuple(self._samples),
            latencies[:, [k for k in used if k < len(chosen)]],
            best,
            regret,
            (),
        )

    def _left_out(self, losses: np.ndarray, weights: np.ndarray, default: int) -> np.ndarray:
        """Return the loss of each sample with a tree that was made without it."""
        found = []
        for row, extents in enumerate(self._samples):
            others = [k for k in range(len(self._samples)) if k != row]
            if not others:
                return np.ones(1)
            tree = fit_tree(
                [self._samples[k] for k in others], losses[others], weights[others], default
            )
            found.append(losses[row, tree.find(extents)])
        return np.array(found)
