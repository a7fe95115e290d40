"""The guard of one worker: ends every process that the worker leaves behind.

On Linux a worker is the child of its guard. Processes that a candidate starts can leave the
worker's session and outlive it, but they stay below the guard, which kills them when the worker
ends, when the guard's parent ends, and when it gets SIGTERM. Then it ends as the worker did. On
other systems there is no guard: the worker ends with its standard input.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

from schedlang.host import children_of

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SET_NAME = 15  # PR_SET_NAME
_SET_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
NAME = "schedlang-guard"
WORKER = "schedlang-work"
# A process that is stuck in the kernel is not waited for any longer.
_KILL_SECONDS = 5.0


def end_with(parent: int, number: int) -> None:
    """Have the kernel send this process a signal when its parent ends; exit if it has ended.

    Does nothing on other systems than Linux.
    """
    if sys.platform == "linux":
        control_process(_SET_DEATH_SIGNAL, number)
        # A parent that is outside this PID namespace has the number 0, and ends the namespace.
        if os.getppid() not in (parent, 0):
            os._exit(1)


def keep_descendants() -> None:
    """Make orphaned descendants children of this process."""
    if sys.platform == "linux":
        control_process(_SET_SUBREAPER, 1)


def set_name(name: str) -> None:
    """Give this process a name of at most 15 characters, for lists of processes."""
    control_process(_SET_NAME, name.encode())


def control_process(option: int, value: int | bytes) -> None:
    """Call Linux's ``prctl``."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def fork_below_guard(parent: int) -> None:
    """Fork: this process, a child of ``parent``, becomes the guard, and only its child returns."""
    end_with(parent, signal.SIGKILL)
    keep_descendants()
    guard = os.getpid()
    worker = os.fork()
    if worker:
        _guard(worker, parent)
    end_with(guard, signal.SIGKILL)
    set_name(WORKER)
    # A signal to its process group must not reach the guard.
    os.setsid()


def _guard(worker: int, parent: int) -> NoReturn:
    """Wait for the worker, kill what is left of it, and end as it did."""
    status = int(signal.SIGKILL)
    try:
        signal.signal(signal.SIGTERM, _stop)
        end_with(parent, signal.SIGTERM)
        set_name(NAME)
        # The other ends of these pipes must see when the worker closes them.
        os.close(0)
        os.close(1)
        status = _wait_for(worker)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except SystemExit:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(worker, signal.SIGKILL)
    _kill_children()
    _end_like(status)


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit


def _wait_for(worker: int) -> int:
    """Return the worker's exit status, as ``os.wait`` does."""
    while True:
        ended, status = os.wait()
        if ended == worker:
            return status


def _kill_children() -> None:
    """Kill all processes below this one: what a killed process leaves becomes a child of ours."""
    end = time.monotonic() + _KILL_SECONDS
    pause = 0.001
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        for child in children_of(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _end_like(status: int) -> NoReturn:
    """End with an exit status of ``os.wait``."""
    if os.WIFSIGNALED(status):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
