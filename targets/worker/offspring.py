"""Processes that a candidate starts in its worker: copies end at once, others are found."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from schedlang.measurement import Status
from schedlang.targets.worker.fault import Fault
from schedlang.targets.worker.guard import children_of

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
    return children_of(os.getpid())
