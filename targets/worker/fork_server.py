"""The fork server: a process that has imported what workers import, and forks them (Linux).

TVM takes seconds to import, a fork some milliseconds: all workers of a process but the first start
at once. ``forking.py`` starts it, as ``python -P -m schedlang.targets.worker.fork_server PARENT
SOCKET``, and sends it orders. It runs no candidate and calls no compiled code. A worker is forked
below a guard of its own, with the pipes, the folder and the environment of its order. Elsewhere
than on Linux each worker is started by itself, with ``PROGRAM`` alone.

The guard of a worker, a subreaper, ends every process that the worker leaves behind. Processes that
a candidate starts can leave the worker's session and outlive it, but they stay below the guard,
which kills them when the worker ends, when the guard's parent ends, and when it gets SIGTERM. Then
it ends as the worker did. On other systems there is no guard: the worker ends with its standard
input.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import time
import warnings
from collections import deque
from types import FrameType
from typing import NoReturn

from schedlang.host import children_of

# -- The guard of one worker ----------------------------------------------------------------------

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SET_NAME = 15  # PR_SET_NAME
_SET_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
GUARD_NAME = "schedlang-guard"
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
        set_name(GUARD_NAME)
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


# -- The server -----------------------------------------------------------------------------------

SERVER_NAME = "schedlang-forks"
ORDER_BYTES = 1 << 12
# Files that come with the order of a worker: its standard streams, its folder, its environment.
FILES = 5
# Without a worker for so long, a server ends.
IDLE_SECONDS = 60.0
_OWN_PACKAGE = "schedlang."


def hide_torch() -> None:
    """Have TVM be imported as where torch is not installed.

    TVM imports torch where it finds it, which takes twice as long as the rest of TVM, and a worker
    does not need it.
    """
    sys.modules["torch"] = None  # type: ignore[assignment]


def show_torch() -> None:
    """Undo ``hide_torch``: code of a user's in a worker may import torch."""
    if sys.modules.get("torch", sys) is None:
        del sys.modules["torch"]


class ForkServer:
    """Answers orders: ``fork`` with a program and files, or ``kill``; each has a worker's serial.

    It tells when a worker ``began``, with its guard's process id, and how it ``ended``.
    """

    def __init__(self, orders: socket.socket) -> None:
        # The thread that started this process may block signals.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._orders = orders
        self._orders.setblocking(False)
        self._untold: deque[bytes] = deque()
        self._guards: dict[int, str] = {}
        # A child's end writes a byte to the second one.
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)

    def serve(self) -> str:
        """Answer orders until they end; returns in a forked worker only, with its program."""
        sources = select.poll()
        sources.register(self._woken, select.POLLIN)
        while True:
            wanted = select.POLLIN | (select.POLLOUT if self._untold else 0)
            sources.register(self._orders, wanted)
            idle = not self._guards
            found = sources.poll(1000 * IDLE_SECONDS if idle else None)
            self._reap()
            self._tell_more()
            try:
                # One at a time: a worker must not get the files of another.
                text, files, _, _ = socket.recv_fds(self._orders, ORDER_BYTES, FILES)
            except BlockingIOError:
                if found or not idle:
                    continue
                text = b""
            except OSError:  # its parent has ended, or does not listen any more
                text = b""
            if not text:
                os._exit(0)  # the kernel has the guards end
            order: dict[str, str] = json.loads(text)
            if order["order"] == "kill":
                self._kill(order["serial"])
            elif len(files) < FILES:
                _close(files)  # this process may open no more
                self._tell("ended", order["serial"], 1)
            elif self._fork(order["program"], files, order["serial"]):
                return order["program"]

    def _kill(self, serial: str) -> None:
        for pid, one in self._guards.items():
            if one == serial:
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGCONT)

    def _import(self, program: str, errors: int) -> None:
        """Import what a program of ours imports. Where that fails, it will in the worker too."""
        if program.startswith(_OWN_PACKAGE) and program not in sys.modules:
            os.dup2(errors, 2)
            hide_torch()
            with contextlib.suppress(Exception):
                importlib.import_module(program)
            _discard_errors()
            # The collector would write to what is shared with workers.
            gc.freeze()

    def _fork(self, program: str, files: list[int], serial: str) -> bool:
        """Fork a worker below its guard; return whether this process is the worker."""
        self._import(program, files[2])
        own = os.getpid()
        try:
            guard = os.fork()
        except OSError as error:
            os.write(files[2], f"no process can be started: {error.strerror}\n".encode())
            _close(files)
            self._tell("ended", serial, 1)
            return False
        if guard:
            _close(files)
            self._guards[guard] = serial
            self._tell("began", serial, guard)
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        self._orders.close()
        os.close(self._woken)
        os.close(self._wakes)
        _take(files)
        fork_below_guard(own)
        return True

    def _reap(self) -> None:
        """Tell which guards have ended, and kill what one has left that was killed itself."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 1 << 12)
        left = False
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, code = ended[0], os.waitstatus_to_exitcode(ended[1])
                serial = self._guards.pop(pid, None)
                if serial is not None:
                    self._tell("ended", serial, code)
                left |= serial is None or code < 0
        # What is killed here ends, and comes here again.
        for orphan in (children_of(os.getpid()) - self._guards.keys()) if left else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(orphan, signal.SIGKILL)

    def _tell(self, what: str, serial: str, number: int) -> None:
        self._untold.append(json.dumps([what, serial, number]).encode())
        self._tell_more()

    def _tell_more(self) -> None:
        """Send what was not told yet, as far as there is room: the parent may listen later."""
        with contextlib.suppress(OSError):
            while self._untold:
                self._orders.send(self._untold[0])
                self._untold.popleft()


def _take(files: list[int]) -> None:
    """Go over to the streams, the folder and the environment of a worker."""
    for stream, file in enumerate(files[:3]):
        os.dup2(file, stream)
    with contextlib.suppress(OSError):  # a folder that may not be entered
        os.fchdir(files[3])
    variables = os.pread(files[4], os.fstat(files[4]).st_size, 0)
    environment: dict[str, str] = json.loads(variables)
    for name in os.environ.keys() - environment:
        del os.environ[name]
    # The system has variables without a name too, and Python sets none.
    os.environ.update((name, value) for name, value in environment.items() if name)
    _close(files)


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


def _discard_errors() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)


def main() -> None:
    """Be a fork server, or a worker."""
    *given, last = sys.argv[1:]
    del sys.argv[1:]
    program = last
    if given:
        end_with(int(given[0]), signal.SIGKILL)
        keep_descendants()
        set_name(SERVER_NAME)
        # Threads of numpy's BLAS, which stop for a fork; from 3.12 on Python warns of any thread.
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        program = ForkServer(socket.socket(fileno=int(last))).serve()
        sys.modules.pop(program, None)  # it is run, not imported
    hide_torch()
    runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
