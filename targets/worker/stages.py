"""The stage scheduler: takes programs through build lanes and run lanes, on any kind of machine."""

from __future__ import annotations

import math
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator

from schedlang.errors import TargetError
from schedlang.measurement import Status
from schedlang.targets.worker.executor import Executor, Work, program_of
from schedlang.targets.worker.pool import Slot, WorkerPool, idle_slots, wait_for_reply
from schedlang.targets.worker.protocol import Reply, Request

Done = tuple[Work, Reply]
"""A program, and the last reply about it."""


class Stages:
    """Takes every program through its stages until it has a last reply.

    A program whose worker is lost, which an earlier one may have damaged, is a suspect: it has a
    second chance in a fresh worker. One with large code waits until the size of others is known.
    Where builds and runs must not overlap, they take turns, and large code waits until others ran.

    Parameters
    ----------
    executor: the kind of machine.
    build_timeout: how long to wait for a build, and how large its code may be.
    recycle_after: a worker is replaced after this many requests.
    seconds: wall time spent waiting is added to it: ``start``, ``build`` (nothing runs), ``run``.

    Attributes
    ----------
    building, running: the program in each lane, and the step that it is at.
    """

    def __init__(
        self,
        executor: Executor,
        build_timeout: BuildTimeout,
        recycle_after: int,
        seconds: dict[str, float],
    ) -> None:
        self.building: dict[Slot, Work] = {}
        self.running: dict[Slot, tuple[Work, str]] = {}
        self._executor = executor
        self._build_timeout = build_timeout
        self._recycle_after = recycle_after
        self._seconds = seconds
        self._builds_turn = True
        self._runs = True

    @property
    def _pools(self) -> list[WorkerPool]:
        executor = self._executor
        own = executor.builders is not executor.runners
        return [executor.builders, executor.runners] if own else [executor.runners]

    def drive(
        self,
        queue: deque[Work],
        ready: deque[Work],
        run: Callable[[Work], Request] | None,
        until: float = math.inf,
    ) -> Iterator[Done]:
        """Build and run until all have a last reply, or until ``until`` (of ``time.monotonic``).

        ``ready`` are built already; without ``run``, what this builds is added to them. Programs
        without a last reply at the end are dropped. Builds go on while the consumer has control
        only where they may overlap with runs.
        """
        executor, done, self._builds_turn = self._executor, list[Done](), True
        self._runs = run is not None
        if run is not None:
            executor.run = run
        try:
            while (queue or self.building or self.running or (ready and run is not None)) and (
                time.monotonic() < until
            ):
                self._turn(queue, ready)
                self._populate(queue, ready, runs=run is not None)
                if executor.overlap or self._builds_turn:
                    done += self._submit_builds(queue, ready, math.inf if run is None else None)
                    self._turn(queue, ready)
                if run is not None and (executor.overlap or not self._builds_turn):
                    started = time.perf_counter()
                    self._submit_runs(queue, ready)
                    self._seconds["run"] += time.perf_counter() - started
                done += self._collect(queue, ready, until)
                if executor.overlap or not self.building:
                    yield from done
                    done = []
            yield from done
        finally:
            self.abandon()

    def abandon(self) -> None:
        """End what is still under way."""
        for pool in self._pools:
            for slot in pool.slots:
                if slot.request is not None and not slot.starting:
                    pool.drop(slot)
        self.building.clear()
        self.running.clear()

    # -- what to do next -------------------------------------------------------------------------

    def _turn(self, queue: deque[Work], ready: deque[Work]) -> None:
        """Without overlap, change between building and running when all have finished."""
        executor = self._executor
        if executor.overlap:
            return
        if not self._builds_turn:
            self._builds_turn = not self.running and not ready
            return
        more = len(ready) < executor.most_waiting and any(
            not (work.postponed and self._others_first(ready)) for work in queue
        )
        starts = executor.in_lane and executor.builders.starting
        self._builds_turn = bool(self.building) or more or starts
        if executor.in_lane and not self._builds_turn:
            # Lane by lane, and suspects first: nothing else has run in theirs.
            ordered = sorted(ready, key=lambda work: (_lane(work).serial, not work.suspect))
            ready.clear()
            ready.extend(ordered)

    def _others_first(self, ready: deque[Work]) -> bool:
        """Return whether large code waits: its build may take most of the time that is left."""
        smaller = any(not work.postponed for work in self.building.values())
        return self._runs and not self._executor.overlap and (smaller or bool(ready))

    def _populate(self, queue: deque[Work], ready: deque[Work], *, runs: bool) -> None:
        executor = self._executor
        builders, runners = executor.builders, executor.runners
        if executor.in_lane and not self._builds_turn:
            return  # nothing starts while a program runs
        if not (executor.in_lane and ready):
            for pool in self._pools:
                for slot in idle_slots(pool.slots):
                    if slot.requests >= self._recycle_after:
                        pool.drop(slot)
        wanted = len(queue) + len(self.building)
        if executor.in_lane:
            if any(work.suspect for work in queue):
                wanted = builders.size
                self._make_room(queue)
        elif builders is runners:
            wanted += len(ready) + len(self.running)
        elif runs:
            # They start while the first programs are built.
            runners.populate(executor.run_lanes)
        builders.populate(wanted)

    def _make_room(self, queue: deque[Work]) -> None:
        """Have a fresh worker where only suspects wait, and all workers were used."""
        pool = self._executor.builders
        idle = idle_slots(pool.slots)
        stuck = idle and not self.building and not pool.starting
        if stuck and all(slot.used for slot in idle) and all(work.suspect for work in queue):
            pool.drop(idle[0])

    def _submit_builds(
        self, queue: deque[Work], ready: deque[Work], most: float | None
    ) -> Iterator[Done]:
        executor = self._executor
        most = executor.most_waiting if most is None else most
        for slot in idle_slots(executor.builders.slots):
            full = len(ready) >= most or len(self.building) >= executor.build_lanes
            large = not self._others_first(ready)
            work = None if full else _next_for(slot, queue, large=large)
            if work is None:
                continue
            work.most_size = self._build_timeout.most_size(postponed=work.postponed)
            program = program_of(work)
            if isinstance(program, Reply):
                yield work, program
                continue
            # Leftovers of an earlier, abandoned call go.
            empty = not any(other.slot is slot for other in ready)
            request = executor.build(work, program, discard=empty)
            self.building[slot] = work
            executor.builders.submit(slot, request)

    def _submit_runs(self, queue: deque[Work], ready: deque[Work]) -> None:
        executor = self._executor
        pool = executor.runners
        while ready and len(self.running) < executor.run_lanes:
            if executor.in_lane:
                work = ready.popleft()
                slot = _lane(work)
                if not slot.idle:
                    queue.appendleft(work)  # its code is lost
                    continue
            else:
                idle = idle_slots(pool.slots)
                if not idle:
                    return
                slot = idle[0]
                found = _next_for(slot, ready)
                if found is None:
                    # All that wait were there when a worker was lost: each needs a fresh one.
                    pool.drop(slot)
                    return
                work = found
            self._ask(slot, work, executor.start(slot, work))

    def _ask(self, slot: Slot, work: Work, request: Request) -> None:
        self.running[slot] = (work, request.header["request"])
        self._executor.runners.submit(slot, request)

    # -- what came of it -------------------------------------------------------------------------

    def _collect(self, queue: deque[Work], ready: deque[Work], until: float) -> Iterator[Done]:
        started = time.perf_counter()
        part = "run" if self.running else "build" if self.building else "start"
        for slot in self.building:
            self._executor.builders.shorten(slot, self._build_timeout.limit)
        ended = wait_for_reply(self._pools, until)
        self._seconds[part] += time.perf_counter() - started
        for slot, reply in ended:
            if reply.lost and self._executor.in_lane:
                # The code of all that were built there is lost with it.
                for work in [other for other in ready if other.slot is slot]:
                    ready.remove(work)
                    queue.appendleft(work)
            last = (self._built if slot in self.building else self._ran)(slot, reply, queue, ready)
            if last is not None:
                yield last

    def _built(
        self, slot: Slot, reply: Reply, queue: deque[Work], ready: deque[Work]
    ) -> Done | None:
        work = self.building.pop(slot)
        work.note(reply)
        size = reply.header.get("size")
        if reply.ok:
            work.build_seconds = reply.seconds
            self._build_timeout.note(reply.seconds, size or 0)
            work.slot, work.built = slot, reply.header
            ready.append(work)
        elif size is not None and not work.postponed:
            # Others are built first: what is large can be told then.
            work.postponed = True
            queue.append(work)
        elif reply.retry and not work.suspect:
            work.suspect = True
            queue.appendleft(work)
        else:
            work.build_seconds = reply.seconds
            if size is not None:
                why = self._build_timeout.describe_size(size)
                return work, reply.failed_as(Status.BUILD_TIMEOUT, why)
            if reply.timed_out:
                why = self._build_timeout.describe(reply.seconds)
                return work, reply.failed_as(Status.BUILD_TIMEOUT, why)
            return work, reply
        return None

    def _ran(self, slot: Slot, reply: Reply, queue: deque[Work], ready: deque[Work]) -> Done | None:
        work, step = self.running.pop(slot)
        if reply.retry and not work.suspect:
            work.note(reply)
            work.suspect = True
            if self._executor.in_lane:
                queue.appendleft(work)
            else:
                ready.append(work)
            return None
        work, then = self._executor.advance(slot, work, step, reply, ready)
        if isinstance(then, Request):
            self._ask(slot, work, then)
            return None
        return None if then is None else (work, then)


