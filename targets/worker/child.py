"""A process with a worker, as the process that started it holds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import BinaryIO

from schedlang.targets.worker import nursery
from schedlang.targets.worker.guard import children_of

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
        [sys.executable, "-P", "-m", nursery.__name__, *arguments],
        stdin=streams,
        stdout=streams,
        stderr=streams,
        bufsize=0,
        env=environment,
        pass_fds=files,
        start_new_session=True,
    )


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
    escaped = descendants(pid)
    for kill, number in ((os.killpg, pid), *((os.kill, child) for child in escaped)):
        try:
            kill(number, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def descendants(pid: int) -> list[int]:
    """Return the processes below ``pid``: a program can put them into groups of their own."""
    found: list[int] = []
    pending = [pid]
    while pending:
        below = children_of(pending.pop())
        found += below
        pending += below
    return found
