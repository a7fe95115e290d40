"""TVM's threads: those of parallel loops, and code that runs in each of them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from schedlang.tvm.codegen.runtime import thread_count

_Task = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def in_each_thread(task: Callable[[int], None]) -> bool:
    """Call ``task`` once in each thread of a parallel loop, with the thread's number.

    The calling thread is number 0. No program may be running. ``task`` must not raise: what it
    raises is printed. Returns False, without a call, where TVM's library does not let us.
    """
    launch = _launcher()
    if launch is None:
        return False

    def call(number: int, group: int | None, data: int | None) -> int:
        task(number)
        return 0

    launch(_Task(call), None, 0)
    return True


@cache
def _launcher() -> Any:
    try:
        launch = ctypes.CDLL(None).TVMBackendParallelLaunch
    except (OSError, TypeError, AttributeError):
        return None
    thread_count()  # starts them, and keeps this thread on its CPUs
    launch.argtypes = (_Task, ctypes.c_void_p, ctypes.c_int)
    return launch
