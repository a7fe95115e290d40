"""End code of the user's that runs in this process when the seconds of a call are over.

A module, a search or a cost model may not return, in what a search proposes or in the programs that
it starts from. Python can raise an exception in a thread that runs Python code; a call into C that
does not return cannot be ended so.
"""

from __future__ import annotations

import ctypes
import sysconfig
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from schedlang.measurement.clock import SYSTEM
from schedlang.tuning.budget import Budget

Returned = TypeVar("Returned")

GRACE = 2.0
"""Seconds that code may take after the end of the budget."""
_AGAIN = 1.0
"""Seconds after which code that has caught the exception gets another."""
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
_ROOT = Path(__file__).resolve().parents[2]
_OWN = tuple(_ROOT / part for part in ("schedlang", "modules", "search", "targets"))
_LIBRARY = sysconfig.get_path("stdlib")


class OutOfTime(KeyboardInterrupt):
    """The seconds of a call were over while code in this process ran.

    It passes through what lets Ctrl-C pass: it is no failure of the code that it interrupts.
    """

    @property
    def running(self) -> str:
        """Where it struck: ``propose (search.py:12)``, the innermost function of the user's."""
        frames = [
            one for one in traceback.extract_tb(self.__traceback__) if one.filename != __file__
        ]
        others = [one for one in frames if not _is_own(one.filename)]
        last = (others or frames)[-1]
        return f"{last.name} ({Path(last.filename).name}:{last.lineno})"


def before_the_end(budget: Budget, call: Callable[[], Returned]) -> Returned | None:
    """Return what ``call`` returns; None where that is late, see ``within``."""
    try:
        return within(budget, call)
    except OutOfTime:
        return None


def _is_own(file: str) -> bool:
    if file.startswith(_LIBRARY):
        return True
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in _OWN)


def within(budget: Budget, call: Callable[[], Returned]) -> Returned:
    """Return what ``call`` returns; ``OutOfTime`` where that is late by ``GRACE`` seconds.

    A budget without a limit, and one whose clock is not the system's, ends nothing.
    """
    if not budget.limited or budget.clock is not SYSTEM:
        return call()
    done, thread = threading.Event(), threading.get_ident()

    def strike() -> None:
        seconds = max(budget.left, 0.0) + GRACE
        while not done.wait(seconds):
            _raise_in(thread, id(OutOfTime))
            seconds = _AGAIN

    def stop() -> None:
        """End the other thread, then take back an exception that has not been raised yet."""
        while True:
            try:
                done.set()
                watcher.join()
                _raise_in(thread, None)
                return
            except OutOfTime:
                pass

    watcher = threading.Thread(target=strike, name="schedlang-time-limit", daemon=True)
    try:
        try:
            watcher.start()
            return call()
        finally:
            stop()
    except OutOfTime:
        stop()  # it may have struck where the other call of this began
        raise
