"""Hosts that are simulated: orders are carried out here, one after the other, on a clock of events.

An order takes as long as its host would: what building, running and verifying took when the space
was recorded, and of a slice the real time of its search. The driver takes the real time that it
takes here.
"""

from __future__ import annotations

import copyreg
import heapq
import random
import time
from collections import UserDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from searches import extracted, recorded

import schedlang as sl
from schedlang.lab.recorded_space import RecalledSpace
from schedlang.measurement import RecordedSpace, SimulatedMeasurer
from schedlang.measurement.clock import Clock
from schedlang.tuning.hosts import Given, Hosts, carry_out, host, hosts_measurer
from schedlang.tuning.hosts.batches import Batch
from schedlang.tuning.hosts.frames import deflate
from schedlang.tuning.hosts.host import order_of
from schedlang.tuning.hosts.hosts import TOGETHER
from schedlang.tuning.hosts.messages import HostReply, Order
from schedlang.tuning.tasks import TunedTask
from schedlang.tvm.program import to_json


@dataclass(frozen=True)
class Faults:
    """What goes wrong, by stated distributions.

    Attributes
    ----------
    killed: probability that a host dies in a slice, at a moment drawn uniformly.
    down: mean seconds until it is back, exponentially distributed.
    slow: probability that a slice takes longer, by a factor of 1 plus an exponential draw of mean
        ``slower``.
    delay: mean seconds that an order and its reply are under way, exponentially distributed.
    """

    killed: float = 0.0
    down: float = 60.0
    slow: float = 0.0
    slower: float = 2.0
    delay: float = 0.02


# What it takes to restore a search on another host, for each record that it was told of: replays,
# mostly, in two threads.
RESTORING = 0.004
# What it takes to make the programs among which a proposal is picked, and extract their features:
# the median of 64 trials of Ansor's operators. Recorded programs are not made.
PROPOSING = 0.0146
# Searches of recorded spaces cannot save their state, so this process keeps every run open: the
# time of restoring is that above.
host._KEPT_RUNS = 1 << 20
# Recorded programs are known by their keys.
_NO_PROGRAM = deflate(to_json(sl.workloads.matmul(1, 1, 1).mod))
hosts_measurer.program_frame = lambda candidate: _NO_PROGRAM

QUIET = Faults(delay=0.0)
ROUGH = Faults(killed=0.01, slow=0.03)


