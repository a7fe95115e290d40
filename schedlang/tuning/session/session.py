"""A session: tasks that are searched slice by slice, their finals, and what Ctrl-C leaves of it.

``tune`` is a session with one task, which has all trials in one slice. ``tune_network`` and
``tune_shapes`` have many, and a scheduler that says whose slice is next.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, Generic, NoReturn, TypeVar

from schedlang.errors import is_interrupt, ordinary
from schedlang.printed import first_line
from schedlang.tuning.session.call import Call
from schedlang.tuning.session.screen import Screen

# The frames between a warning and the call of ``tune``: ``_interrupted``, ``tune`` of the session,
# and ``tune`` itself.
_STACK_LEVEL = 4
STORED = "the same call continues the run"


class InterruptedWarning(UserWarning):
    """``tune`` or ``tune_network`` was interrupted (Ctrl-C) and returned the result so far.

    Attributes
    ----------
    result: the result so far, where warnings are raised as errors and nothing is returned.
    """

    result: Any


ViewT = TypeVar("ViewT", bound=Screen)
ResultT = TypeVar("ResultT")


class Session(ABC, Generic[ViewT, ResultT]):
    """One call that tunes, after its arguments were checked.

    Parameters
    ----------
    call: its arguments, its budget, its measurer and its database.
    name: of what is tuned.
    limit: the number of trials that it wants, if there is one.
    how: says how it is continued.
    kept: says how the records of one that fails are kept.
    """

    def __init__(self, call: Call, name: str, limit: int | None, *, how: str, kept: str) -> None:
        self._call = call
        self._name, self._limit = name, limit
        self._how, self._kept = how, kept

    @property
    @abstractmethod
    def trials(self) -> int:
        """Number of candidates so far that ran, those of earlier calls included."""

    @property
    @abstractmethod
    def measured(self) -> int:
        """The same, with those that were rejected before they ran."""

    @abstractmethod
    def search(self, view: ViewT) -> str:
        """Give slices to tasks until trials or time are used up, or a rule ends it; return why."""

    @abstractmethod
    def conclude(self, view: ViewT, finished: str) -> None:
        """Hold the finals; ``finished`` says why the search ended."""

    @abstractmethod
    def result(self, finished: str, *, interrupted: bool = False) -> ResultT:
        """Return the result so far; ``finished`` says why it ended."""

    def ended(self, finished: str) -> ResultT:
        """Return the result of a session whose finals were held."""
        return self.result(finished)

    def tune(self, view: ViewT) -> ResultT:
        """Search, hold the finals and return the result; what was measured outlives a failure.

        Ctrl-C ends it, with an ``InterruptedWarning`` and the result so far. Where nothing has been
        measured yet, and after a second Ctrl-C, ``KeyboardInterrupt`` is raised as usual. Any other
        error is raised as it is, or as a UserCodeError where it would end the process; its
        attribute ``result`` is the result so far.
        """
        try:
            with view:
                finished = self.search(view)
                self.conclude(view, finished)
            return self.ended(finished)
        except KeyboardInterrupt:
            if not self.measured:
                raise
            return self._interrupted()
        except BaseException as error:
            if is_interrupt(error):
                raise
            self._fail(error)

    def _interrupted(self) -> ResultT:
        done, limit = self.trials, self._limit
        of = "" if limit is None or done > limit else f" of {limit}"
        finished = f"interrupted (Ctrl-C) after {done}{of} trials; {self._how}"
        result = self.result(finished, interrupted=True)
        try:
            warnings.warn(
                f"tuning {self._name} was {finished}; this is the result so far",
                InterruptedWarning,
                stacklevel=_STACK_LEVEL,
            )
        except InterruptedWarning as error:
            # Warnings are errors: `tune` cannot return it.
            error.result = result
            raise
        return result

    def _fail(self, error: BaseException) -> NoReturn:
        failure = ordinary(error, f"code that tuning {self._name} ran")
        # A search that fails may fail again: the first error is the one to be seen.
        with suppress(Exception):
            self._attach_to(failure)
        if failure is not error:
            raise failure from error
        raise error

    def _attach_to(self, error: Exception) -> None:
        summary = first_line(str(error))
        found = self.result(f"ended by {type(error).__name__}: {summary}")
        error.result = found  # type: ignore[attr-defined]
        if count := self.measured:
            error.add_note(
                f"{count} candidates of {self._name} were measured before: the attribute `result` "
                f"of this error is the result so far, and {self._kept}"
            )
