"""The parent's side of one worker: start it, talk to it without ever blocking, kill it.

Workers are forked on Linux, and started each by itself elsewhere. ``ScratchFolder`` is where they
may leave files: it vanishes with this process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import selectors
import shutil
import site
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from schedlang import errors, host
from schedlang.errors import TargetError
from schedlang.targets.worker.forking import THREADS, Child, start_child
from schedlang.targets.worker.protocol import Decoder, ProtocolError, Reply, encode, new_serial

# -- The worker, as its parent sees it ------------------------------------------------------------

TAIL_BYTES = 4096
_CHUNK = 1 << 16
# Between the end of a process's pipes and its own, while the system takes its memory apart.
_ENDING_SECONDS = 2.0


class WorkerProcess:
    """A running worker in its own session. One request at a time; every wait has a deadline.

    Between this process and the worker there are a fork server and a guard, see ``forking.py``.

    ``exited`` becomes true when it ended or broke the protocol; a reply to anything but the request
    in hand breaks it. ``stderr`` is the tail, as text, of what it wrote since the last request.

    Parameters
    ----------
    threads: threads of a parallel loop in it.
    program: the module that it runs, which calls ``worker.protocol.serve``.
    scratch: a folder for its temporary files; by default the system's.
    """

    def __init__(self, threads: int, program: str, scratch: Path | None = None) -> None:
        if not sys.executable:
            raise TargetError("sys.executable is empty: no Python to start workers with")
        self.exited = False
        self._garbled = False
        environment = worker_environment(threads)
        if scratch is not None:
            environment["TMPDIR"] = str(scratch)
        try:
            self._process = start_child(program, environment)
        except OSError as error:
            raise TargetError(
                f"no worker can be started: {error.strerror}; end other programs, close files, or "
                "raise the limits of this process (`ulimit -n`, `ulimit -u`)"
            ) from error
        self._finalizer = weakref.finalize(self, self._process.end)
        self._pid: int | None = None
        self._serial = ""
        self._decoder = Decoder()
        self._outgoing = memoryview(b"")
        self._replies: list[Reply] = []
        self._tail = b""

    @property
    def pid(self) -> int | None:
        """Its process id, which is also its process group's; None before its first reply."""
        return self._pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, by itself or killed by somebody."""
        return self.exited or self._process.has_ended

    @property
    def stderr(self) -> str:
        """Return the last ``TAIL_BYTES`` of its standard error since the last request."""
        return self._tail.decode(errors="replace")

    def cpu_seconds(self, *, below: bool = False) -> float | None:
        """Return the processor time that it and its ended children have used.

        ``below`` adds that of all processes below it which run, such as a compiler's. None where
        the system does not tell.
        """
        if self.pid is None:  # there is no such file before its first reply
            return None
        own = host.process_stat(self.pid)
        if own is None or not below:
            return None if own is None else own.processor_seconds
        others = map(host.process_stat, host.descendants(self.pid))
        return sum((one.processor_seconds for one in others if one), own.processor_seconds)

    def send(self, header: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        """Queue one request; ``wait_any`` moves the bytes."""
        self._tail = b""
        self._serial = new_serial()
        self._outgoing = memoryview(encode({**header, "serial": self._serial}, blobs))
        self._write()

    def take_reply(self) -> Reply | None:
        """Return the reply, once it is there."""
        if self._replies:
            self._drain_stderr()
        return self._replies.pop(0) if self._replies else None

    def kill(self) -> int:
        """Kill it and all that it started; return its exit status, negative for a signal."""
        self.exited = True
        self._finalizer()
        return self._process.code or 0

    def ended(self) -> int | None:
        """Reap it after ``exited``; return its exit status, negative for a signal.

        ``None`` if it broke the protocol without ending, for example because a program wrote to its
        pipes. Kills all that it started.
        """
        alone = not self._garbled and self._ends_by_itself()
        self._drain_stderr()
        code = self.kill()
        return code if alone else None

    def _ends_by_itself(self) -> bool:
        end = time.monotonic() + _ENDING_SECONDS
        while time.monotonic() < end:
            # A full pipe would keep it from ending.
            self._drain_stderr()
            if self._process.has_ended:
                return True
            time.sleep(0.002)
        return False

    def _write(self) -> None:
        try:
            while self._outgoing:
                sent = os.write(self._process.stdin.fileno(), self._outgoing[:_CHUNK])
                self._outgoing = self._outgoing[sent:]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._outgoing = memoryview(b"")

    def _read(self) -> None:
        data = _read_some(self._process.stdout.fileno())
        if data is None:
            return
        try:
            for reply in self._decoder.feed(data):
                self._take_in(reply)
        except ProtocolError:
            self.exited = self._garbled = True
        self.exited |= not data

    def _take_in(self, reply: Reply) -> None:
        """Keep a reply; ProtocolError unless it is the one to the request in hand."""
        serial, pid = reply.header.pop("serial", None), reply.header.pop("pid", None)
        if not self._serial or serial != self._serial or not isinstance(pid, int):
            raise ProtocolError(f"a reply with the serial {serial!r}")
        self._serial, self._pid = "", pid
        self._replies.append(reply)

    def _drain_stderr(self) -> bool:
        """Keep the tail; False at the end of the stream."""
        if self._process.stderr.closed:
            return False
        # Bounded, so that a flood cannot hold up the other workers.
        for _ in range(16):
            data = _read_some(self._process.stderr.fileno())
            if not data:
                return data is None
            self._tail = (self._tail + data)[-TAIL_BYTES:]
        return True


def wait_any(workers: Sequence[WorkerProcess], deadline: float) -> None:
    """Move bytes until a worker has a reply or has exited, or until ``deadline`` (monotonic)."""
    silent: set[Child] = set()
    while not any(worker.exited or worker._replies for worker in workers):
        remaining = deadline - time.monotonic()
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                process = worker._process
                selector.register(process.stdout, selectors.EVENT_READ, worker._read)
                if process not in silent:
                    selector.register(process.stderr, selectors.EVENT_READ, worker)
                if worker._outgoing:
                    selector.register(process.stdin, selectors.EVENT_WRITE, worker._write)
            for key, _ in selector.select(max(remaining, 0)):
                if isinstance(key.data, WorkerProcess):
                    if not key.data._drain_stderr():
                        silent.add(key.data._process)
                else:
                    key.data()
        if remaining <= 0:
            return


def _read_some(descriptor: int) -> bytes | None:
    """Read what is there: ``b""`` at the end of the stream, None if nothing has come."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


