"""How workers are started: the fork servers of this process import TVM once, and fork them (Linux).

``start_child`` starts a worker: forked on Linux, elsewhere by itself. ``Child`` is its process, as
the one that started it holds it.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import BinaryIO, cast
from weakref import WeakValueDictionary

from schedlang import host
from schedlang.targets.worker import fork_server

# -- A process with a worker, and how it is ended -------------------------------------------------

REAP_SECONDS = 5.0


class Child(ABC):
    """A process with a worker.

    Attributes
    ----------
    stdin, stdout, stderr: this process's ends of its pipes; reading and writing does not block.
    code: its exit status once that is known, negative for a signal.
    """

    def __init__(self, streams: Iterable[BinaryIO]) -> None:
        self.stdin, self.stdout, self.stderr = streams
        self.code: int | None = None
        self._owner = os.getpid()
        for stream in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(stream.fileno(), False)

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether it has ended, whoever ended it; then ``code`` is known."""

    @abstractmethod
    def kill(self) -> None:
        """Kill it and everything that it started."""

    def end(self) -> None:
        """Kill it, unless it has ended, and close its pipes."""
        # A copy of this process has copies of what it holds.
        if os.getpid() == self._owner and not self.has_ended:
            self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


def start_python(
    arguments: list[str], environment: Mapping[str, str], streams: int, *files: int
) -> subprocess.Popen[bytes]:
    # -P: a file called like a module in the user's working directory must not be imported.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", fork_server.__name__, *arguments],
        stdin=streams,
        stdout=streams,
        stderr=streams,
        bufsize=0,
        env=environment,
        pass_fds=files,
        start_new_session=True,
    )


