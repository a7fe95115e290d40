"""Mistakes in a user's module that would be lost in silence: what it returns, draws and copies."""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from schedlang.errors import SpaceError
from schedlang.formats.definitions import is_ours
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule

# Runs of a module that are looked at. Comparing the generators takes 0.3 ms a run.
_LOOKED_AT = 8


class UnrecordedDrawWarning(UserWarning):
    """A module draws from Python's or NumPy's global generator: the trace has no such draw."""


class UnrecordedWorkWarning(UserWarning):
    """A module returns blocks, or works on a copy of its schedule: nothing comes of either."""


class Lookout:
    """Looks at the first runs of a module for mistakes, and tells each once.

    Parameters
    ----------
    name: of the module.
    function: what it runs. SpaceError for a generator or a coroutine: its body would never run.
    """

    _told_by_all = 0

    def __init__(self, name: str, function: Any) -> None:
        self._name, self._function = name, function
        self._runs = 0
        self._told: set[str] = set()
        yields = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        if yields or inspect.iscoroutinefunction(function):
            raise SpaceError(
                f"module {name!r} {'yields' if yields else 'is asynchronous'}, so that its body "
                "would not run; make it a plain function that changes the schedule, and let "
                "sch.choose take one of several ways"
            )

    @contextmanager
    def looking(self, sch: Schedule) -> Iterator[None]:
        """Warn of a function of the user's that draws unrecorded, or changes only a copy."""
        if self._runs >= _LOOKED_AT or is_ours(getattr(self._function, "__module__", None)):
            yield
            return
        self._runs += 1
        told, copies, mark = Lookout._told_by_all, sch.copies, sch.mark()
        of_python, of_numpy = random.getstate(), _numpy_state()
        yield
        if Lookout._told_by_all > told:
            return  # by a module inside it
        drawn = [
            ("random", of_python, random.getstate()),
            ("numpy.random", of_numpy, _numpy_state()),
        ]
        for generator, before, after in drawn:
            if before != after:
                self._tell(
                    UnrecordedDrawWarning,
                    f"draws by {generator}: traces do not record it, so a search cannot learn from "
                    "it; draw by sch.sample_categorical, sch.sample_perfect_tile or "
                    "sch.sample(distribution)",
                )
        if sch.copies > copies and sch.mark() == mark:
            self._tell(
                UnrecordedWorkWarning,
                "copies the schedule and leaves the schedule itself as it was: what is done to a "
                "copy is lost. Change the schedule that is given, or raise NotApplicable",
            )

    def check_result(self, sch: Schedule, result: Any) -> None:
        """SpaceError for another schedule among what was returned; a warning for blocks."""
        several = list(result) if isinstance(result, list | tuple) else []
        made = [one for one in [result, *several] if isinstance(one, Schedule)]
        if several and made or any(one is not sch for one in made):
            raise SpaceError(
                f"module {self._name!r} returned {'schedules' if several else 'another schedule'}; "
                "a space goes on with the schedule that it gave: change that, return nothing, and "
                "let sch.choose take one of several ways"
            )
        if several and all(isinstance(one, BlockRV) for one in several):
            self._tell(
                UnrecordedWorkWarning,
                "returns blocks, which a space does not visit for that; give them to the other "
                "module: other(sch, block)",
            )

    def _tell(self, kind: type[Warning], said: str) -> None:
        if said in self._told:
            return
        self._told.add(said)
        Lookout._told_by_all += 1
        code = getattr(self._function, "__code__", None)
        place = ("<unknown>", 1) if code is None else (code.co_filename, code.co_firstlineno)
        warnings.warn_explicit(f"module {self._name!r} {said}", kind, *place)


def _numpy_state() -> list[Any]:
    """Return the state of NumPy's global generator, whichever it is, to compare."""
    state = np.random.get_state(legacy=False)["state"]
    return [value.tobytes() if isinstance(value, np.ndarray) else value for value in state.values()]
