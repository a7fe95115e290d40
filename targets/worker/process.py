"""The parent's side of one worker: start it, talk to it without ever blocking, kill it."""

from __future__ import annotations

import os
import selectors
import signal
import site
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from schedlang import errors
from schedlang.errors import TargetError
from schedlang.targets.worker import guard
from schedlang.targets.worker.protocol import Decoder, ProtocolError, encode, new_serial
from schedlang.targets.worker.request import Reply

TAIL_BYTES = 4096
_CHUNK = 1 << 16
_REAP_SECONDS = 5.0
# A guard has killed a worker and all below it by then, unless one of them is stuck.
_GUARD_SECONDS = 2.0
# Between the end of a process's pipes and its own, while the system takes its memory apart.
_ENDING_SECONDS = 2.0
# TVM's threads spin this often before they sleep; its own default of 300000 (about 0.2 s) would
# take a core from whatever another worker runs next. This still spans the pause between two calls.
_SPIN_COUNT = "10000"


class WorkerProcess:
    """A running worker in its own session. One request at a time; every wait has a deadline.

    Between this process and the worker there is its guard, see ``guard.py``.

    ``exited`` becomes true when it ended or broke the protocol; a reply to anything but the request
    in hand breaks it. ``stderr`` is the tail, as text, of what it wrote since the last request.

    Parameters
    ----------
    threads: threads of a parallel loop in it.
    program: the module that it runs, which calls ``worker.dispatcher.serve``.
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
            self._process = _spawner().submit(_spawn, program, environment).result()
        except OSError as error:
            raise TargetError(
                f"no worker can be started: {error.strerror}; end other programs, close files, or "
                "raise the limits of this process (`ulimit -n`, `ulimit -u`)"
            ) from error
        self._finalizer = weakref.finalize(self, _end, self._process)
        self._pid: int | None = None
        self._serial = ""
        self._decoder = Decoder()
        self._outgoing = memoryview(b"")
        self._replies: list[Reply] = []
        self._tail = b""

    @property
    def pid(self) -> int:
        """Its process id, which is also its process group's; its guard's before its first reply."""
        return self._pid or self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, by itself or killed by somebody; it is not reaped."""
        return self.exited or _has_ended(self._process)

    @property
    def stderr(self) -> str:
        """Return the last ``TAIL_BYTES`` of its standard error since the last request."""
        return self._tail.decode(errors="replace")

    def cpu_seconds(self) -> float | None:
        """Return the processor time that it has used; None where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return None

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
        code = self._process.returncode
        return 0 if code is None else code

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
            if _has_ended(self._process):
                return True
            time.sleep(0.002)
        return False

    def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            while self._outgoing:
                sent = os.write(self._process.stdin.fileno(), self._outgoing[:_CHUNK])
                self._outgoing = self._outgoing[sent:]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._outgoing = memoryview(b"")

    def _read(self) -> None:
        assert self._process.stdout is not None
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
        assert self._process.stderr is not None
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
    silent: set[int] = set()
    while not any(worker.exited or worker._replies for worker in workers):
        remaining = deadline - time.monotonic()
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                process = worker._process
                assert process.stdin and process.stdout and process.stderr
                selector.register(process.stdout, selectors.EVENT_READ, worker._read)
                if process.pid not in silent:
                    selector.register(process.stderr, selectors.EVENT_READ, worker)
                if worker._outgoing:
                    selector.register(process.stdin, selectors.EVENT_WRITE, worker._write)
            for key, _ in selector.select(max(remaining, 0)):
                if isinstance(key.data, WorkerProcess):
                    if not key.data._drain_stderr():
                        silent.add(key.data._process.pid)
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


def worker_environment(threads: int) -> dict[str, str]:
    """Return the environment of a worker whose parallel loops use ``threads`` threads."""
    environment = dict(os.environ)
    environment["TVM_NUM_THREADS"] = str(threads)
    environment.setdefault("TVM_THREAD_POOL_SPIN_COUNT", _SPIN_COUNT)
    root = str(Path(errors.__file__).resolve().parent.parent)
    if root not in site.getsitepackages():
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = root if not before else os.pathsep.join((root, before))
    return environment


def _spawn(program: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    # -P: a file called like a module in the user's working directory must not be imported.
    process = subprocess.Popen(
        [sys.executable, "-P", guard.__file__, str(os.getpid()), program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=environment,
        start_new_session=True,
    )
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
    return process


@cache
def _spawner() -> ThreadPoolExecutor:
    """The thread that starts all workers. The kernel's death signal is sent when the *thread* that
    started a child ends, and the caller's thread may well end before the process does."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="schedlang-spawn")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_spawner.cache_clear)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have a guard kill its worker and everything that it started, and reap it."""
    if sys.platform == "linux" and not _has_ended(process):
        os.kill(process.pid, signal.SIGTERM)
        os.kill(process.pid, signal.SIGCONT)
        end = time.monotonic() + _GUARD_SECONDS
        while not _has_ended(process) and time.monotonic() < end:
            time.sleep(0.001)
    kill_group(process)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has ended; it is not reaped, so that its number stays its own."""
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:  # the caller's program has all its children reaped
        return True
    return ended is not None


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill everything that a process started and its process group, then reap it."""
    escaped = _descendants(process.pid)
    for kill, number in ((os.killpg, process.pid), *((os.kill, child) for child in escaped)):
        try:
            kill(number, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_REAP_SECONDS)
    except subprocess.TimeoutExpired:
        # Stuck in the kernel (swapping, a dead network file system): it ends when that does.
        pass


def _descendants(pid: int) -> list[int]:
    """Return the processes below ``pid``: a program can put them into groups of their own."""
    found: list[int] = []
    pending = [pid]
    while pending:
        below = guard.children_of(pending.pop())
        found += below
        pending += below
    return found
