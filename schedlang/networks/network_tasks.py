"""The tasks of networks as they are tuned: merged between networks, in slices, by their share.

``shared_tasks`` merges the tasks of several networks that have one key. A ``SlicedTask`` is tuned
in slices: opened at the first, continued at each, concluded once. ``shares_of`` says which part
of the networks' time each task takes. ``representatives`` are a few sizes that stand for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from schedlang.database import Record
from schedlang.errors import SpaceError, WorkloadError
from schedlang.measurement import Status
from schedlang.networks.network import Network
from schedlang.networks.sizes import NetworkSet, differing
from schedlang.networks.tasks import Task, Total
from schedlang.search.tasks import HALF, TaskProgress
from schedlang.tuning.result import TuneResult
from schedlang.tuning.session import Call, Slice, TaskRun
from schedlang.tuning.session.ending import Ending
from schedlang.tuning.session.live_view import Progress
from schedlang.tuning.tasks import why_untunable
from schedlang.workloads.structural_key import coordinates

# -- A task that is tuned in slices ---------------------------------------------------------------

MOVING_TRIALS = 2
"""Most trials of a task that computes nothing: its space holds hardly more."""

# Of a task, where it stands with and without the slices that are under way.
_KEPT_PROGRESS = 4


class SlicedTask:
    """A task and its slices: opened at the first, continued at each, concluded once.

    What earlier calls of the run measured comes first: slices of it measure nothing, and the
    history after each is what it was then.

    Parameters
    ----------
    shared: the task, and how often networks call it.
    run: of the task.
    is_final: says of an ending whether more trials would change nothing.

    Attributes
    ----------
    shared, run: as given.
    trials: number of candidates in the slices so far, those of earlier calls included.
    history: trials so far and best latency in seconds, after each slice.
    finished: why the search has ended; empty while it has not.
    failed: why the task cannot be tuned; empty if it can.
    """

    def __init__(
        self, shared: SharedTask, run: TaskRun, is_final: Callable[[Ending], bool]
    ) -> None:
        self.shared = shared
        self.trials = 0
        self.history: list[tuple[int, float]] = []
        self.finished = ""
        self.failed = ""
        self.run = run
        self._is_final = is_final
        self._opened = False
        self._earlier: Sequence[Record] = ()
        self._unscheduled = math.nan
        self._progress: dict[tuple[object, ...], TaskProgress] = {}

    @property
    def progress(self) -> TaskProgress:
        """What a scheduler knows of it."""
        return self._progress_after(self.trials, bool(self.finished or self.failed))

    def _progress_after(self, trials: int, finished: bool) -> TaskProgress:
        """Return what a scheduler knows of it, with this number of trials."""
        # Schedulers ask for all tasks before each slice, and one has changed.
        key = trials, finished, len(self.history), self._unscheduled
        if key not in self._progress:
            if len(self._progress) >= _KEPT_PROGRESS:
                self._progress.clear()
            task = self.shared.task
            self._progress[key] = TaskProgress(
                weights=self.shared.weights,
                flops=task.flops,
                kin=task.workload.kin_key,
                trials=trials,
                latencies=tuple(self.history),
                default=self._unscheduled,
                most=MOVING_TRIALS if task.moves_data else None,
                finished=finished,
            )
        return self._progress[key]

    @property
    def latency(self) -> float:
        """The lowest latency known, in seconds; NaN if none is."""
        return self.progress.latency

    @property
    def seconds(self) -> float:
        """Wall time that earlier calls had used when they last asked its search."""
        return self.run.seconds

    def advance(self, trials: int, progress: Progress, seconds: float = math.inf) -> bool:
        """Take a slice of this many trials; return whether anything was measured.

        One trial is measured at least; those that would begin after ``seconds`` are left to the
        next slice. A program that cannot be tuned sets ``failed``; other errors are raised.
        """
        wanted = self.trials + trials
        measured = cut = False
        try:
            self._open()
            if self._stored_trials < wanted and not self._exhausted:
                found = self._search(wanted, progress, seconds)
                measured, cut = len(found.records) > 0, found.cut
        except (WorkloadError, SpaceError) as error:
            self.failed = why_untunable(error)
        finally:
            self.trials = min(wanted, self._stored_trials)
            self.history.append((self.trials, self._best_of(self.trials)))
        short = self._stored_trials < wanted and not cut
        if short and not self.failed:
            self.finished = self.finished or "the search has nothing left"
        return measured

    def _open(self) -> None:
        """Open the run; where it had ended, its records are all that is read."""
        if self._opened:
            return
        self.run.open()
        self._opened = True
        unscheduled = None
        if self.run.ending is not None:
            self._earlier, unscheduled = self.run.stored_records()
        elif not self.run.is_new:
            unscheduled = self.run.find_unscheduled()
        self._unscheduled = math.nan if unscheduled is None else unscheduled.latency

    @property
    def out_of_time(self) -> bool:
        """Whether the budget ended its last slice."""
        return self.run.out_of_time

    def _search(self, wanted: int, progress: Progress, seconds: float) -> Slice:
        found = self.run.advance(wanted, progress, seconds)
        self._unscheduled = self.run.unscheduled_latency
        if self.run.trials < wanted and not found.cut:
            self.finished = found.finished
        return found

    @property
    def _records(self) -> Sequence[Record]:
        return self.run.records if self.run.is_open else self._earlier

    @property
    def _stored_trials(self) -> int:
        return sum(record.status is not Status.REJECTED for record in self._records)

    @property
    def _exhausted(self) -> bool:
        ending = self.run.ending
        return not self.run.is_open and ending is not None and self._is_final(ending)

    def _best_of(self, trials: int) -> float:
        """Return the best latency of the first ``trials`` candidates; NaN without any."""
        first, count = list[Record](), 0
        for record in self._records:
            count += record.status is not Status.REJECTED
            if count > trials:
                break
            first.append(record)
        return self.run.best_of(first)

    # -- the end ---------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether this call continued it, so that it needs an ending."""
        return self.run.is_open and not self.failed

    def conclude(self, finals_seconds: float, finished: str) -> None:
        """Hold the finals, whose samples take this many seconds at most; store how it ended."""
        self.run.conclude(finals_seconds)
        self._store(finished)

    def blame(self, finished: str) -> None:
        """Where a result was wrong, find out which instruction is at fault, and store that."""
        if self.run.blame():
            self._store(finished)

    def _store(self, finished: str) -> None:
        self.run.store(self.run.result(self.finished or finished))

    @property
    def keeps_default(self) -> bool:
        """Whether the default schedule is the fastest, as far as this call knows."""
        return self.run.keeps_default and not self.failed

    def result(self, finished: str) -> TuneResult | None:
        """Return the result so far; None where nothing was opened or the task failed.

        A task that failed keeps the result of the earlier call that ended its run.
        """
        if self.is_open:
            return self.run.result(self.finished or finished)
        return None if self.run.ending is None else self.run.stored_result()


