"""``tune_shapes``: one tuning for many shapes of a program."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from schedlang.database import Database
from schedlang.errors import InvalidTrace, WorkloadError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Measurer
from schedlang.measurement.problem import Problem
from schedlang.networks.display import Display
from schedlang.networks.network_session import NetworkSession
from schedlang.networks.network_tasks import SharedTask
from schedlang.networks.tuning import check_for_tasks, session_of
from schedlang.search import MakeStrategy
from schedlang.shapes.dispatch import Bound
from schedlang.shapes.extents import EXACT, Extents, Range, as_shapes
from schedlang.shapes.plan import (
    Exchange,
    Expectation,
    Programs,
    ShapesScheduler,
    plan,
    without_small,
)
from schedlang.shapes.ranges import (
    BestKnown,
    Kernel,
    PointKernel,
    RangeFit,
    RangeKernels,
    kernel_alone,
    kernel_of,
)
from schedlang.shapes.shape_set import ShapeSet
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space
from schedlang.targets import Target
from schedlang.targets.roofline import bytes_of
from schedlang.tuning.kernels.defaults import default_schedule
from schedlang.tuning.options import TRIALS, TUNE_NETWORK, TUNE_SHAPES, check_values
from schedlang.tuning.result import TuneResult
from schedlang.tuning.session import Call
from schedlang.tuning.tasks import as_space
from schedlang.tvm.program import structural_key
from schedlang.tvm.symbolic_program import SymbolicProgram
from schedlang.workloads.construct import Template, assigned
from schedlang.workloads.workload import Workload

# Kernels that are measured at the samples of a range, besides the default one.
_CANDIDATES = 8


def tune_shapes(
    template: Callable[..., Any],
    shapes: Any,
    target: Target | str = "cpu",
    *,
    trials: int = TRIALS,
    share: float = 0.2,
    loss: float = 0.05,
    worst: float = 0.15,
    kernels: int = 6,
    exact: int = EXACT,
    seconds: float | None = None,
    seed: int = 0,
    space: Space | Module | None = None,
    search: str | MakeStrategy = "auto",
    database: Database | str | os.PathLike[str] | None = None,
    finals: int = 3,
    measurer: Measurer | None = None,
    progress: bool | None = None,
) -> ShapeSet:
    """Tune a program for many shapes, or ranges of them, with one budget.

    A few shapes, to which the others are near, or which are like no other, are tuned in earnest.
    What was fast for them is carried over to the others and measured there, with a few trials more;
    what is left of the budget goes to shapes that take longer than they should, and at the end what
    became fast for one is tried on those near it. For a range, schedules are applied to the program
    with symbolic extents, where tiles keep their sizes and the last one is cut off. A few of these
    kernels, and a tree of comparisons over the extents, serve all shapes of the range.

    Parameters
    ----------
    template: ``f(**extents)`` returns a program: TE tensors, a PrimFunc, a ``Workload``.
    shapes: extents by name, such as ``{"rows": 64, "width": 768}``; a sequence of such, alone or in
        a pair with a weight; or the path of a log with one in JSON on each line. An extent may be a
        ``range``, or the pair of its bounds. A shape that occurs again counts again.
    target: a ``Target`` or its name.
    trials: candidates that are measured of each shape that is tuned in earnest.
    share: part of the measurements that tuning each single shape by itself would take, for all of
        them. One shape is tuned in any case, and the others have some trials. Ranges add what
        tuning three or more shapes of each takes, and measuring kernels at some ten.
    loss, worst: how much slower than the best known program the shapes of a range may be, in the
        geometric mean and each of them, before another kernel is added.
    kernels: of a range, at most, besides the default schedule.
    exact: where one extent of a range varies, each value up to this one has a kernel of its own: in
        few iterations, a tile that is cut off is a large part of the work.
    seconds: wall time of the tuning, as in ``tune_network``; kernels of ranges are measured after
        that. Shapes that are not reached have default schedules.
    seed: of searches and random inputs.
    space, search: as ``tune_network`` has them.
    database: where records go; the same call goes on from there. Kernels of ranges are measured
        again.
    finals: as ``tune_network`` has it.
    measurer: one of ``schedlang.measurer``; by default the target's own, on this machine.
    progress: show the shapes as they go; None does so on a terminal.

    Every result is verified: kernels of ranges also at their bounds, next to them, at primes, and
    at extents that no measuring saw. A shape for which the template fails is named in
    ``ShapeSet.failed``, and the others go on. Ctrl-C ends the call as it ends ``tune_network``.

    Raises ValueError for wrong shapes and numbers, ``WorkloadError`` where the template fails for
    all of them, and what ``tune_network`` raises.
    """
    check_values(TUNE_SHAPES, locals())
    asked = without_small(as_shapes(shapes, exact))
    bound = Bound(loss, worst)
    made = Programs(Template(template), asked)
    tasks, far = made.tasks()
    first, total, room = plan(made, trials, share)
    given: dict[str, Any] = {option.name: option.default for option in TUNE_NETWORK} | {
        "target": target,
        "trials": total,
        "seconds": seconds,
        "seed": seed,
        "space": space,
        "search": search,
        "finals": finals,
        "measurer": measurer,
        "progress": progress,
        "database": Database() if database is None else database,
    }
    call = Call(TUNE_NETWORK, given, total)
    own = None if space is None else as_space(space)
    check_for_tasks(len(tasks), search, measurer)
    expectation = Expectation([_work(task) for task in tasks])
    scheduler = ShapesScheduler(first, trials, far, expectation)
    with ExitStack() as stack:
        call.open(stack)
        title = made.template.name

        def carry_on(known: dict[int, BestKnown], display: Display) -> list[RangeKernels]:
            if own is None and call.measuring.machine_key == call.target.key:
                display.say("what became fast for others")
                _exchange(tasks, call, room).run(known, expectation)
            display.say("kernels of ranges" if made.unified else "")
            return _ranges(made, known, call, bound, kernels)

        session = session_of(
            (),
            tasks,
            call,
            stack,
            scheduler,
            search,
            own,
            partial(ShapesSession, carry_on=carry_on),
            name=title,
            stored=database is not None,
            kept="nothing is stored without database=",
        )
        session.restore_clock()
        shown = f"tuning shapes of {title}", session.runs, total, progress, call.budget.clock
        result = session.tune(Display(*shown))
        known = session.known or _known({k: one.result for k, one in enumerate(result.tasks)})
        return _set_of(made, known, session.ranges, call, trials, interrupted=result.interrupted)


class ShapesSession(NetworkSession):
    """The session of ``tune_shapes``: that of a network, whose tasks are the shapes.

    Parameters
    ----------
    given, named: as of a ``NetworkSession``.
    carry_on: follows the finals: changes what is known of each task, and returns kernels of ranges.

    Attributes
    ----------
    known: the fastest program of each task, by its place; empty before the finals have ended.
    ranges: what ``carry_on`` returned; empty before.
    """

    def __init__(
        self,
        *given: Any,
        carry_on: Callable[[dict[int, BestKnown], Display], list[RangeKernels]],
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        self._carry_on = carry_on
        self.known: dict[int, BestKnown] = {}
        self.ranges: Sequence[RangeKernels] = ()

    def conclude(self, display: Display, finished: str) -> None:
        super().conclude(display, finished)
        self.known = _known({place: run.result(finished) for place, run in enumerate(self.runs)})
        self.ranges = self._carry_on(self.known, display)


def _work(task: SharedTask) -> tuple[float, float]:
    """Return operations, or elements where there are none, and bytes of a call."""
    workload = task.task.workload
    elements = sum(math.prod(arg.shape) for arg in workload.args)
    return float(task.task.flops or elements), float(bytes_of(workload))


def _known(results: Mapping[int, TuneResult | None]) -> dict[int, BestKnown]:
    return {
        place: BestKnown(one.best.trace, one.best.latency, len(one.records))
        for place, one in results.items()
        if one is not None and one.has_best
    }


def _exchange(tasks: Sequence[SharedTask], call: Call, room: int) -> Exchange:
    workloads = [task.task.workload for task in tasks]
    assert call.database is not None
    bind, over = partial(_verifying, call), lambda: call.budget.left <= 0
    return Exchange(workloads, call.target, call.database, bind, room, over)


def _verifying(call: Call, workload: Workload) -> Measurer:
    """Return the measurer of a program, which verifies every result."""
    return call.measuring.on(workload, Problem(verify="all", seed=call.seed))


def _ranges(
    made: Programs,
    known: Mapping[int, BestKnown],
    call: Call,
    bound: Bound,
    most: int,
) -> list[RangeKernels]:
    """Measure kernels of each range; one that has none is named in ``failed``."""

    def bind(extents: Extents) -> Measurer:
        return _verifying(call, made.template(extents))

    tuned = {tuple(made.shapes[place].values()): one for place, one in known.items()}
    latencies = {key: best.latency for key, best in tuned.items()}
    found = []
    for asked, symbolic, _ in made.unified:
        try:
            kernels, exact = _candidates(asked, symbolic, tuned)
            kernels.append(_default(asked, symbolic, made.template, call.target))
            fit = RangeFit(asked, symbolic, kernels, exact, bind, latencies)
            found.append(fit.run(bound, most))
        except WorkloadError as error:
            made.failed[str(asked)] = str(error)
    return found


def _candidates(
    asked: Range, symbolic: SymbolicProgram, tuned: Mapping[tuple[int, ...], BestKnown]
) -> tuple[list[Kernel], dict[int, Kernel]]:
    """Return kernels for any extents of a range, and those for one value of the one that varies.

    ``tuned`` has the best programs of shapes, by the values of their extents.
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
                kernel = kernel_of(origin, extents, best.trace, symbolic)
                different.setdefault(structural_key(kernel.mod), kernel)
    return [*different.values()][:_CANDIDATES], exact