class EventClock(Clock):
    """Time that goes on only when it is told to."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += max(seconds, 0.0)


class HostDied(Exception):
    """A host was killed while it had an order."""


class _None(Executor):
    """An engine that is never used."""


class SimulatedHosts(Hosts):
    """This many hosts of one machine's speed.

    Where ``replies`` are given, those to orders that are not in it are added, by serial number, and
    the others come at once. The driver's time then does not count on the clock, so that it does the
    same once more. Hosts that are given the same order, as one was late, reply the same.

    Attributes
    ----------
    busy: seconds of all hosts that slices took; killed: number of hosts that died.
    driving: seconds that the driver took.
    """

    def __init__(
        self,
        count: int,
        faults: Faults = QUIET,
        seed: int = 0,
        replies: dict[int, bytes] | None = None,
    ) -> None:
        self.clock = EventClock()
        self._all_come = replies is not None
        self._replies = {} if replies is None else replies
        super().__init__(_None(), at_once=count, attempts=50)
        self.busy = self.driving = 0.0
        self.killed = self._count = 0
        self._faults, self._rng = faults, random.Random(seed)
        self._free = [(0.0, host) for host in range(count)]
        # The runs that each host was the last to search, and what a slice took.
        self._had: list[set[str]] = [set() for _ in range(count)]
        self._usual = 1.0
        self._events: list[tuple[float, int, Future[bytes], Any]] = []
        self._since = time.perf_counter()
        self._inline = 0.0

    def _submit(self, packed: bytes) -> Future[bytes]:
        began = time.perf_counter()
        future: Future[bytes] = Future()
        faults, rng, order = self._faults, self._rng, order_of(packed)
        at, host = heapq.heappop(self._free)
        start = max(at, self.clock.now())
        if rng.random() < faults.killed:
            # The slice is lost: it is as if it had never been carried out.
            end = start + rng.random() * self._usual
            reply: Any = HostDied("killed")
            free = end + rng.expovariate(1 / faults.down)
            self._had[host] = set()
            self.killed += 1
        else:
            reply = self._reply_to(order.serial, packed)
            done = HostReply.unpack(reply)
            new = 0 if done.part is None else len(done.part.records)
            seconds = done.seconds + PROPOSING * new
            self._usual = seconds
            if isinstance(order, Batch):  # proposed here
                self.clock.sleep(PROPOSING * len(order.ids))
                start = max(start, self.clock.now())
            else:
                seconds += self._restoring(order, host)
            if rng.random() < faults.slow:
                seconds *= 1 + rng.expovariate(1 / faults.slower)
            free = end = start + seconds
        self.busy += end - start
        heapq.heappush(self._free, (free, host))
        delay = rng.expovariate(1 / faults.delay) if faults.delay else 0.0
        self._count += 1
        heapq.heappush(self._events, (end + delay, self._count, future, reply))
        self._inline += time.perf_counter() - began
        return future

    def _restoring(self, order: Order, host: int) -> float:
        """Return the seconds that a host needs to go on with a run that another one had."""
        identity, here = order.run.identity, self._had[host]
        told = sum(len(block.ids) for block in order.blocks)
        seconds = RESTORING * told if order.after and identity not in here else 0.0
        for had in self._had:
            had.discard(identity)
        here.add(identity)
        return seconds

    def _reply_to(self, serial: int, packed: bytes) -> bytes:
        if serial not in self._replies:
            self._replies[serial] = carry_out(packed)
        return self._replies[serial]

    def _is_there(self, at: float, found: Sequence[Future[bytes]]) -> bool:
        """Whether a reply that comes ``at`` a time is there; all are, where they come at once."""
        there = at <= self.clock.now() or (self._all_come and bool(found))
        return there and len(found) < TOGETHER

    def _wait(self, seconds: float) -> list[Future[bytes]]:
        now = time.perf_counter()
        spent = now - self._since - self._inline
        self.driving += spent
        if not self._all_come:
            self.clock.sleep(spent)
        self._inline = 0.0
        found = []
        self.clock.sleep(min(self._events[0][0] - self.clock.now(), seconds))
        while self._events and self._is_there(self._events[0][0], found):
            at, _, first, reply = heapq.heappop(self._events)
            self.clock.sleep(at - self.clock.now())
            if first.cancelled():
                pass
            elif isinstance(reply, Exception):
                first.set_exception(reply)
            else:
                first.set_result(reply)
            found.append(first)
        self._since = time.perf_counter()
        return found


def _space_of(key: str) -> Any:
    return _SPACES[key].space


def _reduced(space: RecalledSpace) -> Any:
    """Recorded spaces stay in this process."""
    [key] = (key for key, one in _SPACES.items() if one.space is space)
    return _space_of, (key,)


copyreg.pickle(RecalledSpace, _reduced)


class AnyOf(SimulatedMeasurer):
    """A simulated measurer that is bound to one recorded program after the other."""

    machine_key = ""  # type: ignore[assignment]
    kept = True
    kept_for = ""

    def __init__(self, spaces: Mapping[str, RecordedSpace]) -> None:
        super().__init__(next(iter(spaces.values())))
        self._spaces = spaces
        self.keep(sl.Target("cpu").key)

    def bind(self, workload: sl.Workload, problem: Any = None) -> None:
        self.recorded = self._spaces[workload.key]
        super().bind(workload)


@dataclass(frozen=True)
class Simulated(Given):
    """The arguments of a call whose programs are recorded: it stays in this process."""

    def __reduce__(self) -> Any:
        _KNOWN[id(self)] = self
        return _known, (id(self),)

    def task(self, workload: sl.Workload, seed: int, **options: Any) -> TunedTask:
        given = Given(**{**vars(self), "space": _SPACES[workload.key].space})
        made = given.task(workload, seed, **options)
        # The default schedule is none of the recorded programs.
        return replace(made, first=tuple, default=None)


_KNOWN: dict[int, Simulated] = {}


class _Spaces(UserDict[str, RecordedSpace]):
    """Recorded spaces by the keys of their programs: no plain value, which would identify runs."""


_SPACES = _Spaces()


def _known(number: int) -> Simulated:
    return _KNOWN[number]


def read_spaces(paths: Sequence[Path]) -> None:
    """Read recorded spaces; of two of a program, the larger one is kept."""
    for path in paths:
        extracted(path)
        one = recorded(path)
        known = _SPACES.get(one.workload.key)
        if known is None or len(known.programs) < len(one.programs):
            _SPACES[one.workload.key] = one


def known_spaces() -> list[RecordedSpace]:
    """Return the recorded spaces that were read."""
    return list(_SPACES.values())


def make_measurer(target: sl.Target) -> AnyOf:
    """Return the measurer of a host."""
    return AnyOf(_SPACES)
