"""A pool of workers: one request at a time for each, with a deadline; lost workers are replaced."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from schedlang.errors import TargetError, WorkloadError
from schedlang.measurement.clock import Phase, check_phases
from schedlang.targets.errors import RUNS_UNSCHEDULED, explain_exit
from schedlang.targets.worker.process import WorkerProcess, wait_any
from schedlang.targets.worker.protocol import ACTIVITIES, Reply, Request

CLOSED = "this measurer is closed; make a new one"
_SETTLE_TIMEOUT = 10.0
# The system counts processor time in steps of this length.
_CPU_CLOCK_SECONDS = 0.01


@dataclass(slots=True, eq=False)
class Slot:
    """The place of one worker.

    Attributes
    ----------
    cpu_before: processor time that the worker had used before the request, in seconds.
    cpu_limit: processor time that the request may take, in seconds.
    look_at: when the worker may have reached that (of ``time.monotonic``).
    starting: the worker starts, or goes over to another workload.
    requests: number of requests to the present worker.
    used: the present worker has run a candidate.
    binding: number of the workload that it was told of last.
    """

    serial: int
    process: WorkerProcess | None = None
    request: Request | None = None
    began: float = 0.0
    cpu_before: float | None = None
    cpu_limit: float = math.inf
    look_at: float = math.inf
    starting: bool = False
    requests: int = 0
    used: bool = False
    binding: int = 0

    @property
    def idle(self) -> bool:
        """Ready for a request."""
        return self.process is not None and self.request is None


@dataclass(slots=True)
class WorkerPool:
    """Workers that were all started with the same request.

    Parameters
    ----------
    size: number of workers.
    threads: threads of a parallel loop in each.
    program, scratch: of each ``WorkerProcess``.
    check: called with the reply to a worker's first request; raises if it cannot be used.
    explain_crash: says why the unscheduled program crashed, given the reply of the lost worker.
    first: number of the first worker in the phases of candidates.

    Attributes
    ----------
    start: the first request to every worker, see ``rebind``; its timeout includes starting Python.
    greeting: reply of the worker that started last.
    spent: seconds that workers spent on their activities, as their replies say.
    """

    size: int
    threads: int
    program: str
    check: Callable[[dict[str, Any]], None] = lambda reply: None
    explain_crash: Callable[[Reply], str] = str
    scratch: Path | None = None
    first: int = 0
    start: Request | None = field(init=False, default=None)
    slots: list[Slot] = field(init=False)
    greeting: dict[str, Any] = field(init=False, default_factory=dict)
    spent: dict[str, float] = field(init=False, default_factory=dict)
    closed: bool = field(init=False, default=False)
    _bind: Request | None = field(init=False, default=None)
    _binding: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.slots = [Slot(serial) for serial in range(self.size)]

    def populate(self, count: int) -> None:
        """Start workers until ``count`` exist; does not wait for them."""
        self.check_usable()
        alive = sum(slot.process is not None for slot in self.slots)
        for slot in self.slots:
            if alive < min(count, self.size) and slot.process is None:
                slot.process = WorkerProcess(self.threads, self.program, self.scratch)
                slot.requests, slot.used = 0, False
                slot.starting, slot.binding = True, self._binding
                assert self.start is not None
                self._send(slot, self.start)
                alive += 1

    def check_usable(self) -> None:
        """Raise TargetError where no worker can start."""
        if self.closed:
            raise TargetError(CLOSED)
        if self.start is None:
            raise TargetError("this measurer has no workload; call bind(workload) first")

    def rebind(self, start: Request, bind: Request) -> None:
        """Point all workers to another workload; does not wait for them.

        A running worker is sent ``bind`` and starts anew with what it replies, in the same
        process; one that is busy is replaced. New workers are started with ``start``.
        """
        self.start, self._bind = start, bind
        self._binding += 1
        self.drop_ended()
        for slot in self.slots:
            if slot.idle:
                self._rebind(slot)
            elif not slot.starting:
                self.drop(slot)

    def drop_ended(self) -> None:
        """Make room for the idle workers that have ended, whoever ended them."""
        for slot in idle_slots(self.slots):
            if _process(slot).has_ended:
                self.drop(slot)

    def _rebind(self, slot: Slot) -> None:
        assert self._bind is not None
        slot.starting, slot.binding = True, self._binding
        self._send(slot, self._bind)

    def submit(self, slot: Slot, request: Request) -> None:
        """Send a request to an idle worker."""
        slot.requests += 1
        self._send(slot, request)

    def shorten(self, slot: Slot, timeout: float) -> None:
        """Give up a busy worker's request after ``timeout`` seconds of processor time.

        Its own timeout, which is wall time, stays. On a machine that has other work a request
        needs longer than it computes. Where the system does not tell processor time, wall time
        counts.
        """
        if slot.request is not None and timeout not in (slot.cpu_limit, slot.request.timeout):
            slot.cpu_limit, slot.look_at = timeout, slot.began + timeout

    def wait(self, until: float = math.inf) -> list[tuple[Slot, Reply]]:
        """Wait until a request ends or a worker is ready, see ``wait_for_reply``."""
        return wait_for_reply([self], until)

    @property
    def busy(self) -> list[Slot]:
        """The workers that were asked something, or start."""
        return [
            slot for slot in self.slots if slot.process is not None and slot.request is not None
        ]

    def collect(self) -> list[tuple[Slot, Reply]]:
        """Return the requests that have ended by now, see ``wait_for_reply``."""
        ended = []
        for slot in self.busy:
            # Collecting the reply of a lost worker empties its slot.
            starting, rebound = slot.starting, slot.request is self._bind
            reply = self._collect(slot)
            if reply is None:
                continue
            slot.starting, slot.request = False, None
            if starting and slot.binding != self._binding:
                if slot.process is not None:
                    self._rebind(slot)
            elif rebound and _ended_before(reply):
                pass  # another one takes its place
            elif starting:
                self._check_start(slot, reply)
            else:
                ended.append((slot, reply))
        return ended

    def ask(self, slot: Slot, request: Request) -> Reply:
        """Send one request and wait for its reply; other workers must be idle."""
        reply = self.ask_until(slot, request, math.inf)
        assert reply is not None
        return reply

    def ask_until(self, slot: Slot, request: Request, until: float) -> Reply | None:
        """Do as ``ask``, but return None at ``until`` if the worker has not replied by then.

        Where an exception ends the wait, such as Ctrl-C, the worker ends: nobody waits for its
        reply any more.
        """
        self.submit(slot, request)
        try:
            while True:
                for found, reply in self.wait(until):
                    if found is slot:
                        return reply
                if time.monotonic() >= until:
                    return None
        except BaseException:
            self.drop(slot)
            raise

    def ask_first(self, request: Request, until: float) -> Reply | None:
        """Ask the first worker that is ready; None where ``until`` comes first, which ends it."""
        slot = self.ready_by(until)
        if slot is None:
            return None
        reply = self.ask_until(slot, request, until)
        if reply is None:
            self.drop(slot)
        return reply

    def ready(self) -> Slot:
        """Return an idle worker, after waiting for one to start; no worker may be busy."""
        slot = self.ready_by(math.inf)
        assert slot is not None
        return slot

    def ready_by(self, until: float) -> Slot | None:
        """Do as ``ready``, but return None where no worker is ready at ``until``."""
        while not idle_slots(self.slots):
            if time.monotonic() >= until:
                return None
            self.populate(1)
            self.wait(until)
        return idle_slots(self.slots)[0]

    def resize(self, size: int) -> None:
        """Change the number of workers; all of them start again."""
        for slot in self.slots:
            self.drop(slot)
        self.size, self.slots = size, [Slot(serial) for serial in range(size)]

    def start_all(self, until: float) -> bool:
        """Start all missing workers and wait for them; return whether all were ready in time."""
        while len(idle_slots(self.slots)) < self.size and time.monotonic() < until:
            self.populate(self.size)
            self.wait(until)
        return not self.starting

    def settle(self, slot: Slot) -> None:
        """Wait until the threads of an idle worker sleep."""
        self.ask(slot, Request({"request": "settle"}, timeout=_SETTLE_TIMEOUT))

    @property
    def starting(self) -> bool:
        """Whether a worker is not ready yet."""
        return any(slot.starting for slot in self.slots)

    def drop(self, slot: Slot) -> None:
        """Kill a worker; the place can be filled again."""
        if slot.process is not None:
            slot.process.kill()
        slot.process, slot.request, slot.starting = None, None, False

    def close(self) -> None:
        """Kill all workers; safe to call twice."""
        self.closed = True
        for slot in self.slots:
            self.drop(slot)

    def _send(self, slot: Slot, request: Request) -> None:
        slot.request, slot.began = request, time.monotonic()
        slot.cpu_before, slot.cpu_limit = _process(slot).cpu_seconds(), math.inf
        slot.look_at = math.inf
        _process(slot).send(request.header, request.blobs)

    def _collect(self, slot: Slot) -> Reply | None:
        """Return the reply of a busy worker; None if it may still come."""
        process = _process(slot)
        reply = process.take_reply()
        seconds = time.monotonic() - slot.began
        told: Any = ()
        if reply is not None:
            told = reply.header.pop("phases", ())
            for activity, spent in reply.header.pop("spent", {}).items():
                self.spent[activity] = self.spent.get(activity, 0.0) + spent
            if reply.header.get("corrupt"):
                reply = Reply(reply.header, lost=True, retry=slot.used)
        elif process.exited:
            code = process.ended()
            reply = Reply(explain_exit(code, process.stderr), lost=True, retry=slot.used)
        elif _is_late(slot):
            reply = Reply({"ok": False, "status": ""}, lost=True)
        else:
            return None
        phases = self._phases(slot, told, seconds)
        reply = replace(reply, stderr=process.stderr, seconds=seconds, phases=phases)
        if reply.lost:
            self.drop(slot)
        else:
            assert slot.request is not None
            slot.used |= slot.request.executes
        return reply

    def _phases(self, slot: Slot, told: Any, seconds: float) -> tuple[Phase, ...]:
        """Return what a worker did for a candidate, within the ``seconds`` up to now.

        The worker tells, if it still can; ``told`` may be anything after a candidate damaged it.
        """
        assert slot.request is not None
        activity = ACTIVITIES.get(slot.request.header.get("request", ""))
        if activity is None:
            return ()
        worker, end = self.first + slot.serial, time.time()
        begin = end - seconds
        try:
            phases = check_phases(told)
        except (ValueError, TypeError):
            phases = ()
        known = tuple(
            Phase(one.activity, max(one.begin, begin), min(one.end, end), worker)
            for one in phases
            if one.begin <= end and one.end >= begin
        )
        return known or (Phase(activity, begin, end, worker),)

    def _check_start(self, slot: Slot, reply: Reply) -> None:
        if reply.ok:
            self.check(reply.header)
            self.greeting = reply.header
            return
        for other in self.slots:
            self.drop(other)
        begun, _, printed = reply.stderr.rpartition(f"{RUNS_UNSCHEDULED}\n")
        stderr = begun + printed
        tail = f"\nworker's standard error:\n{stderr}" if stderr.strip() else ""
        assert self.start is not None
        message = reply.message(self.start.timeout)
        if reply.timed_out:
            raise TargetError(f"a worker was not ready: {message}{tail}")
        if reply.lost and RUNS_UNSCHEDULED in reply.stderr:
            raise WorkloadError(self.explain_crash(reply))
        if reply.lost:
            raise TargetError(f"a worker did not start: {message}{tail}")
        raise WorkloadError(f"the unscheduled program cannot be the reference: {message}{tail}")


def wait_for_reply(
    pools: Sequence[WorkerPool], until: float = math.inf
) -> list[tuple[Slot, Reply]]:
    """Wait until a request ends or a worker is ready; return the requests that ended.

    Gives up waiting at ``until`` (of ``time.monotonic``).

    Raises TargetError when a worker does not start, WorkloadError when the unscheduled program is
    what fails.
    """
    busy = [slot for pool in pools for slot in pool.busy]
    if not busy:
        return []
    wait_any([_process(slot) for slot in busy], min(until, *map(_deadline, busy)))
    return [ended for pool in pools for ended in pool.collect()]


def _process(slot: Slot) -> WorkerProcess:
    assert slot.process is not None
    return slot.process


def _ended_before(reply: Reply) -> bool:
    """Whether a worker ended before it began with what it was asked, while nobody used it."""
    return reply.lost and not reply.timed_out and RUNS_UNSCHEDULED not in reply.stderr


def _deadline(slot: Slot) -> float:
    """Return when to look whether a request takes too long."""
    assert slot.request is not None
    return min(slot.began + slot.request.timeout, slot.look_at)


def _is_late(slot: Slot) -> bool:
    """Return whether to give up a request; if not, note when to look again."""
    assert slot.request is not None
    now = time.monotonic()
    if now >= slot.began + slot.request.timeout:
        return True
    if now < slot.look_at:
        return False
    used = _process(slot).cpu_seconds(below=True)
    if used is None or slot.cpu_before is None:
        return True
    left = slot.cpu_limit - (used - slot.cpu_before)
    slot.look_at = now + max(left, _CPU_CLOCK_SECONDS)
    return left <= 0


def idle_slots(slots: Sequence[Slot]) -> list[Slot]:
    """Return the slots whose workers wait for a request."""
    return [slot for slot in slots if slot.idle]
