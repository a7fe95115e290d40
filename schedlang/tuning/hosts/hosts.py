"""``Hosts``: orders go out to an engine, and replies come back, whatever happens to the hosts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Self

from schedlang.errors import HostError, HostWarning, users_code
from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.printed import first_line
from schedlang.tuning.hosts.engines import Engine, count_of, executor_of
from schedlang.tuning.hosts.host import carry_out
from schedlang.tuning.hosts.host_speed import Judge, UsualTimes
from schedlang.tuning.hosts.messages import (
    FAILED,
    MEASURED,
    REFUSED,
    UNTUNABLE,
    GivenOrder,
    HostReply,
)
from schedlang.tuning.hosts.replies import Examine, Flight, WrongReply, cancel, read_reply

# An order is late when it has taken this many times as long as others, and the patience.
_LATE = 2.0
# What an order is expected to take while none has come back, in multiples of the patience: hosts
# start.
_FIRST = 40.0
# One that has taken this many times as long as is late goes out again though no host is free.
_GONE = 4.0
# Seconds between two looks for orders that are late.
_LOOK_SECONDS = 0.25
# How often the call's own code has to fail on one host before that is believed.
_FAILED = 2
# How many failures of an order count as one while hosts carry out others: what fails is the way to
# them rather than the order.
_OTHERS_COME_BACK = 3.0
# Seconds between two looks at the number of an engine's workers.
_COUNT_SECONDS = 2.0
# Most replies that are stored in one transaction: as many may be lost where it fails.
TOGETHER = 8
# How long to wait for replies before looking for late ones.
_POLL_SECONDS = 1.0

_USING = Lock()


class Hosts:
    """Hosts of an engine, to which ``tune`` and ``tune_network`` give slices of searches.

    Parameters
    ----------
    engine: any ``concurrent.futures.Executor``, a Dask ``Client``, or a function without arguments
        that makes an executor: it is called again where the executor breaks, as a process pool does
        when one of its processes is killed.
    at_once: number of slices at the same time; by default the number of the engine's workers.
    attempts: how often an order that no host carries out is given again before the call fails,
        three times as often while others are carried out; and how many hosts count as busy with one
        that is late.
    patience: seconds beyond twice what others took after which an order is late: the next host that
        is free gets it as well, and the first reply counts (backup tasks: MapReduce, 3.6). What is
        late before any has come back is a multiple of it.

    An executor that is given is left as it is; what a function made is shut down by ``close``.
    ValueError where the engine does not tell how many workers it has; TypeError for no engine.
    """

    clock: Clock = SYSTEM

    def __init__(
        self,
        engine: Engine,
        *,
        at_once: int | None = None,
        attempts: int = 4,
        patience: float = 2.0,
    ) -> None:
        if at_once is not None and (type(at_once) is not int or at_once < 1):
            raise ValueError(f"at_once={at_once!r}; give a whole number, 1 or more")
        if type(attempts) is not int or attempts < 1:
            raise ValueError(f"attempts={attempts!r}; give a whole number, 1 or more")
        if not patience > 0:
            raise ValueError(f"patience={patience!r}; give a positive number of seconds")
        self.judge = Judge()
        self._patience = patience
        self._engine, self._at_once, self._attempts = engine, at_once, attempts
        self._executor, self._make = executor_of(engine)
        self._flights: dict[int, Flight] = {}
        self._of: dict[Future[bytes], Flight] = {}
        self._done: SimpleQueue[Future[bytes]] = SimpleQueue()
        self._counted = (-_COUNT_SECONDS, 1)
        self._held: list[Flight] = []
        self._in_use = False
        self._forget()
        if at_once is None and count_of(engine, self._executor) is None:
            self.close()
            raise ValueError(
                f"{type(self._executor).__name__} does not tell how many workers it has: give "
                "schedlang.Hosts(executor, at_once=...)"
            )

    def _forget(self) -> None:
        """Forget what a call has left behind, but for what hosts are like."""
        self._usual_times = UsualTimes()
        # Orders that wait for a host to have a copy.
        self._late: dict[Flight, None] = {}
        # Futures of hosts that may be gone: if they are not, their replies count like others.
        self._gone: set[Future[bytes]] = set()
        self._looked = -_LOOK_SECONDS
        # When a host has last answered, how often all orders have come back undone since, and how
        # long it may take until silence is worth a warning.
        self._answered, self._rounds, self._silence = self.clock.now(), 0, 0.0
        self._error = ""
        self._raised: HostError | None = None
        self.judge.refused.clear()
        self.judge.wrong.clear()

    @property
    def at_once(self) -> int:
        """Number of orders at the same time: it may change with the engine's workers."""
        if self._at_once is not None:
            return self._at_once
        now = self.clock.now()
        if now - self._counted[0] >= _COUNT_SECONDS:
            with suppress(Exception), users_code("the engine"):
                self._counted = now, max(count_of(self._engine, self._executor) or 1, 1)
        return self._counted[1]

    @property
    def free(self) -> int:
        """Number of orders that could begin now."""
        # Two hosts are busy with one that was late, and others wait for a second one.
        return max(self.at_once - self._busy - len(self._held) - len(self._late), 0)

    @property
    def _busy(self) -> int:
        """Number of hosts that have an order, without those that may be gone."""
        return len(self._of) - len(self._gone)

    @property
    def flying(self) -> int:
        """Number of orders that are under way."""
        return len(self._flights)

    def submit(self, order: GivenOrder) -> None:
        """Give an order to some host."""
        order = order.kept_from(list(self.judge.apart))
        flight = Flight(order, order.pack(), self.clock.now())
        if not self._flights:
            self._answered = self.clock.now()
        self._flights[order.serial] = flight
        self._send(flight)

    def wait(
        self, until: float = math.inf, examine: Examine | None = None
    ) -> list[tuple[GivenOrder, HostReply]]:
        """Wait for a reply or more, until a moment of the clock at most; return them.

        ``examine`` raises HostError for a reply that is not to be believed.
        Orders whose hosts have died, and late ones, are given to others meanwhile. HostError where
        that does not help; what came before is returned first.
        """
        found: list[tuple[GivenOrder, HostReply]] = []
        while self._flights and not found:
            if self._raised is not None:
                raise self._raised
            now = self.clock.now()
            if now >= until:
                break
            for future in self._wait(min(until - now, _POLL_SECONDS)):
                with self._keeping_error():
                    reply = self._take(future, examine)
                    found += [] if reply is None else [reply]
            with self._keeping_error():
                self._repeat_late()
        return found

    @contextmanager
    def _keeping_error(self) -> Iterator[None]:
        """Keep a HostError until what came before is stored."""
        try:
            yield
        except HostError as error:
            self._raised = self._raised or error

    def abandon(self) -> list[GivenOrder]:
        """Cancel what is under way, as far as the engine can; return the orders."""
        flights, self._flights, self._held, self._late = self._flights, {}, [], {}
        futures, self._of, self._gone = self._of, {}, set()
        for future in futures:
            cancel(future)
        self._raised = None
        return [flight.order for flight in flights.values()]

    def close(self) -> None:
        """Cancel what is under way; safe to call twice."""
        self.abandon()
        if self._make is not None:
            self._shut_down()

    def __enter__(self) -> Self:
        """Begin a call; HostError while another one has these hosts."""
        with _USING:
            if self._in_use:
                raise HostError("another call uses these hosts: give each one sl.Hosts of its own")
            self._in_use = True
        self._forget()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._in_use = False

    # -- the engine ------------------------------------------------------------------------------

    def _submit(self, packed: bytes) -> Future[bytes]:
        """Have the engine carry out an order."""
        with users_code("the engine"):
            future = self._executor.submit(carry_out, packed)
            future.add_done_callback(self._done.put)
        return future

    def _wait(self, seconds: float) -> list[Future[bytes]]:
        """Return futures that are done, as soon as one is, or when the seconds are over.

        Of more than ``TOGETHER``, the first ones.
        """
        found = []
        with suppress(Empty):
            found.append(self._done.get(timeout=seconds))
            while len(found) < TOGETHER:
                found.append(self._done.get_nowait())
        return found

    def _send(self, flight: Flight) -> None:
        self._held = [one for one in self._held if one is not flight]
        self._late.pop(flight, None)
        try:
            future = self._submit(flight.packed)
        except Exception as error:  # of an engine that is broken, or was shut down
            try:
                self._renew(error)
                future = self._submit(flight.packed)
            except HostError:
                raise
            except Exception as again:
                raise HostError(f"a new executor is broken as well: {again}") from again
        flight.sent = flight.futures[future] = self.clock.now()
        self._of[future] = flight

    def _renew(self, error: Exception) -> None:
        """Make another executor in place of one that broke, whose own orders fail."""
        if self._make is None:
            raise HostError(
                f"{type(self._executor).__name__} is broken ({first_line(str(error))}), and takes "
                "no more orders; give hosts=a function that makes an executor, and another one is "
                "made then. What was measured is stored, and the same call goes on"
            ) from error
        self._shut_down()
        with users_code("the function that makes an executor"):
            self._executor = self._make()

    def _shut_down(self) -> None:
        with suppress(Exception), users_code("the engine"):
            self._executor.shutdown(wait=False, cancel_futures=True)

    # -- replies ---------------------------------------------------------------------------------

    def _take(
        self, future: Future[bytes], examine: Examine | None
    ) -> tuple[GivenOrder, HostReply] | None:
        """Return the reply of a future with its order; None where another host has to do it."""
        flight = self._of.pop(future, None)
        if flight is None:
            return None  # of an order that was late, and was done by another host
        sent = flight.futures.pop(future)
        self._gone.discard(future)
        try:
            reply = read_reply(future, flight.order, self.clock.now() - flight.began, examine)
        except WrongReply as error:
            self.judge.blame(error.host, first_line(str(error)))
            flight.avoid(error.host, self.judge.names)
            self._failed(flight, error)
            return None
        except Exception as error:  # whatever an engine raises
            self._failed(flight, error)
            return None
        self._answered, self._silence = self.clock.now(), 0.0
        if reply.how == REFUSED:
            self.judge.refuse(reply.name, reply.message, reply.rate)
            self._hold(flight)
            return None
        if reply.how in (FAILED, UNTUNABLE) and not self._is_agreed(flight, reply):
            self._hold(flight)
            return None
        if reply.how == FAILED:
            raise HostError(self._error)
        del self._flights[flight.order.serial]
        self._late.pop(flight, None)
        for other in flight.futures:
            del self._of[other]
            self._gone.discard(other)
            cancel(other)
        if reply.how == MEASURED and not (reply.cut or reply.ended):
            self._usual_times.see(flight.order, self.clock.now() - sent)
        self._rounds = 0
        self.judge.see(reply.name, reply.rate)
        with self._keeping_error():
            self._release()
        return flight.order, reply

    def _is_agreed(self, flight: Flight, reply: HostReply) -> bool:
        """Return whether it is no host's fault that an order's own code, or program, fails."""
        self._error = f"host {reply.name} failed: {reply.message}"
        flight.failed_by.append(reply.name)
        agreed = len(set(flight.failed_by)) > 1 or len(flight.failed_by) >= _FAILED
        often = len(flight.failed_by) >= max(self._attempts, _FAILED)
        return agreed and (often or not flight.futures)

    def _failed(self, flight: Flight, error: Exception) -> None:
        """Note that an order has failed; HostError where it has too often."""
        # What breaks an executor fails all of its orders, most of which are not to blame; and a
        # host that fails at once says nothing of the order.
        took = min(self.clock.now() - flight.sent, 1.0)
        if isinstance(error, BrokenExecutor):
            took /= self.at_once
        elif self._answered > flight.began:
            took /= _OTHERS_COME_BACK
        flight.failures += took
        flight.failed += 1
        host = error.host if isinstance(error, HostError) else ""
        sender = f"host {host}" if host else type(error).__name__
        self._error = f"{sender}: {first_line(str(error))}"
        # Another host that has it may be gone.
        most = self._attempts * (2 if flight.futures else 1)
        if flight.failures >= most:
            raise HostError(
                f"no host carried out an order, in {flight.failed} attempts; the last one: "
                f"{self._error}"
            ) from error
        self._hold(flight)

    def _hold(self, flight: Flight) -> None:
        """Keep an order until a host has answered: the idle one may be the one that fails."""
        if not flight.futures and flight not in self._held:
            self._held.append(flight)
            self._late.pop(flight, None)
        if not self._of:
            self._rounds += 1
            avoiding = [one for one in self._flights.values() if one.avoids]
            if self._rounds > self._attempts and (self.judge.apart or avoiding):
                self.judge.forgive()  # nobody else is there
                for one in avoiding:
                    one.forgive()
                self._rounds = 0
            if self._rounds > self._attempts:
                refused = [f"{name}: {why}" for name, why in self.judge.refused.items()]
                reasons = "; ".join([*refused, *([self._error] if self._error else [])])
                raise HostError(f"no host carried out an order of this call: {reasons}")
            self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        for flight in held:
            apart = [*self.judge.apart, *flight.avoids]
            if flight.order.apart != apart:
                flight.order = flight.order.kept_from(apart)
                flight.packed = flight.order.pack()
            self._send(flight)

    def _repeat_late(self) -> None:
        """Give orders that are late to another host as well: the first reply counts.

        An engine may keep orders in a queue, and hosts may come back: each copy waits twice as long
        as the one before, and nobody is given up. A HostWarning where all are silent.
        """
        now = self.clock.now()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._look_for_late(now)
        while self._late and self._busy < self.at_once:
            self._send_copy(next(iter(self._late)))

    def _look_for_late(self, now: float) -> None:
        self._late, silent = {}, True
        longest = _FIRST * self._patience
        expected = self._usual_times.expected(
            [(one.order, min(now - one.began, longest)) for one in self._flights.values()]
        )
        for flight in self._flights.values():
            if not flight.futures:
                continue  # it is held
            if any(one.done() for one in flight.futures):
                silent = False
                continue
            limit = _LATE * (expected(flight.order) or longest) + self._patience
            silent = silent and now - max(flight.began, self._answered) > limit * self._attempts
            limit *= 2**flight.copies
            # Who has it may be gone, and nobody be free for it.
            if now - flight.sent > _GONE * limit:
                self._send_copy(flight)
            elif now - flight.sent > limit:
                self._late[flight] = None
        quiet = now - self._answered
        if silent and self._flights and quiet > self._silence:
            self._silence = 2.0 * quiet
            warnings.warn(
                f"no host has answered for {quiet:.0f} s; Ctrl-C ends the call, and keeps what was "
                "measured",
                HostWarning,
                stacklevel=2,
            )

    def _send_copy(self, flight: Flight) -> None:
        """Give an order to another host as well; of many who have it, the first may be gone."""
        flight.copies += 1
        there = [one for one in flight.futures if one not in self._gone]
        if len(there) >= max(self._attempts, 2):
            self._gone.add(there[0])
        self._send(flight)


def as_hosts(given: Hosts | Engine) -> Hosts:
    """Return ``Hosts`` of an engine; what is one already stays as it is."""
    return given if isinstance(given, Hosts) else Hosts(given)
