"""What a candidate may change in its process for the ones behind it, and has to leave as it was.

``ProcessState`` compares before and after. Processes that a candidate starts are the second part:
copies of the worker end at once, others are found.
"""

from __future__ import annotations

import ctypes
import locale
import os
import platform
import signal
import sys
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from schedlang import host
from schedlang.measurement import Status
from schedlang.targets.errors import Fault, left_changed
from schedlang.targets.measure import floating_point
from schedlang.tvm.codegen import runtime
from schedlang.tvm.codegen.runtime import in_each_thread

# -- The state of the process ---------------------------------------------------------------------

THREADS = "its threads"
FILES = "its open files"
LOCKED_MEMORY = "its locked memory"

# A signal's handler begins a struct sigaction. Libraries set the same handler again by other calls,
# which changes its flags and the signals that are blocked in it.
_SIGACTION_BYTES, _HANDLER_BYTES = 512, ctypes.sizeof(ctypes.c_void_p)
# Linux's numbers of the calls ioprio_get and get_mempolicy.
_CALLS = {"x86_64": (252, 239), "aarch64": (31, 236)}
_IOPRIO_WHO_PROCESS = 1
# Linux's prctl, by the number of a question; the answer is returned.
_ANSWERS = {
    "whether it can be dumped": 3,
    "what capabilities it keeps": 7,
    "the security bits": 27,
    "the slack of its timers": 30,
    "what memory errors do": 34,
    "whether it has huge pages": 42,
}
# Here the answer is written to memory.
_WRITTEN_ANSWERS = {
    "its death signal": 2,  # PR_GET_PDEATHSIG
    "whether it may read the clock": 25,  # PR_GET_TSC
    "whose orphans it adopts": 37,  # PR_GET_CHILD_SUBREAPER
}
# Lines of /proc/self/status. Those of one thread are of the main one, which calls programs.
_STATUS = {
    "Name": "its name",
    "Umask": "its file mode mask",
    "Uid": "its user",
    "Gid": "its group",
    "Groups": "its group",
    "VmLck": LOCKED_MEMORY,
    "Threads": THREADS,
    "CapInh": "its capabilities",
    "CapPrm": "its capabilities",
    "CapEff": "its capabilities",
    "CapBnd": "its capabilities",
    "CapAm": "its capabilities",
    "NoNewPrivs": "whether it may gain rights",
    "Seccomp": "the system calls that it may make",
    "Seccomp_filters": "the system calls that it may make",
    "Mems_allowed_list": "the memory that it may use",
}

State = dict[str, Hashable]


class ProcessState:
    """The state of this process and of its threads, to compare with later.

    It is what Linux tells; other systems tell less. What libraries keep for themselves is no part
    of it, as the numbers that ``rand`` gives next.
    """

    def __init__(self) -> None:
        self._process, self._threads = _process(), _threads()

    def changes(self) -> list[str]:
        """Say what has changed since; takes less than a millisecond."""
        found = _differences(self._process, _process())
        # Only parallel loops that run on more or fewer threads change which of them there are.
        for before, now in zip(self._threads, _threads(), strict=False):
            found += _differences(before, now)
        return list(dict.fromkeys(found))


@contextmanager
def unchanged_process(unwatched: Collection[str] = ()) -> Iterator[None]:
    """Raise ``Fault`` at the end of the ``with`` block where it has changed this process.

    Where the block fails itself, its fault tells that too. ``unwatched`` is what may change, as it
    is called here.
    """
    state = ProcessState()

    def changes() -> list[str]:
        return [name for name in state.changes() if name not in unwatched]

    try:
        yield
    except Fault as fault:
        if not fault.corrupt and (found := changes()):
            text = f"{fault}; besides, {left_changed(found)}"
            raise Fault(fault.status, text, corrupt=True, samples=fault.samples) from fault
        raise
    except Exception as error:
        if found := changes():
            raise left_changed(found) from error
        raise
    if found := changes():
        raise left_changed(found)


def compute_by_default() -> None:
    """Have all threads compute with floating-point numbers as at the start of a program."""
    floating_point.use_default()
    in_each_thread(lambda number: floating_point.use_default())


def _differences(before: State, now: State) -> list[str]:
    names = (*before, *(name for name in now if name not in before))
    return [name for name in names if before.get(name) != now.get(name)]


def _process() -> State:
    """Return the state of the process, by what it is called."""
    found: State = {"the number of threads of parallel loops": runtime.thread_count()}
    for name, read in _PARTS.items():
        try:
            found[name] = read()
        except OSError as error:  # as if its working directory is gone
            found[name] = error.errno
    if sys.platform == "linux":
        found |= _status() | _control()
    return found


def _threads() -> list[State]:
    """Return the state that each thread of a parallel loop has for itself, in their order."""
    found: dict[int, State] = {}

    def look(number: int) -> None:
        found[number] = _thread()

    if not in_each_thread(look):
        look(0)
    return [found[number] for number in sorted(found)]


def _thread() -> State:
    """Return the state of the calling thread."""
    state: State = dict.fromkeys(floating_point.changes(), True)
    if hasattr(os, "getpriority"):
        state["its priority"] = os.getpriority(os.PRIO_PROCESS, 0)
    if hasattr(os, "sched_getaffinity"):
        state["its CPUs"] = frozenset(os.sched_getaffinity(0))
        order = os.sched_getscheduler(0) & ~getattr(os, "SCHED_RESET_ON_FORK", 0)
        state["how it is scheduled"] = order, os.sched_getparam(0).sched_priority
    if hasattr(signal, "pthread_sigmask"):
        state["the signals that it blocks"] = frozenset(
            signal.pthread_sigmask(signal.SIG_BLOCK, ())
        )
    if sys.platform == "linux" and (calls := _CALLS.get(platform.machine())):
        policy = ctypes.c_int(0)
        io_priority = _library().syscall(calls[0], _IOPRIO_WHO_PROCESS, 0)
        _library().syscall(calls[1], ctypes.byref(policy), None, 0, None, 0)
        state["its priority of input and output"] = io_priority
        state["where it gets memory"] = policy.value
    if hasattr(_library(), "uselocale"):
        state["its locale"] = _library().uselocale(None)
    return state


