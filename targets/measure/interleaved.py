"""Timing candidates against each other, in turns."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from schedlang.measurement import Measurement, Status
from schedlang.measurement.measurer import FEWEST_ROUNDS
from schedlang.targets.measure.timing import relative_half_width
from schedlang.targets.measure.work import Requests, Work
from schedlang.targets.worker.pool import Slot, WorkerPool, idle_slots

# Times the rounds that were asked for, on a machine that has other work.
_MOST_ROUNDS = 4


@dataclass(slots=True)
class Turns:
    """Times some candidates in one worker, so that all of them run on the same memory.

    Those that work have one sample a round. One that fails is left out; when it takes the worker
    with it, the others start again in another.

    Parameters
    ----------
    pool: where the worker comes from; the others must have nothing to do.
    requests: how to build and time.
    verify: compare the results of each with the unscheduled program's, once more.
    """

    pool: WorkerPool
    requests: Requests
    verify: bool
    _found: dict[int, Measurement] = field(init=False, default_factory=dict)

    def measure(
        self, works: Sequence[Work], rounds: int, budget_seconds: float
    ) -> list[Measurement]:
        """One measurement for each candidate, in the same order.

        It ends after ``rounds``, or up to four times as many while the medians of the two fastest
        are not known well enough; in any case at the first round that ends after
        ``budget_seconds``.
        """
        left = list(works)
        while left and self._worker_lost(left, rounds, budget_seconds):
            left = [work for work in left if self._works(work)]
        return [self._found[work.serial] for work in works]

    def _works(self, work: Work) -> bool:
        return work.serial not in self._found or self._found[work.serial].ok

    def _worker_lost(self, works: Sequence[Work], rounds: int, budget_seconds: float) -> bool:
        end = time.monotonic() + budget_seconds
        slot = self.pool.ready()
        for other in idle_slots(self.pool.slots):
            if other is not slot:
                self.pool.settle(other)
        for number, work in enumerate(works):
            if self._first_run_lost(slot, work, discard=number == 0):
                return True
        samples: dict[int, list[float]] = {work.serial: [] for work in works if self._works(work)}
        for number in itertools.count():
            late = number >= FEWEST_ROUNDS and time.monotonic() >= end
            if late or (number >= rounds and self._settled(number, rounds, samples)):
                break
            # There and back: what changes steadily within a round then favours none.
            for work in works if number % 2 == 0 else reversed(works):
                if work.serial in samples and self._sample_lost(slot, work, samples):
                    return True
        for serial, times in samples.items():
            self._found[serial] = replace(self._found[serial], samples=tuple(times))
        return False

    def _first_run_lost(self, slot: Slot, work: Work, *, discard: bool) -> bool:
        request = self.requests.build(work, discard=discard)
        if isinstance(request, Measurement):
            self._found[work.serial] = request
            return False
        reply, building = self.pool.ask(slot, request), True
        work.build_seconds = reply.seconds
        if reply.ok:
            factor = math.inf if self.verify else None
            request = self.requests.run(work, verify_factor=factor, keep=True)
            reply, building = self.pool.ask(slot, request), False
        if not reply.ok:
            self._found[work.serial] = self.requests.failure(work, reply, building=building)
            return reply.lost
        self._found[work.serial] = Measurement(
            work.candidate.id,
            Status.OK,
            tuple(reply.header["samples"]),
            verified=reply.header["verified"],
            build_seconds=work.build_seconds,
            run_seconds=reply.seconds,
        )
        return False

    def _sample_lost(self, slot: Slot, work: Work, samples: dict[int, list[float]]) -> bool:
        known = self._found[work.serial]
        reply = self.pool.ask(slot, self.requests.sample(work, self._calls(known.latency)))
        if reply.ok:
            samples[work.serial].append(reply.header["seconds_per_call"])
            self._found[work.serial] = replace(known, run_seconds=known.run_seconds + reply.seconds)
            return False
        del samples[work.serial]
        self._found[work.serial] = self.requests.failure(work, reply, building=False)
        return reply.lost

    def _settled(self, number: int, rounds: int, samples: dict[int, list[float]]) -> bool:
        # It must not depend on whether the two differ: that would make the p-value worthless.
        fastest = sorted(samples.values(), key=statistics.median)[:2]
        width = self.requests.timing.relative_width
        known = all(relative_half_width(times) < width for times in fastest)
        return known or number >= _MOST_ROUNDS * rounds

    def _calls(self, latency: float) -> int:
        timing = self.requests.timing
        return 1 if timing.flush_cache else math.ceil(timing.min_sample_seconds / latency)
