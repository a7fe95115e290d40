"""Visits of modules to a schedule: reports of what they did, and of what they did wrong.

``Visit`` reports one visit and the exception that it raised. ``Lookout`` notices mistakes in a
user's module that would be lost in silence: what it returns, draws and copies.
"""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.errors import (
    ConstraintError,
    InstructionError,
    SpaceError,
    UnrecordedDrawWarning,
    UnrecordedWorkWarning,
)
from schedlang.instructions.handles import BlockRV
from schedlang.instructions.instruction import raised_at
from schedlang.interpreters.definitions import is_ours
from schedlang.language.schedule import Schedule
from schedlang.printed import first_line

_NOTE = "in module "


def name_failure(error: Exception, module: str, block: str) -> None:
    """Add a note to an exception: its module, block and line. The innermost module's note stays.

    Type and message stay as they are; Python prints the note below the message.
    """
    if _note_of(error):
        return
    location = raised_at(error)
    if isinstance(error, ConstraintError):
        error.block = error.block or block
    elif isinstance(error, InstructionError):
        error.module = error.module or module
        error.block = error.block or block
        module, location = error.module, error.location or location
    line = f", line {location}" if location else ""
    error.add_note(f"{_NOTE}{module} at {f'block {block}' if block else 'the root'}{line}")


def describe_failure(error: Exception) -> str:
    """Return type, message and place of an exception in one line."""
    note = _note_of(error)
    said = ": ".join(filter(None, [type(error).__name__, first_line(str(error))]))
    return f"{said} ({note})" if note else said


def _note_of(error: Exception) -> str:
    notes = getattr(error, "__notes__", ())
    return next((note for note in notes if note.startswith(_NOTE)), "")


@dataclass(frozen=True, slots=True)
class Visit:
    """Report of what a module did at one place.

    Attributes
    ----------
    module: its name.
    block: where it was; empty at the root.
    instructions: number of instructions that it recorded there.
    reason: why it does not apply there, from ``NotApplicable``; None where it applies.
    error: the exception that it raised there: type, message, module, block and line. None where it
        raised none. What it did there was undone.
    """

    module: str
    block: str
    instructions: int = 0
    reason: str | None = None
    error: str | None = None

    def __str__(self) -> str:
        where = f"{self.module} at {self.block or 'the root'}"
        if self.error is not None:
            return f"{where}: failed, and was undone: {self.error}"
        if self.reason is not None:
            return f"{where}: does not apply" + (self.reason and f", {self.reason}")
        return f"{where}: {self.instructions} instruction{'s' * (self.instructions != 1)}"


# -- Mistakes that would be lost in silence: what a module returns, draws and copies --------------

# Runs of a module that are looked at. Comparing the generators takes 0.3 ms a run.
_LOOKED_AT = 8


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