# -- The tasks of several networks, those with one key merged -------------------------------------


@dataclass(frozen=True)
class SharedTask:
    """A task, and how often each of the networks calls it in one run.

    Attributes
    ----------
    task: as the first network has it that calls it.
    weights: number of calls, one number for each network.
    sizes: of the networks that call it, where all are one model; empty otherwise.
    follows: whether its search begins with what was fast for representatives, of which none calls
        it.
    """

    task: Task
    weights: tuple[int, ...]
    sizes: str = ""
    follows: bool = False

    @property
    def name(self) -> str:
        """The name of the task, with the sizes that it is of."""
        return f"{self.task.name} at {self.sizes}" if self.sizes else self.task.name

    @property
    def operations(self) -> float:
        """Arithmetic operations of all its calls."""
        return sum(self.weights) * self.task.flops


def shared_tasks(
    networks: Sequence[Network],
    sizes: Sequence[str] = (),
    representatives: Collection[int] = (),
) -> list[SharedTask]:
    """Return the distinct tasks, those with most arithmetic first.

    Parameters
    ----------
    networks: that call them.
    sizes: of the networks, where they are one model.
    representatives: places of the networks to tune first; empty where all are alike.
    """
    merged: dict[str, tuple[Task, list[int]]] = {}
    for position, network in enumerate(networks):
        for task in network.tasks:
            first, weights = merged.setdefault(task.workload.exact_key, (task, [0] * len(networks)))
            weights[position] += task.weight
    found = [
        SharedTask(
            task,
            tuple(weights),
            sizes_text(sizes, weights),
            bool(representatives) and not any(weights[place] for place in representatives),
        )
        for task, weights in merged.values()
    ]
    return sorted(found, key=lambda one: -one.operations)


def sizes_text(sizes: Sequence[str], weights: Sequence[float]) -> str:
    """Return the sizes whose networks call a task: one, ``16 and 3 others``, or ``all sizes``."""
    called = [size for size, weight in zip(sizes, weights, strict=False) if weight]
    if len(called) < 2:
        return "".join(called)
    if len(called) == len(sizes):
        return "all sizes"
    return f"{called[0]} and {len(called) - 1} other{'s' if len(called) > 2 else ''}"


# -- Which part of the networks' time each task takes ---------------------------------------------


@dataclass(frozen=True)
class Shares:
    """The time of the tasks whose latency is known.

    Attributes
    ----------
    total: of one run of all networks, as far as latencies are known.
    parts: fraction of ``total`` for each task; 0 where its latency is not known.
    """

    total: Total
    parts: tuple[float, ...]


def shares_of(runs: Sequence[SlicedTask]) -> Shares:
    """Return the share of each task."""
    seconds = [sum(run.shared.weights) * run.latency for run in runs]
    total = Total.of(seconds)
    shares = map(total.share, seconds)
    return Shares(total, tuple(share if share > 0 else 0.0 for share in shares))


# -- Which sizes of a model are tuned first -------------------------------------------------------

