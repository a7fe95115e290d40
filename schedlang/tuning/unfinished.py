"""What is left of a run that Ctrl-C or an error ends: its result so far."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from schedlang.printed import first_line
from schedlang.targets import Target
from schedlang.tuning.conclusion import result_of
from schedlang.tuning.result import TuneResult
from schedlang.tuning.run import TuningRun

# The frames between a warning and the call of ``tune``: ``_interrupted``, ``__exit__``, one of
# ``ExitStack``, and ``tune`` itself.
_STACK_LEVEL = 5
_STORED = "the same call continues the run"
_NOT_STORED = (
    'nothing is stored: result.save("tune.db") keeps the records, and the same call with '
    'database="tune.db" then measures the rest'
)


class InterruptedWarning(UserWarning):
    """``tune`` or ``tune_network`` was interrupted (Ctrl-C) and returned the result so far.

    Attributes
    ----------
    result: the result so far, where warnings are raised as errors and nothing is returned.
    """

    result: Any


class Unfinished:
    """A context for the part of ``tune`` that measures: it keeps what was measured until it fails.

    Ctrl-C ends the context, and ``result`` is then the result so far. Where nothing has been
    measured yet, and after a second Ctrl-C, ``KeyboardInterrupt`` is raised as usual. Any other
    error is raised as it is; its attribute ``result`` is the result so far.

    Parameters
    ----------
    run: what is measured.
    target: for the result.
    trials: the limit of the run, if it has one.
    stored: whether the same call continues the run.

    Attributes
    ----------
    result: the result so far; only after an interruption.
    """

    result: TuneResult

    def __init__(self, run: TuningRun, target: Target, trials: int | None, *, stored: bool) -> None:
        self._run = run
        self._target = target
        self._trials = trials
        self._stored = stored

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if isinstance(error, KeyboardInterrupt) and self._run.state.records:
            self._interrupted()
            return True
        if isinstance(error, Exception):
            # A search that fails may fail again: the first error is the one to be seen.
            with suppress(Exception):
                self._attach_to(error)
        return False

    def _interrupted(self) -> None:
        found = self._result_so_far("interrupted (Ctrl-C)", interrupted=True)
        trials = self._run.state.trials
        done = f"{trials} trials"
        if self._trials is not None:
            done = f"{trials} of {self._trials} trials"
        how = _STORED if self._stored else _NOT_STORED
        finished = f"interrupted (Ctrl-C) after {done}; {how}"
        self.result = replace(found, finished=finished)
        try:
            warnings.warn(
                f"tuning {found.workload.name} was {finished}; this is the result so far",
                InterruptedWarning,
                stacklevel=_STACK_LEVEL,
            )
        except InterruptedWarning as error:
            # Warnings are errors: `tune` cannot return it.
            error.result = self.result
            raise

    def _attach_to(self, error: Exception) -> None:
        summary = first_line(str(error))
        found = self._result_so_far(f"ended by {type(error).__name__}: {summary}")
        error.result = found  # type: ignore[attr-defined]
        if found.records:
            error.add_note(
                f"{len(found.records)} candidates of {found.workload.name} were measured before: "
                "the attribute `result` of this error is the result so far, and "
                'result.save("other.db") keeps its records'
            )

    def _result_so_far(self, finished: str, *, interrupted: bool = False) -> TuneResult:
        self._run.unscheduled.enter()
        return result_of(self._run, self._target, finished, interrupted=interrupted)