def _default(asked: Range, symbolic: SymbolicProgram, template: Template, target: Target) -> Kernel:
    """Return the default schedule of a shape in the middle, or the unscheduled program."""
    samples = asked.samples()
    extents = samples[len(samples) // 2]
    workload = template(extents)
    with suppress(InvalidTrace):
        trace = default_schedule(workload, target).trace
        return kernel_of("default schedule", extents, trace, symbolic)
    return kernel_of("unscheduled", extents, Schedule(workload).trace, symbolic)


def _set_of(
    made: Programs,
    known: Mapping[int, BestKnown],
    ranges: Sequence[RangeKernels],
    call: Call,
    trials: int,
    *,
    interrupted: bool = False,
) -> ShapeSet:
    points = []
    for extents, weight, place in made.points:
        found = known.get(place)
        if found is None:
            trace = default_schedule(made.template(extents), call.target).trace
            points.append(PointKernel(extents, weight, trace, "default schedule", math.nan, 0))
            continue
        how = "tuned" if found.trials >= trials else "carried over"
        points.append(PointKernel(extents, weight, found.trace, how, found.latency, found.trials))
    measured = sum(one.trials for one in known.values())
    return ShapeSet(
        made.template,
        call.target,
        made.asked.names,
        tuple(points),
        tuple(ranges),
        dict(made.failed),
        measured + sum(one.measured for one in ranges),
        call.budget.elapsed,
        interrupted,
    )