def _lane(work: Work) -> Slot:
    assert work.slot is not None
    return work.slot


def _next_for(slot: Slot, queue: deque[Work], *, large: bool = True) -> Work | None:
    """Take the first of ``queue`` that this worker may have: suspects need a fresh worker.

    Without ``large``, none that was postponed.
    """
    for work in queue:
        if (not work.suspect or not slot.used) and (large or not work.postponed):
            queue.remove(work)
            return work
    return None


# -- The adaptive limits of builds: multiples of the median's time and code size ------------------

# With fewer builds the median says little, and no shorter limit is worth a worker: giving up kills
# it, and a new one may take some seconds to start.
_FEWEST = 4
# Sizes are exact, and code that is far larger than these few takes most of a short run to build.
_FEWEST_SIZES = 3
_LEAST_SECONDS = 5.0
# Code that is smaller takes LLVM a second or two, see `code_size`. Larger code, an eighth of 2,424
# recorded programs of TBG, took 0.7 of their time; the fastest of it took 1.12 times the best.
_LEAST_SIZE = 8_000


class BuildTimeout:
    """Limits the processor time of a build to a multiple of the median build.

    A program that takes far longer than most is huge straight-line code, which LLVM takes more than
    linear time for, and which is slow when it is built: it does not fit in the instruction caches.

    Parameters
    ----------
    most: seconds of wall time that no build may exceed.
    factor: multiple of the median build time; infinity disables the limit by the median. Measurers
        call it ``slow_build``.

    Raises ``TargetError`` for a factor that half of the builds would exceed.
    """

    def __init__(self, most: float, factor: float) -> None:
        if not factor > 1:
            raise TargetError(f"slow_build={factor}; give more than 1, or math.inf")
        self._most = most
        self._factor = factor
        self._seconds: list[float] = []
        self._sizes: list[int] = []

    def note(self, seconds: float, size: int = 0) -> None:
        """Take in the time of a build that succeeded, in seconds, and its code's size, if known."""
        insort(self._seconds, seconds)
        if size:
            insort(self._sizes, size)

    def forget(self) -> None:
        """Forget all builds: how long those of one workload take says nothing about another."""
        self._seconds.clear()
        self._sizes.clear()

    @property
    def median(self) -> float | None:
        """Median of the build times in seconds; None while too few are known."""
        known = len(self._seconds)
        return self._seconds[known // 2] if known >= _FEWEST else None

    @property
    def most(self) -> float:
        """Seconds of wall time after which to give up a build."""
        return self._most

    @property
    def limit(self) -> float:
        """Seconds of processor time after which to give up a build."""
        median = math.inf if self.median is None else self.median
        return min(self._most, max(_LEAST_SECONDS, self._factor * median))

    def most_size(self, *, postponed: bool) -> int | None:
        """Return the size of code above which not to begin a build; None for no limit.

        While too few sizes are known, all large ones are ``postponed``, and then built.
        """
        if math.isinf(self._factor):
            return None
        if len(self._sizes) < _FEWEST_SIZES:
            return None if postponed else _LEAST_SIZE
        # LLVM's time grows in proportion to the size, or faster.
        return max(_LEAST_SIZE, round(self._factor * self._median_size))

    @property
    def _median_size(self) -> int:
        return self._sizes[len(self._sizes) // 2]

    def describe_size(self, size: int) -> str:
        """Describe why code of this size was not built, for a message."""
        return (
            f"not built: its code has the size {size} (loads and stores after unrolling), where "
            f"that of half of them is {self._median_size}, and the limit for builds "
            f"{self.most_size(postponed=True)}"
        )

    def describe(self, seconds: float = 0.0) -> str:
        """Describe the limit that a build of ``seconds`` (wall time) exceeded, for a message."""
        if self.median is None or max(seconds, self.limit) >= self._most:
            return f"not done within {self._most:g} s"
        return (
            f"not done within {self.limit:.3g} s of processor time, where half of them take "
            f"{self.median:.2g} s"
        )
