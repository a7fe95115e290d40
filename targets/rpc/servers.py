"""Servers that programs run on: how to start them here, what is known of them, when to give up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from schedlang.errors import TargetError, WorkloadError
from schedlang.measurement import Status
from schedlang.targets.rpc.service import parse_address
from schedlang.targets.worker.executor import Work
from schedlang.targets.worker.forking import kill_group
from schedlang.targets.worker.process import TAIL_BYTES, ScratchFolder, worker_environment
from schedlang.targets.worker.protocol import Reply
from schedlang.tvm.codegen import runtime as rpc

# -- Starting a tracker and servers on this machine, for tests and for small set-ups --------------

LOOPBACK = "127.0.0.1"
_START_SECONDS = 120.0
_ASK_SECONDS = 5.0
_POLL_SECONDS = 0.05

Tracker = tuple[str, int] | str


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """A running tracker or server; ``pid`` leads a process group that holds all of it."""

    address: tuple[str, int]
    _process: subprocess.Popen[bytes] = field(repr=False)
    _log: Path = field(repr=False)

    @property
    def pid(self) -> int:
        """Process id of the program, and its process group's."""
        return self._process.pid

    @property
    def log(self) -> str:
        """Return the end of its output."""
        return self._log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")

    def stop(self) -> None:
        """Kill it with all its processes; safe to call twice."""
        if self._process.returncode is None:
            kill_group(self._process)


def tracker_address(tracker: Tracker) -> tuple[str, int]:
    """Read the address ``(host, port)`` or ``"host:port"``; TargetError if it is neither."""
    try:
        if isinstance(tracker, str):
            return parse_address(tracker)
        host, port = tracker
        if isinstance(host, str) and isinstance(port, int):
            return host, port
    except (TypeError, ValueError):
        pass
    raise TargetError(f"tracker={tracker!r}; give (host, port) or 'host:port'")


def find_servers(tracker: tuple[str, int], key: str) -> list[rpc.Address]:
    """Return the addresses of a key's servers; TargetError without any, or without a tracker."""
    try:
        found = rpc.registered(tracker, _ASK_SECONDS)
    except rpc.TrackerError as error:
        raise TargetError(str(error)) from error
    if not found.get(key):
        known = ", ".join(map(repr, sorted(found))) or "none"
        raise TargetError(
            f"the tracker at {tracker[0]}:{tracker[1]} has no server with the key {key!r}; "
            f"keys with servers: {known}"
        )
    return found[key]


def is_here(server: rpc.Address) -> bool:
    """Whether the server has an address of this machine only."""
    return server[0].startswith("127.") or server[0] in ("localhost", "::1")


@contextmanager
def start_tracker(port: int = 0) -> Iterator[Service]:
    """Run a tracker on 127.0.0.1 for the ``with`` block; port 0 takes a free one.

    Raises ``TargetError`` when it does not start, or without the package tornado.
    """
    missing = rpc.missing_package()
    if missing is not None:
        raise TargetError(
            f"TVM's RPC tracker needs {missing}: pip install {missing} (or 'schedlang[cluster]')"
        )
    address = (LOOPBACK, port or _free_port())

    def is_up() -> bool:
        rpc.registered(address, _ASK_SECONDS)
        return True

    with _running(["tracker"], address, is_up) as service:
        yield service


@contextmanager
def start_server(
    tracker: Tracker, key: str, *, port: int = 0, cpus: Sequence[int] | None = None
) -> Iterator[Service]:
    """Run a server on 127.0.0.1 for the ``with`` block, registered with ``tracker`` as ``key``.

    Parallel loops use one thread on each of the logical CPUs ``cpus``, by default one on every
    real core. Several servers on one machine disturb each other's measurements unless their
    ``cpus`` differ. A server that a candidate crashes comes back at once. Raises ``TargetError``
    when it does not start.
    """
    host, tracker_port = tracker_address(tracker)
    if not key:
        raise TargetError("key=''; name the sort of device")
    address = (LOOPBACK, port or _free_port())
    arguments = ["server", "--tracker", f"{host}:{tracker_port}", "--key", key]
    if cpus is not None:
        if not cpus:
            raise TargetError("cpus=(); give one logical CPU or more")
        arguments += ["--cpus", ",".join(map(str, cpus))]

    def is_up() -> bool:
        return any(
            registered == address[1]
            for _, registered in rpc.registered((host, tracker_port), _ASK_SECONDS).get(key, ())
        )

    with _running(arguments, address, is_up) as service:
        yield service


@contextmanager
def _running(
    arguments: Sequence[str], address: tuple[str, int], is_up: Callable[[], bool]
) -> Iterator[Service]:
    with closing(ScratchFolder()) as folder:
        service = _spawn(arguments, address, folder.path)
        try:
            _wait_until(is_up, service)
            yield service
        finally:
            service.stop()


def _spawn(arguments: Sequence[str], address: tuple[str, int], folder: Path) -> Service:
    log = folder / "log"
    command = [sys.executable, "-P", "-m", "schedlang.targets.rpc.service", *arguments]
    command += ["--host", address[0], "--port", str(address[1]), "--watch-input"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            # TVM keeps uploads in a folder that a killed server does not remove.
            env={**worker_environment(1), "TMPDIR": str(folder)},
            start_new_session=True,
        )
    return Service(address, process, log)


def _wait_until(is_up: Callable[[], bool], service: Service) -> None:
    end = time.monotonic() + _START_SECONDS
    problem = "not up"
    while service._process.poll() is None and time.monotonic() < end:
        try:
            if is_up():
                return
            problem = "not registered with its tracker"
        except rpc.TrackerError as error:
            problem = str(error)
        time.sleep(_POLL_SECONDS)
    code = service._process.returncode
    if code is not None:
        problem = f"it ended with {signal.Signals(-code).name if code < 0 else code}"
    raise TargetError(
        f"no service at {service.address[0]}:{service.address[1]}: {problem}\n{service.log}"
    )


def _free_port() -> int:
    with socket.socket() as probe:
        if os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


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