# -- How this process starts workers --------------------------------------------------------------

# TVM's threads spin this often before they sleep; its own default of 300000 (about 0.2 s) would
# take a core from whatever another worker runs next. This still spans the pause between two calls.
_SPIN_COUNT = "10000"


def worker_environment(threads: int) -> dict[str, str]:
    """Return the environment of a worker whose parallel loops use ``threads`` threads."""
    environment = dict(os.environ)
    environment[THREADS] = str(threads)
    environment.setdefault("TVM_THREAD_POOL_SPIN_COUNT", _SPIN_COUNT)
    root = str(Path(errors.__file__).resolve().parent.parent)
    if root not in site.getsitepackages():
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = root if not before else os.pathsep.join((root, before))
    return environment


# -- A folder for temporary files that vanishes with the process that made it ----------------------
#
# A process that is killed removes nothing, and its workers are killed with it. So a small process
# of the system's shell waits for its end and removes the folder then. Where that one is killed too,
# the next process that makes such a folder removes what has no owner any more: an owner holds a
# lock on its folder.

_PREFIX = "schedlang-scratch-"
_SHELL = "/bin/sh"
# Waits until the other end of its standard input is closed. What else is being killed at that
# moment may still write into the folder, so that removing it may take several attempts.
_REMOVE_AFTERWARDS = """
read -r nothing
attempts=0
until rm -rf -- "$1" || [ "$attempts" -ge 20 ]; do
    attempts=$((attempts + 1))
    sleep 0.1
done
"""


class ScratchFolder:
    """An empty folder in the system's folder for temporary files; ``close`` removes it.

    Attributes
    ----------
    path: where it is.
    """

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        _remove_orphans(place)
        self.path, lock, remover = _make(place)
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, remover, os.getpid())

    def close(self) -> None:
        """Remove it with all its content; safe to call twice."""
        self._finalizer()


def _make(place: Path) -> tuple[Path, int, subprocess.Popen[bytes] | None]:
    """Make a folder; return it, a descriptor that holds its lock, and what removes it."""
    while True:
        path = place / f"{_PREFIX}{secrets.token_hex(8)}"
        # First: this process may be killed at any moment.
        remover = _start_remover(path)
        path.mkdir(mode=0o700)
        lock = _lock(path)
        if lock is not None and path.exists():
            return path, lock, remover
        # Another process took it for an orphan before it was locked.
        _remove(path, lock, remover, os.getpid())


def _start_remover(path: Path) -> subprocess.Popen[bytes] | None:
    """Start what removes a folder when this process has ended; None without a shell."""
    try:
        return subprocess.Popen(
            [_SHELL, "-c", _REMOVE_AFTERWARDS, _SHELL, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the owner
        )
    except OSError:
        return None


def _remove_orphans(place: Path) -> None:
    """Remove the folders of processes that were killed together with what would remove them."""
    for path in place.glob(f"{_PREFIX}*"):
        lock = _lock(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _lock(path: Path) -> int | None:
    """Lock a folder of this user's; return the descriptor that holds the lock.

    None where it has an owner, or is none.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove(
    path: Path, lock: int | None, remover: subprocess.Popen[bytes] | None, owner: int
) -> None:
    if os.getpid() != owner:
        return  # a fork of the owner's ends
    shutil.rmtree(path, ignore_errors=True)
    if lock is not None:
        os.close(lock)
    if remover is not None:
        assert remover.stdin is not None
        with suppress(OSError):
            remover.stdin.close()
        remover.wait()
