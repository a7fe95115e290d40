"""What is known of the servers that programs run on, and when to give up on them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from schedlang.errors import TargetError, WorkloadError
from schedlang.measurement import Status
from schedlang.targets.pooled.work import Work
from schedlang.targets.worker.protocol import Reply

# Besides ``Status``: the server is at fault, not the candidate.
UNREACHABLE = "unreachable"
LOST = "lost"
STALE = "stale"
_REFERENCE_TRIES = 3


class Servers:
    """The servers that a tracker knows by one key.

    Parameters
    ----------
    tracker: its address.
    key: name of the servers there.
    count: number of servers.
    threads: number of threads that a server's parallel loops must use.
    timeout: seconds without any server after which to give up.

    Attributes
    ----------
    advice: returns what to do if the unscheduled program crashes.
    unreached: sides of the unscheduled program's branches that no inputs take, as text.
    """

    def __init__(
        self, tracker: tuple[str, int], key: str, count: int, threads: int, timeout: float
    ) -> None:
        self.tracker, self.key, self.count, self.timeout = tracker, key, count, timeout
        self.advice: Callable[[], str] = str
        self.unreached: Sequence[str] = ()
        self._threads = threads
        self._faults: list[str] = []
        self.heard()

    def heard(self) -> None:
        """Note that a server has answered now."""
        self._contact = time.monotonic()

    def forget(self) -> None:
        """Forget what happened with the workload so far."""
        self._faults, self.unreached = [], ()

    def check_reference(self, server: str, reply: Reply) -> None:
        """Take in what came of the unscheduled program; raise where there is no hope."""
        if reply.ok:
            self.heard()
            self.unreached = reply.header.get("unreached", ())
            return
        if not reply.lost and reply.header["status"] not in (LOST, STALE):
            raise WorkloadError(
                f"the unscheduled program cannot be the reference: {explain(reply)}"
            )
        self._faults.append(f"{server}: {explain(reply)}")
        if len(self._faults) >= _REFERENCE_TRIES:
            raise TargetError(
                f"no server survives the unscheduled program: {'; '.join(self._faults)}; "
                f"{self.advice()}"
            )

    def check_silence(self, reply: Reply, *, serves: bool) -> None:
        """TargetError where no server has answered for long, and none ``serves`` a program now."""
        silence = time.monotonic() - self._contact
        if silence >= self.timeout and not serves:
            raise TargetError(
                f"no server {self.key!r} for {silence:.0f} s: {explain(reply)}; "
                "are the servers running?"
            )

    def check_threads(self, server: str, reply: Reply) -> None:
        """TargetError unless a server that was connected to uses as many threads as it should."""
        self.heard()
        threads, wanted = reply.header["threads"], self._threads
        if threads != wanted:
            raise TargetError(
                f"parallel loops on {server} use {threads} threads, and the target has "
                f"{wanted} cores: start the server with TVM_NUM_THREADS={wanted}, or measure for "
                f"Target('cpu', cores={threads})"
            )


def prefer_other(work: Work, server: str, ready: deque[Work]) -> Work:
    """Choose what to run on ``server``: ``work``, unless it was lost there and another waits."""
    if server in work.lost_on:
        for other in ready:
            if server not in other.lost_on:
                ready.remove(other)
                ready.appendleft(work)
                return other
    return work


def lost_twice(work: Work, reply: Reply) -> Reply:
    """Make the last reply about a program that two servers in a row were lost with."""
    where = " and then on ".join(work.lost_on)
    if reply.timed_out:
        return reply.failed_as(Status.RUN_TIMEOUT, f"the server stopped answering, on {where}")
    message = f"the connection broke while it ran, on {where} ({explain(reply)})"
    return reply.failed_as(Status.CRASHED, message)


def explain(reply: Reply) -> str:
    """Say in one line why a request failed."""
    return "no answer in time" if reply.timed_out else str(reply.header["message"])
