"""Interleaved timing of candidates in one worker, so that all of them run on the same memory."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from schedlang.measurement import Measurement
from schedlang.measurement.contest import FEWEST_ROUNDS, interleave
from schedlang.measurement.disturbance import Sample, counting, disturbance_of, undisturbed
from schedlang.measurement.finals import FEWEST_SAMPLES
from schedlang.targets.measure.verification import FINAL_REPEATS
from schedlang.targets.worker.executor import Requests, Work
from schedlang.targets.worker.pool import Slot, WorkerPool, idle_slots
from schedlang.targets.worker.protocol import Reply, Request

# Multiple of the rounds that were asked for, on a machine that has other work.
_MOST_ROUNDS = 4
# In these first rounds the results of each sample are compared.
_VERIFIED_ROUNDS = 20


class _WorkerLost(Exception):
    """The worker was lost, with every program that was built in it."""


class _TimeUp(Exception):
    """The deadline came."""


@dataclass(slots=True)
class InterleavedTiming:
    """Times some candidates in one worker.

    Each that works has one sample per round. One that fails is left out; when it takes the worker
    with it, the others start again in another.

    Parameters
    ----------
    pool: where the worker comes from; the others must be idle.
    requests: how to build and time.
    verify: compare the results of each with the unscheduled program's: once more on every draw, and
        in the first 20 rounds those of two calls on the first draw.
    until: deadline, of ``time.monotonic``; a worker that has not replied by then is ended.
    """

    pool: WorkerPool
    requests: Requests
    verify: bool
    until: float = math.inf
    _first: dict[int, Measurement] = field(init=False, default_factory=dict)
    _samples: dict[int, list[Sample]] = field(init=False, default_factory=lambda: defaultdict(list))
    _together: bool = field(init=False, default=True)

    def measure(
        self, works: Sequence[Work], rounds: int, budget_seconds: float
    ) -> list[Measurement]:
        """Return one measurement per candidate, in the same order.

        Stops after ``rounds`` rounds; where other work disturbed samples, when as many of each
        program are undisturbed, or after four times as many rounds. In any case it ends after the
        first round that ends later than ``budget_seconds``, and with the rounds that are complete
        at ``until``. Where these are fewer than two, nothing is known, and the list is empty.
        Samples are those that other work did not disturb; where these are fewer than five, the five
        fastest.
        """
        left = list(works)
        while left:
            try:
                found = self._time(left, rounds, budget_seconds)
            except _TimeUp:
                return []
            except _WorkerLost:
                left = [work for work in left if self._works(work)]
            else:
                self._first |= found
                break
        return [self._first[work.candidate.id] for work in works]

    def _works(self, work: Work) -> bool:
        known = self._first.get(work.candidate.id)
        return known is None or known.ok

    def _time(
        self, works: Sequence[Work], rounds: int, budget_seconds: float
    ) -> dict[int, Measurement]:
        slot = self.pool.ready_by(self.until)
        if slot is None:
            raise _TimeUp
        for other in idle_slots(self.pool.slots):
            if other is not slot:
                self.pool.settle(other)
        for number, work in enumerate(works):
            self._run_once(slot, work, discard=number == 0)
        alive = {work.candidate.id: work for work in works if self._works(work)}
        numbers = itertools.count()
        self._samples.clear()

        def take_round(order: Sequence[int]) -> Iterator[Measurement]:
            number = next(numbers)
            verify = self.verify and number < _VERIFIED_ROUNDS
            try:
                yield from self._round(slot, [alive[identity] for identity in order], verify)
            except _TimeUp:
                if number < min(FEWEST_ROUNDS, rounds):
                    raise  # otherwise the rounds before count

        def enough(number: int, left: Iterable[int]) -> bool:
            fewest = min(len(undisturbed(self._samples[identity])) for identity in left)
            return fewest >= rounds or number >= _MOST_ROUNDS * rounds

        found = interleave(list(alive), take_round, rounds, budget_seconds, enough=enough)
        for identity, measurement in found.items():
            del self._samples[identity][len(measurement.samples) :]  # of a round that is incomplete
        return {
            identity: replace(
                self._first[identity],
                samples=counting(self._samples[identity], FEWEST_SAMPLES),
                disturbance=disturbance_of(self._samples[identity]),
                run_seconds=alive[identity].run_seconds,
            )
            for identity, measurement in found.items()
            if measurement.ok
        }

    def _run_once(self, slot: Slot, work: Work, *, discard: bool) -> None:
        """Build a candidate, run it and keep it in the worker."""
        request = self.requests.build(work, discard=discard)
        if isinstance(request, Reply):
            self._first[work.candidate.id] = work.measurement(request)
            return
        reply = self.requests.built(work, self._ask(slot, request))
        if reply.ok:
            factor = math.inf if self.verify else None
            # The rounds give its samples.
            once = replace(self.requests.timing, min_repeats=1, max_repeats=1)
            requests = replace(self.requests, timing=once)
            request = requests.run(work, None, factor, repeats=FINAL_REPEATS, keep=True)
            reply = self.requests.ran(work, self._ask(slot, request))
        self._note(work, reply)

    def _ask(self, slot: Slot, request: Request) -> Reply:
        reply = self.pool.ask_until(slot, request, self.until)
        if reply is None:
            self.pool.drop(slot)
            raise _TimeUp
        return reply

    def _round(self, slot: Slot, works: Sequence[Work], verify: bool) -> Iterator[Measurement]:
        """Take a sample of each, in one request: the machine is not idle in between.

        Once that has failed they are asked for one by one, which shows whose fault it is.
        """
        if self._together:
            reply = self._ask(slot, self._request(works, verify))
            if reply.ok:
                for work in works:
                    work.run_seconds += reply.seconds / len(works)
                yield from self._taken(works, reply)
                return
            self._together = False
            if reply.lost:
                raise _WorkerLost
        for work in works:
            reply = self.requests.ran(work, self._ask(slot, self._request([work], verify)))
            yield from self._taken([work], reply) if reply.ok else [self._note(work, reply)]

    def _request(self, works: Sequence[Work], verify: bool) -> Request:
        calls = [self._calls(self._first[work.candidate.id].latency) for work in works]
        return self.requests.sample(works, calls, verify=verify)

    def _taken(self, works: Sequence[Work], reply: Reply) -> Iterator[Measurement]:
        for work, taken in zip(works, reply.header["samples"], strict=True):
            sample, identity = Sample(*taken), work.candidate.id
            self._samples[identity].append(sample)
            yield replace(self._first[identity], samples=(sample.seconds,))

    def _note(self, work: Work, reply: Reply) -> Measurement:
        self._first[work.candidate.id] = measurement = work.measurement(reply)
        if reply.lost:
            raise _WorkerLost
        return measurement

    def _calls(self, latency: float) -> int:
        timing = self.requests.timing
        return 1 if timing.flush_cache else math.ceil(timing.min_sample_seconds / latency)