def _environment() -> Hashable:
    """Return the C library's environment, which Python keeps a copy of."""
    entries = ctypes.POINTER(ctypes.c_char_p).in_dll(_library(), "environ")
    found: list[bytes] = []
    while entries and (entry := entries[len(found)]) is not None:
        found.append(entry)
    return tuple(found)


def _limits() -> Hashable:
    import resource

    names = (name for name in vars(resource) if name.startswith("RLIMIT_"))
    return tuple(resource.getrlimit(getattr(resource, name)) for name in names)


def _timers() -> Hashable:
    """Return which timers run: those of the process, and those that it has made."""
    clocks = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    running = [(left > 0, again) for left, again in map(signal.getitimer, clocks)]
    return (*running, host.own_file("timers"))


def _handlers() -> Hashable:
    """Return what each signal does."""
    library, memory = _library(), ctypes.create_string_buffer(_SIGACTION_BYTES)
    found = []
    for number in range(1, signal.NSIG):
        if library.sigaction(number, None, memory) == 0:
            found.append((number, memory.raw[:_HANDLER_BYTES]))
    return tuple(found)


def _files() -> Hashable:
    """Return the open files, and what each descriptor is."""
    import fcntl

    found = []
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the list was one of them
            number = int(name)
            about = os.fstat(number)
            how = fcntl.fcntl(number, fcntl.F_GETFL), fcntl.fcntl(number, fcntl.F_GETFD)
            found.append((number, about.st_dev, about.st_ino, *how))
    return tuple(sorted(found))


def _root() -> Hashable:
    about = os.stat("/")
    return about.st_dev, about.st_ino


def _status() -> State:
    found: dict[str, tuple[str, ...]] = {}
    for field, value in host.own_status().items():
        if (name := _STATUS.get(field)) is not None:
            found[name] = (*found.get(name, ()), value)
    return dict(found)


def _control() -> State:
    """Return what Linux's ``prctl`` and its like tell."""
    library, answer = _library(), ctypes.c_int(0)
    found: State = {name: library.prctl(number, 0, 0, 0, 0) for name, number in _ANSWERS.items()}
    for name, number in _WRITTEN_ANSWERS.items():
        library.prctl(number, ctypes.byref(answer), 0, 0, 0)
        found[name] = answer.value
    found["its personality"] = library.personality(ctypes.c_ulong(0xFFFF_FFFF))
    found["how soon it is killed for memory"] = host.own_file("oom_score_adj")
    return found


def _locale() -> str:
    return locale.setlocale(locale.LC_ALL)


def _group() -> Hashable:
    return os.getpgrp(), os.getsid(0)


_PARTS: dict[str, Callable[[], Hashable]] = {
    "its working directory": os.getcwd,
    "the language of its messages": _locale,
}
if os.name == "posix":
    _PARTS |= {
        "its environment": _environment,
        "its root directory": _root,
        "its resource limits": _limits,
        "its timers": _timers,
        "what signals do": _handlers,
        FILES: _files,
        "its process group": _group,
    }


@cache
def _library() -> Any:
    """Return the C library, which knows the types of the calls."""
    library = ctypes.CDLL(None)
    with suppress(AttributeError):
        library.uselocale.argtypes = (ctypes.c_void_p,)
        library.uselocale.restype = ctypes.c_void_p
    return library


# -- Processes that a candidate starts in its worker ----------------------------------------------

_EVERY_CHILD = 0x40000000  # __WALL: those too that end without SIGCHLD


def end_forked_copies() -> None:
    """From now on, end every copy of this process that the C library's ``fork`` makes.

    A copy ends before any of its code runs. Programs can be started as before: ``subprocess`` and
    the C library's ``system`` do not copy the process. A system call that makes a copy is not
    noticed here.
    """
    library = ctypes.CDLL(None)
    ends = ctypes.cast(library._exit, ctypes.c_void_p)
    if hasattr(library, "__register_atfork"):  # glibc; pthread_atfork is not in its library
        library.__register_atfork(None, None, ends, None)
    elif hasattr(library, "pthread_atfork"):
        library.pthread_atfork(None, None, ends)


@contextmanager
def no_new_processes() -> Iterator[None]:
    """Raise ``Fault`` at the end when this process has children that it had not before.

    A copy of this process ends there. Where there are no children it takes some microseconds.
    """
    own, before = os.getpid(), _children()
    try:
        yield
    finally:
        if os.getpid() != own:
            os._exit(1)
        if started := len(_children() - before):
            raise Fault(
                Status.RUN_ERROR,
                "the program started another process"
                if started == 1
                else f"the program started {started} other processes",
                corrupt=True,
            )


def _children() -> set[int]:
    """Return this process's children, also those that ended and were not reaped."""
    if not hasattr(os, "waitid"):
        return set()
    every = _EVERY_CHILD if sys.platform == "linux" else 0
    try:
        # Whether there are any: a system call, and much faster than a look into /proc.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG | every)
    except ChildProcessError:
        return set()
    return host.children_of(os.getpid())
