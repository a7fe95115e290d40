"""Choosing the kernels of a range by measuring them, and verifying the choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from schedlang.errors import InvalidTrace, WorkloadError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate, Measurement, Measurer, Status
from schedlang.shapes.dispatch import Bound, cover, fit_tree, labels_of, relabelled, with_exact
from schedlang.shapes.extents import Extents, Range
from schedlang.shapes.range_kernels import Kernel, RangeKernels, in_one, kernel_alone, kernel_of
from schedlang.shapes.scheduler import BestKnown
from schedlang.targets import Target
from schedlang.tuning.kernels.defaults import default_schedule
from schedlang.tvm.program import structural_key
from schedlang.tvm.symbolic import SymbolicProgram
from schedlang.workloads.construct import Template, assigned

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

Bind = Callable[[Extents], Measurer]
# Kernels that are measured at the samples of a range, besides the default one.
_CANDIDATES = 8


def kernels_of(
    asked: Range,
    template: Template,
    program: SymbolicProgram,
    tuned: Mapping[tuple[int, ...], BestKnown],
    bind: Bind,
    target: Target,
    bound: Bound,
    most: int,
) -> RangeKernels:
    """Make kernels of what was tuned in a range, measure them, and choose.

    Parameters
    ----------
    tuned: the best programs of shapes, by the values of their extents.
    bind: returns a measurer, bound to the program for some extents, that verifies every candidate.
    most: number of kernels at most, besides the default schedule.

    ``WorkloadError`` where there are none.
    """
    different: dict[str, Kernel] = {}
    exact: dict[int, Kernel] = {}
    small = {tuple(one.values()) for one in asked.small()}
    for key, best in tuned.items():
        extents = dict(zip(asked.bounds, key, strict=True))
        if key in small:
            [name] = asked.varying
            origin = f"for {name}={extents[name]} alone"
            exact[extents[name]] = kernel_alone(origin, extents, best.trace)
        if extents in asked.large() and len(best.trace):
            with suppress(InvalidTrace):
                origin = f"tuned at {assigned(extents)}"
                kernel = kernel_of(origin, extents, best.trace, program)
                different.setdefault(structural_key(kernel.mod), kernel)
    kernels = [*different.values()][:_CANDIDATES]
    kernels.append(_default(asked, template, program, target))
    known = {key: best.latency for key, best in tuned.items()}
    return RangeFit(asked, program, kernels, exact, bind, known).run(bound, most)


def _default(asked: Range, template: Template, program: SymbolicProgram, target: Target) -> Kernel:
    """Return the default schedule of a shape in the middle, or the unscheduled program."""
    samples = asked.samples()
    extents = samples[len(samples) // 2]
    workload = template(extents)
    with suppress(InvalidTrace):
        trace = default_schedule(workload, target).trace
        return kernel_of("default schedule", extents, trace, program)
    return kernel_of("unscheduled", extents, Schedule(workload).trace, program)


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