# Fewest trials for each task of a representative: fewer would leave all of them half tuned.
_TRIALS_EACH = 24
_MOST = 4
# About what a trial takes, where only seconds are given.
_SECONDS_EACH = 1.0


def chosen_representatives(networks: NetworkSet, call: Call) -> tuple[int, ...]:
    """Return the places of the sizes to tune first: as many as the budget serves, 4 at most.

    A size that is never called is none of them.
    """
    trials = call.trials
    if trials is None:
        trials = int(call.budget.seconds / _SECONDS_EACH)
    computing = sum(not task.moves_data for one in networks for task in one.tasks)
    each = _TRIALS_EACH * max(computing / len(networks), 1)
    count = min(max(int(HALF * trials / each), 1), _MOST, sum(one > 0 for one in networks.weights))
    return representatives(differing(networks.shapes), networks.weights, count)


def used_part(call: Call) -> Callable[[Sequence[TaskProgress]], float]:
    """Return a function that says which fraction of trials, or of the time, is used."""

    def used(progress: Sequence[TaskProgress]) -> float:
        by_time = call.budget.used / call.budget.seconds
        if call.trials is None:
            return by_time
        return max(sum(task.trials for task in progress) / max(call.trials, 1), by_time)

    return used


# -- Medoids by the extents that differ -----------------------------------------------------------

# Sizes whose extents differ by less than this (logarithm of the ratio) are neighbours.
_NEAR = 0.25
# A size is isolated where its distance to the nearest other is more than this, and that many times
# what it is in the median. Of fewer sizes nothing is told.
_ISOLATED, _FEWEST = 3.0, 4


def representatives(
    extents: Sequence[Sequence[int]], weights: Sequence[float], count: int
) -> tuple[int, ...]:
    """Return the places of ``count`` sizes, or fewer, so that the others are near to one of them.

    Each is added where it lowers the weighted sum of the distances to the nearest most, and then
    moved while that lowers it (PAM: Kaufman and Rousseeuw, 1990). A size is passed over for a
    neighbour that has more divisors, and is called as often: tiles of 16 carry over to 17, but not
    those of 17 to 16. One that is never called stands for none.

    Parameters
    ----------
    extents: for each size those that differ.
    weights: how often each size is called.
    """
    far = distances(extents)
    logarithms = np.log(np.maximum(np.array(extents, dtype=float), 1.0))
    alike = np.abs(logarithms[:, None, :] - logarithms[None, :, :]).sum(axis=2) < _NEAR
    weight = np.array(weights, dtype=float)
    divisors = np.array([sum(map(_divisors, one)) for one in extents])
    better = (divisors[None, :] > divisors[:, None]) & (weight[None, :] >= weight[:, None])
    called = (weight > 0) | ~weight.any()
    able = np.flatnonzero(~(alike & better).any(axis=1) & called)
    chosen: list[int] = []
    nearest = np.full(len(weight), np.inf)
    for _ in range(min(count, len(able))):
        chosen.append(_cheapest(nearest, far, weight, able, chosen)[0])
        nearest = np.minimum(nearest, far[:, chosen[-1]])
    while _moved(chosen, far, weight, able):
        pass
    return tuple(sorted(chosen))


def isolated(extents: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the places of sizes that are like no other, the farthest first.

    What is fast for others says little of them.
    """
    if len(extents) < _FEWEST:
        return ()
    far = distances(extents)
    np.fill_diagonal(far, np.inf)
    nearest = far.min(axis=1)
    limit = max(_ISOLATED * float(np.median(nearest)), _ISOLATED)
    return tuple(int(k) for k in np.argsort(-nearest, kind="stable") if nearest[k] > limit)


def distances(extents: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the distance between each two sizes (``nearness``)."""
    places = np.array([coordinates(one) for one in extents])
    return np.array([np.abs(places - one).sum(axis=1) for one in places])


def _cheapest(
    nearest: np.ndarray, far: np.ndarray, weight: np.ndarray, able: np.ndarray, taken: Sequence[int]
) -> tuple[int, float]:
    """Return the size that is best to add, and the weighted sum of distances with it."""
    costs = weight @ np.minimum(nearest[:, None], far[:, able])
    costs[np.isin(able, taken)] = np.inf
    place = int(np.argmin(costs))
    return int(able[place]), float(costs[place])


def _moved(chosen: list[int], far: np.ndarray, weight: np.ndarray, able: np.ndarray) -> bool:
    """Replace one of the chosen where that lowers the sum; return whether it did."""
    now = float(weight @ far[:, chosen].min(axis=1))
    for place in range(len(chosen)):
        others = [*chosen[:place], *chosen[place + 1 :]]
        rest = far[:, others].min(axis=1) if others else np.full(len(weight), np.inf)
        size, cost = _cheapest(rest, far, weight, able, chosen)
        if cost < now * (1 - 1e-9):
            chosen[place] = size
            return True
    return False


def _divisors(number: int) -> int:
    small = [one for one in range(1, math.isqrt(number) + 1) if number % one == 0]
    return 2 * len(small) - (small[-1] ** 2 == number) if small else 0