class _Alone(Child):
    """A worker in a process of its own, which ends with its standard input."""

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        self._process = start_python([program], environment, subprocess.PIPE)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        super().__init__(cast("BinaryIO", stream) for stream in streams)

    @property
    def has_ended(self) -> bool:
        self.code = self._process.poll()
        return self.code is not None

    def kill(self) -> None:
        kill_group(self._process)
        self.code = self._process.returncode


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill everything that a process started and its process group, then reap it."""
    kill_tree(process.pid)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(REAP_SECONDS)
    except subprocess.TimeoutExpired:
        # Stuck in the kernel (swapping, a dead network file system): it ends when that does.
        pass


def kill_tree(pid: int) -> None:
    """Kill a process group, and all processes below its leader, in whatever group."""
    escaped = host.descendants(pid)
    for kill, number in ((os.killpg, pid), *((os.kill, child) for child in escaped)):
        try:
            kill(number, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


# -- The fork servers of this process -------------------------------------------------------------

# A guard has killed a worker and all below it by then, unless one of them is stuck.
_GUARD_SECONDS = 2.0
# Another thread may hear what this one waits for.
_LISTEN_SECONDS = 0.01
# A fork server that may just be ending gets no order.
_LATEST_USE = fork_server.IDLE_SECONDS - 15.0
# Python and libraries read these when they start or are loaded.
_READ_AT_START = (
    *("LD_", "GLIBC_", "MALLOC_", "PYTHON", "LANG", "LC_", "TVM_", "SCHEDLANG_"),
    *("OMP_", "KMP_", "GOMP_", "OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "NUMEXPR_", "NPY_"),
)
THREADS = "TVM_NUM_THREADS"


def start_child(program: str, environment: Mapping[str, str]) -> Child:
    """Start a worker that runs the module ``program``; raises OSError where that fails."""
    if sys.platform != "linux":
        return _Alone(program, environment)
    return fork_child(program, environment)


def fork_child(program: str, environment: Mapping[str, str]) -> Child:
    """Have a worker forked that runs the module ``program``; OSError where that fails."""
    with _lock:
        server = _server_for(environment)
        child = server.fork(program, environment)
        if server.lost:  # somebody has killed it
            child.end()
            child = _server_for(environment).fork(program, environment)
        return child


class _Forked(Child):
    """A worker below a guard, which is a child of a fork server.

    Attributes
    ----------
    guard: process id of the guard, once it began.
    """

    def __init__(self, streams: Iterable[BinaryIO], server: _ServerProcess, serial: str) -> None:
        super().__init__(streams)
        self.guard: int | None = None
        self._server, self._serial = server, serial

    @property
    def has_ended(self) -> bool:
        self._server.listen()
        if self.code is None and self._server.lost:
            # It ended with its server, which cannot tell any more.
            self.code = self._server.code if self.guard is None else -signal.SIGKILL
        return self.code is not None

    def kill(self) -> None:
        with suppress(OSError):  # it ends with a fork server that has ended
            self._server.order("kill", self._serial)
        end = time.monotonic() + _GUARD_SECONDS
        # One that has not begun never will.
        while not self.has_ended and self.guard is not None:
            if time.monotonic() >= end:
                kill_tree(self.guard)
                break
            self._server.wait(_LISTEN_SECONDS)
        if self.code is None:
            self.code = -signal.SIGKILL


class _ServerProcess:
    """A fork server of this process.

    Attributes
    ----------
    lost: whether it takes no more orders.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        over = threading.Event()
        with theirs:
            # Where this process has closed its standard streams, their numbers are free.
            end = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 3)
            try:
                arguments = [str(os.getpid()), str(end)]
                self._process = _kept_by_thread(
                    lambda: start_python(arguments, environment, subprocess.DEVNULL, end), over
                )
            finally:
                os.close(end)
        # Where memory is collected while it is held, a worker may be ended.
        self._listens = threading.RLock()
        self._children: WeakValueDictionary[str, _Forked] = WeakValueDictionary()
        self._used = time.monotonic()
        self.lost = False
        self.close = weakref.finalize(self, _end_server, self._socket, self._process, over)

    @property
    def idle(self) -> bool:
        """Whether it has no worker."""
        return all(child.code is not None for child in tuple(self._children.values()))

    @property
    def usable(self) -> bool:
        """Whether it takes orders, and does not end just now."""
        self.listen()
        recent = time.monotonic() - self._used < _LATEST_USE
        return not self.lost and (recent or not self.idle)

    @property
    def code(self) -> int:
        """Exit status of a worker that had not begun when the server was lost."""
        try:
            return self._process.wait(REAP_SECONDS) or -signal.SIGKILL
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL

    def fork(self, program: str, environment: Mapping[str, str]) -> Child:
        """Order a worker; does not wait for it. It has ended where the server is lost."""
        serial = secrets.token_hex(8)
        with ExitStack() as ours, ExitStack() as theirs:
            stdin, ins = _pipe(theirs, ours)
            outs, stdout = _pipe(ours, theirs)
            errs, stderr = _pipe(ours, theirs)
            folder = _folder()
            theirs.callback(os.close, folder)
            variables = open(os.memfd_create("environment"), "wb", buffering=0)
            theirs.enter_context(variables).write(json.dumps(environment).encode())
            child = self._children[serial] = _Forked((ins, outs, errs), self, serial)
            files = [one.fileno() for one in (stdin, stdout, stderr)]
            with suppress(ConnectionError):
                self.order("fork", serial, program, [*files, folder, variables.fileno()])
            ours.pop_all()
        return child

    def order(self, what: str, serial: str, program: str = "", files: Sequence[int] = ()) -> None:
        """Send an order about a worker; raises OSError where that fails."""
        self._used = time.monotonic()
        order = {"order": what, "serial": serial, "program": program}
        try:
            socket.send_fds(self._socket, [json.dumps(order).encode()], files)
        except ConnectionError:
            self.lost = True
            raise

    def listen(self) -> None:
        """Take in what the server has told."""
        if self.lost:  # in a copy of this process nobody may give the lock back
            return
        with self._listens:
            while not self.lost:
                try:
                    told = self._socket.recv(fork_server.ORDER_BYTES, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    # A copy of this process may keep the other end of the socket open.
                    self.lost = self._process.poll() is not None
                    return
                except OSError:
                    told = b""
                if not told:
                    self.lost = True
                    return
                what, serial, number = json.loads(told)
                child = self._children.get(serial)
                if child is not None and what == "began":
                    child.guard = number
                elif child is not None:
                    child.code = number

    def wait(self, seconds: float) -> None:
        """Wait until the server tells something, or another thread may have heard it."""
        sources = select.poll()  # `select` knows no descriptor above 1023
        with suppress(ValueError, OSError):  # another thread has closed it
            sources.register(self._socket, select.POLLIN)
            sources.poll(1000 * seconds)

    def forget(self) -> None:
        """Leave it to the process that this one is a copy of."""
        self.lost = True
        self.close.detach()
        self._process.returncode = 0
        self._socket.close()


def _folder() -> int:
    """Open the current folder, or the null device where this process may not enter the folder."""
    try:
        return os.open(".", os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return os.open(os.devnull, os.O_PATH | os.O_CLOEXEC)


def _pipe(reads: ExitStack, writes: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    """Return the ends of a pipe for reading and for writing; each has who closes it."""
    read, write = os.pipe2(os.O_CLOEXEC)
    return (
        reads.enter_context(open(read, "rb", buffering=0)),
        writes.enter_context(open(write, "wb", buffering=0)),
    )


_lock = threading.RLock()
_servers: dict[Hashable, _ServerProcess] = {}


def _server_for(environment: Mapping[str, str]) -> _ServerProcess:
    """Return a fork server that started in this environment, and in this state of this process."""
    key = _surroundings(environment)
    for other, known in tuple(_servers.items()):
        if not known.usable or (other != key and known.idle):
            del _servers[other]
            known.close()
    if key not in _servers:
        _servers[key] = _ServerProcess(environment)
    return _servers[key]


def _surroundings(environment: Mapping[str, str]) -> Hashable:
    """Return what a process takes over from the one that starts it, and keeps."""
    limits = [one for one in dir(resource) if one.startswith("RLIMIT_")]
    return (
        frozenset(
            (name, value)
            for name, value in environment.items()
            if name.startswith(_READ_AT_START) and name != THREADS
        ),
        sys.executable,
        frozenset(os.sched_getaffinity(0)),
        os.getpriority(os.PRIO_PROCESS, 0),
        tuple(resource.getrlimit(getattr(resource, one)) for one in sorted(limits)),
        (os.getresuid(), os.getresgid(), tuple(os.getgroups())),
        # Python's function would change it.
        host.own_status().get("Umask"),
    )


def _kept_by_thread(
    start: Callable[[], subprocess.Popen[bytes]], over: threading.Event
) -> subprocess.Popen[bytes]:
    """Start a process in a thread that lives until it is ``over``.

    The kernel's death signal is sent when the *thread* that started a child ends, and the caller's
    thread may well end before the process does. A new one has the caller's cores and priority.
    """
    started: Future[subprocess.Popen[bytes]] = Future()

    def keep() -> None:
        try:
            started.set_result(start())
        except BaseException as error:
            started.set_exception(error)
        else:
            over.wait()

    threading.Thread(target=keep, name="schedlang-fork-server", daemon=True).start()
    try:
        return started.result()
    except BaseException:  # such as Ctrl-C
        started.add_done_callback(_abandon)
        over.set()
        raise


def _abandon(started: Future[subprocess.Popen[bytes]]) -> None:
    if started.exception() is None:
        started.result().kill()
        started.result().wait()


def _end_server(
    orders: socket.socket, process: subprocess.Popen[bytes], over: threading.Event
) -> None:
    orders.close()  # it ends then, and the kernel has the guards end
    with suppress(OSError):
        process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(REAP_SECONDS)
    over.set()


def _forget() -> None:
    """A copy of this process has no children."""
    global _lock
    _lock = threading.RLock()
    for one in _servers.values():
        one.forget()
    _servers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
