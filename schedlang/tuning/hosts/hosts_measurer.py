"""``tune(hosts=)``: one search, whose candidates are measured on many hosts."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from schedlang.database import Record
from schedlang.database.programs import program_text
from schedlang.errors import HostError, WorkloadError
from schedlang.measurement import Candidate, Measurement, Measurer
from schedlang.measurement.clock import worker_of_host
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS
from schedlang.measurement.problem import Verify
from schedlang.targets import toolchain_key
from schedlang.targets.roofline import shortest_time
from schedlang.tuning.hosts.batches import (
    COMPARE,
    DESCRIBE,
    MEASURE,
    UNSCHEDULED,
    Batch,
    measurements_of,
    program_frame,
)
from schedlang.tuning.hosts.given import Given, given_of
from schedlang.tuning.hosts.host import task_text
from schedlang.tuning.hosts.hosts import Hosts
from schedlang.tuning.hosts.messages import UNTUNABLE, GivenOrder, HostReply
from schedlang.tuning.hosts.replies import WinnerDoubt, check_arithmetic
from schedlang.tuning.session import Call
from schedlang.workloads.workload import Workload

# A host builds some candidates while it runs others. Each host gets two orders of a batch, of
# ``_MOST`` candidates at most, or one where two would have fewer than ``_FEWEST``.
_FEWEST, _MOST = 4, 16
# Seconds after a deadline in which hosts tell what they have measured by then.
_GRACE = 2.0


class HostsMeasurer(Measurer):
    """Measures candidates on hosts.

    Parameters
    ----------
    hosts: take the batches.
    given: the call, as hosts need it.
    machine_key: of the machine that the call is for.

    Attributes
    ----------
    verified: whether results are compared; False where hosts have measurers of the user's that
        do not say so. Known once ``describe`` was called.
    """

    elsewhere = True

    def __init__(self, hosts: Hosts, given: Given, machine_key: str) -> None:
        self._hosts, self._given = hosts, given
        self.verified: Verify = given.verify
        self.clock, self.machine_key = hosts.clock, machine_key
        self._packed, self._began = given.pack(), hosts.clock.now()
        self._serials = itertools.count(1)
        self._unreached: Sequence[str] = ()

    def bind(self, workload: Workload) -> None:
        """Measure candidates of ``workload`` from now on."""
        super().bind(workload)
        self._task = task_text(workload, program_text(workload), moves_data=False)
        # The lowest latency that each host has measured.
        self._fastest: dict[str, float] = {}
        self._doubt = WinnerDoubt()
        # Seconds below which no latency is believed.
        self._shortest = shortest_time(workload, self._given.target)

    @property
    def parallel(self) -> int:  # type: ignore[override]
        """Number of candidates that hosts work on at the same time."""
        return self._hosts.at_once

    @property
    def unreached(self) -> Sequence[str]:
        """Sides of the unscheduled program's branches that no inputs take, as hosts tell."""
        return self._unreached

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement for each candidate, in the order in which they come back."""
        share = math.ceil(len(candidates) / self._hosts.at_once)
        each = max(min(share, _FEWEST), min(math.ceil(share / 2), _MOST))
        parts = deque(candidates[k : k + each] for k in range(0, len(candidates), each))
        try:
            while (parts and self.clock.now() < self.deadline) or self._hosts.flying:
                while parts and self._hosts.free and self.clock.now() < self.deadline:
                    self._hosts.submit(self._batch(MEASURE, parts.popleft()))
                replies = self._hosts.wait(self.deadline + _GRACE, self._examine)
                if not replies and self.clock.now() >= self.deadline + _GRACE:
                    return
                for _, reply in replies:
                    for measurement in self._taken(reply):
                        if measurement.ok:
                            self._note_best(measurement)
                            self._note(reply.name, measurement.latency)
                        yield measurement
        finally:
            self._hosts.abandon()

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Have one host time a few candidates against each other, see ``Measurer.remeasure``."""
        batch = replace(
            self._batch(COMPARE, candidates), rounds=rounds, budget_seconds=budget_seconds
        )
        reply = self._ask(batch)
        found = {} if reply is None else {one.id: one for one in self._taken(reply)}
        return [found[one.id] for one in candidates] if found else []

    def know(self, records: Iterable[Record]) -> None:
        """Take note of what earlier calls have measured on hosts."""
        for one in records:
            if one.ok and (host := one.provenance.get("host")):
                self._note(host, one.latency)

    def describe(self) -> None:
        """Find out whether hosts compare results; those that measure as the call says do."""
        if not self._given.measures_itself:
            reply = self._ask(self._batch(DESCRIBE, ()))
            self.verified = self._given.verify if reply is not None and reply.verified else False

    def _time_reference(self) -> float:
        reply = self._ask(self._batch(UNSCHEDULED, ()))
        if reply is None:
            return math.nan
        self._unreached = tuple(filter(None, reply.message.splitlines()))
        self.reference_complete = reply.complete
        return math.nan if reply.unscheduled is None else reply.unscheduled

    def _batch(self, what: str, candidates: Sequence[Candidate]) -> Batch:
        left = self.deadline - self.clock.now()
        return Batch(
            next(self._serials),
            what,
            self._packed,
            self._task,
            self.workload.key,
            self.machine_key,
            [one.id for one in candidates],
            [one.program_key for one in candidates],
            [program_frame(one) for one in candidates],
            best=self.best_so_far,
            seconds=None if math.isinf(left) else max(left, 0.0),
            used=self.clock.now() - self._began,
            toolchain=toolchain_key(),
        )

    def _ask(self, batch: Batch) -> HostReply | None:
        """Return the reply to a batch that one host takes; None where the deadline comes first."""
        self._hosts.submit(batch)
        try:
            while self.clock.now() < self.deadline + _GRACE:
                for _, reply in self._hosts.wait(self.deadline + _GRACE, self._examine):
                    return self._checked(reply)
            return None
        finally:
            self._hosts.abandon()

    # -- replies ---------------------------------------------------------------------------------

    def _checked(self, reply: HostReply) -> HostReply:
        if reply.how == UNTUNABLE:
            raise WorkloadError(f"{self.workload.name}: {reply.message}")
        return reply

    def _taken(self, reply: HostReply) -> Iterator[Measurement]:
        """Yield the measurements of a reply, with the host that made them."""
        name = self._checked(reply).name
        number = self._hosts.judge.number(name)
        for one in measurements_of(reply):
            phases = tuple(phase.of_host(number) for phase in one.phases)
            worker = worker_of_host(number, one.worker or 0)
            yield replace(one, worker=worker, phases=phases, host=name)

    def _note(self, host: str, latency: float) -> None:
        self._fastest[host] = min(self._fastest.get(host, math.inf), latency)

    def _examine(self, order: GivenOrder, reply: HostReply) -> None:
        """HostError for a reply that says what cannot be, of what is known here."""
        found = [one for one in measurements_of(reply) if one.ok]
        if not reply.verified and self.verified is not False and order.what != DESCRIBE:
            raise HostError("it has not compared results, and the call says to, or others have")
        if self._given.measures_itself:
            check_arithmetic(chain.from_iterable(one.samples for one in found), self._shortest)
        if order.what == COMPARE and found:
            elsewhere = [seconds for host, seconds in self._fastest.items() if host != reply.name]
            least = min(one.latency for one in found)
            self._doubt.examine(least, min(elsewhere, default=math.nan))


def measure_on(hosts: Hosts, call: Call, workload: Workload, make_measurer: Any) -> HostsMeasurer:
    """Have hosts measure for a call of ``tune`` that was opened; return what sends them batches.

    ``make_measurer`` makes the measurer of a host; None for the target's own. TypeError for one
    that was made already.
    """
    given = given_of(call, space=None, search="auto", measurer=make_measurer)
    measurer = HostsMeasurer(hosts, given, call.measuring.machine_key)
    call.measuring.lend(measurer)
    call.measuring.on(workload)
    measurer.deadline = call.budget.end
    measurer.describe()
    measurer.deadline = math.inf
    call.measuring.verified = measurer.verified
    return measurer
