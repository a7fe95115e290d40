"""Builds on the CPU while the GPU runs what is built."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator

from schedlang.targets.cuda.running.built import Built, LoadRequests
from schedlang.targets.measure.work import Requests, Work, program_of
from schedlang.targets.worker.pool import Slot, WorkerPool, idle_slots
from schedlang.targets.worker.process import wait_any
from schedlang.targets.worker.request import Reply, Request

Done = tuple[Work, Reply]
"""A program, and the last reply about it."""

# More than this wait for the GPU: no others are built, as what the search learns comes first.
_WAITING_A_BUILDER = 2
# Deadlines of requests are looked at this often while nothing else happens.
_LOOK_SECONDS = 0.1


class Pipeline:
    """Takes programs through the build workers and then, one at a time, through the one on the GPU.

    Parameters
    ----------
    builders: build workers; they touch no GPU.
    runner: the worker on the GPU, one.
    recycle_after: a worker is replaced after this many requests.
    seconds: wall time spent waiting, by activity, is added to it: ``start``, ``build`` (the GPU has
        nothing to run) and ``run``.
    """

    def __init__(
        self,
        builders: WorkerPool,
        runner: WorkerPool,
        recycle_after: int,
        seconds: dict[str, float],
    ) -> None:
        self.builders, self.runner, self.seconds = builders, runner, seconds
        self._recycle_after = recycle_after
        self._building: dict[int, Work] = {}
        self._running: tuple[Work, bool] | None = None

    def build(
        self, works: deque[Work], requests: LoadRequests, until: float = math.inf
    ) -> Iterator[Done]:
        """Build programs only; yields those that fail."""
        ready = deque[Work]()
        yield from self._drive(works, ready, requests, None, until)

    def drive(
        self,
        works: deque[Work],
        requests: LoadRequests,
        run_request: Callable[[Work], Request],
        until: float = math.inf,
    ) -> Iterator[Done]:
        """Build and run until all have a last reply, or until ``until`` (of ``time.monotonic``).

        Builds go on while the consumer has control.
        """
        yield from self._drive(works, deque(), requests, run_request, until)

    def abandon(self) -> None:
        """End what is still under way."""
        for pool in (self.builders, self.runner):
            for slot in pool.slots:
                if slot.request is not None and not slot.starting:
                    pool.drop(slot)
        self._building.clear()
        self._running = None

    def _drive(
        self,
        queue: deque[Work],
        ready: deque[Work],
        requests: LoadRequests,
        run_request: Callable[[Work], Request] | None,
        until: float,
    ) -> Iterator[Done]:
        while time.monotonic() < until:
            done = list(self._submit_builds(queue, ready, requests))
            if run_request is not None:
                self._submit_run(ready, requests)
            waiting = ready if run_request is not None else ()
            if done:
                yield from done
            elif queue or waiting or self._building or self._running is not None:
                self._wait(until)
                yield from self._collect(ready, requests, run_request)
            else:
                return

    def _submit_builds(
        self, queue: deque[Work], ready: deque[Work], requests: Requests
    ) -> Iterator[Done]:
        pool = self.builders
        self._recycle(pool)
        pool.populate(len(queue) + len(self._building))
        for slot in idle_slots(pool.slots):
            if not queue or len(ready) >= _WAITING_A_BUILDER * pool.size:
                return
            work = queue.popleft()
            program = program_of(work)
            if isinstance(program, Reply):
                yield work, program
                continue
            self._building[slot.serial] = work
            header = {"request": "build", "id": work.serial}
            pool.submit(slot, Request(header, (program,), requests.build_timeout))

    def _submit_run(self, ready: deque[Work], requests: LoadRequests) -> None:
        pool = self.runner
        if self._running is None:
            self._recycle(pool)
        # It starts while the first programs are built.
        pool.populate(1)
        slot = _idle(pool)
        if self._running is None and ready and slot is not None:
            work = next((work for work in ready if not (work.suspect and slot.used)), None)
            if work is None:
                # All that wait were there when a worker was lost: each needs a fresh one.
                pool.drop(slot)
                return
            ready.remove(work)
            request = requests.build(work, discard=True)
            assert isinstance(request, Request)
            self._running = (work, False)
            pool.submit(slot, request)

    def _wait(self, until: float) -> None:
        started = time.perf_counter()
        busy = [
            slot.process
            for pool in (self.builders, self.runner)
            for slot in pool.slots
            if slot.process is not None and slot.request is not None
        ]
        if self._running is not None:
            part = "run"
        else:
            part = "build" if self._building else "start"
        if busy:
            wait_any(busy, min(until, time.monotonic() + _LOOK_SECONDS))
        self.seconds[part] += time.perf_counter() - started

    def _collect(
        self,
        ready: deque[Work],
        requests: LoadRequests,
        run_request: Callable[[Work], Request] | None,
    ) -> list[Done]:
        done: list[Done] = []
        for slot, reply in self.builders.wait(time.monotonic()):
            work = self._building.pop(slot.serial)
            reply = Requests.built(requests, work, reply)
            if reply.ok:
                requests.built_programs[work.serial] = Built.read(reply.header)
                ready.append(work)
            else:
                done.append((work, reply))
        if run_request is not None:
            done += self._collect_run(ready, requests, run_request)
        return done

    def _collect_run(
        self,
        ready: deque[Work],
        requests: LoadRequests,
        run_request: Callable[[Work], Request],
    ) -> Iterator[Done]:
        for slot, reply in self.runner.wait(time.monotonic()):
            assert self._running is not None
            work, loaded = self._running
            if not loaded and reply.ok:
                work.note(reply)
                self._running = (work, True)
                self.runner.submit(slot, run_request(work))
                continue
            self._running = None
            reply = requests.ran(work, reply) if loaded else requests.built(work, reply)
            if reply.retry and not work.suspect:
                work.suspect = True
                ready.append(work)
                continue
            requests.built_programs.pop(work.serial).remove()
            yield work, reply

    def _recycle(self, pool: WorkerPool) -> None:
        for slot in idle_slots(pool.slots):
            if slot.requests >= self._recycle_after:
                pool.drop(slot)


def _idle(pool: WorkerPool) -> Slot | None:
    return next(iter(idle_slots(pool.slots)), None)


def ask(pool: WorkerPool, request: Request, until: float) -> Reply | None:
    """Ask the first worker of a pool that is ready; None where ``until`` comes first."""
    slot = pool.ready_by(until)
    if slot is None:
        return None
    reply = pool.ask_until(slot, request, until)
    if reply is None:
        pool.drop(slot)
    return reply
