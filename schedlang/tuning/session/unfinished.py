"""What is left of a session that Ctrl-C or an error ends: its result so far."""

from __future__ import annotations

import warnings
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from schedlang.errors import is_interrupt, ordinary
from schedlang.printed import first_line

# The frames between a warning and the call of ``tune``: ``_interrupted``, ``__exit__``, and
# ``tune`` itself.
_STACK_LEVEL = 4
STORED = "the same call continues the run"

T_co = TypeVar("T_co", covariant=True)


class InterruptedWarning(UserWarning):
    """``tune`` or ``tune_network`` was interrupted (Ctrl-C) and returned the result so far.

    Attributes
    ----------
    result: the result so far, where warnings are raised as errors and nothing is returned.
    """

    result: Any


class Session(Protocol[T_co]):
    """What is tuned."""

    @property
    def trials(self) -> int:
        """Number of candidates so far that ran."""

    @property
    def measured(self) -> int:
        """The same, with those that were rejected before they ran."""

    def result(self, finished: str, *, interrupted: bool = False) -> T_co:
        """Return the result so far; ``finished`` says why it ended."""


class Unfinished(Generic[T_co]):
    """A context for the part of a session that measures: what was measured outlives a failure.

    Ctrl-C ends the context, and ``result`` is then the result so far. Where nothing has been
    measured yet, and after a second Ctrl-C, ``KeyboardInterrupt`` is raised as usual. Any other
    error is raised as it is, or as a UserCodeError where it would end the process; its attribute
    ``result`` is the result so far.

    Parameters
    ----------
    session: what is measured.
    name: of what is tuned.
    limit: the number of trials that the session wants, if there is one.
    how: says how it is continued.
    kept: says how the records of one that fails are kept.

    Attributes
    ----------
    result: the result so far; only after an interruption.
    """

    result: T_co

    def __init__(
        self, session: Session[T_co], name: str, limit: int | None, *, how: str, kept: str
    ) -> None:
        self._session = session
        self._name = name
        self._limit = limit
        self._how = how
        self._kept = kept

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if isinstance(error, KeyboardInterrupt) and self._session.measured:
            self._interrupted()
            return True
        if error is None or is_interrupt(error):
            return False
        failure = ordinary(error, f"code that tuning {self._name} ran")
        # A search that fails may fail again: the first error is the one to be seen.
        with suppress(Exception):
            self._attach_to(failure)
        if failure is not error:
            raise failure from error
        return False

    def _interrupted(self) -> None:
        done, limit = self._session.trials, self._limit
        of = "" if limit is None or done > limit else f" of {limit}"
        finished = f"interrupted (Ctrl-C) after {done}{of} trials; {self._how}"
        self.result = self._session.result(finished, interrupted=True)
        try:
            warnings.warn(
                f"tuning {self._name} was {finished}; this is the result so far",
                InterruptedWarning,
                stacklevel=_STACK_LEVEL,
            )
        except InterruptedWarning as error:
            # Warnings are errors: `tune` cannot return it.
            error.result = self.result
            raise

    def _attach_to(self, error: Exception) -> None:
        summary = first_line(str(error))
        found = self._session.result(f"ended by {type(error).__name__}: {summary}")
        error.result = found  # type: ignore[attr-defined]
        if count := self._session.measured:
            error.add_note(
                f"{count} candidates of {self._name} were measured before: the attribute `result` "
                f"of this error is the result so far, and {self._kept}"
            )
