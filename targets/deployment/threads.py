"""The number of threads of parallel loops: TVM has a pool for each thread that calls programs."""

from __future__ import annotations

import os
import threading
import warnings

from schedlang import host
from schedlang.errors import SchedlangError
from schedlang.tvm.codegen import runtime


class ThreadCountWarning(UserWarning):
    """Parallel loops run with another number of threads than the program was tuned for."""


class _Pool(threading.local):
    """The pool of the calling thread.

    Attributes
    ----------
    count: what it was last configured for; 0 before.
    threaded: whether it was ever configured for more threads than the caller. A pool keeps them.
    lost: whether a fork has left them behind.
    """

    count = 0
    threaded = False
    lost = False


_pool = _Pool()


def use_threads(count: int) -> None:
    """Have parallel loops that this thread starts use ``count`` threads, one on each core.

    TVM itself takes half of the hardware threads. A pool does not grow: ``ThreadCountWarning`` says
    so where it was started with fewer threads, and where the process may use fewer cores. Raises
    SchedlangError in a process that was forked while the pool existed.
    """
    if _pool.count != count:
        _configure(count)


def _configure(count: int) -> None:
    if _pool.lost:
        raise SchedlangError(
            "this process was forked from one that had started TVM's threads, and they are not in "
            "it: a parallel loop would wait for them for ever. Start processes with the method "
            "'spawn', or call the program from a new thread"
        )
    cpus = host.one_cpu_per_core(host.usable_cpus())
    started = runtime.configure_threads(cpus[:count])
    _pool.count = count
    _pool.threaded |= count > 1
    if started != count:
        warnings.warn(
            f"the program was tuned for {count} threads, and its parallel loops get {started}: "
            "TVM's thread pool was started with fewer before, or the process may use too few cores "
            f"(now {len(cpus)}). Build or load the program before other code of TVM runs, or set "
            f"TVM_NUM_THREADS={count} for it",
            ThreadCountWarning,
            stacklevel=5,
        )


def _after_fork() -> None:
    _pool.lost |= _pool.threaded
    if _pool.count > 1:
        _pool.count = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
