"""Callbacks: a user's own code, called while a run goes on."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from schedlang.errors import users_code
from schedlang.tuning.trial import Trial


class Callback:
    """Derive from this, and override what you need; the methods here do nothing.

    They are called in the process and thread that called ``tune``, after the record was stored; the
    run waits for them. An exception does not end the run: see ``CallbackWarning``.
    """

    def on_trial(self, trial: Trial) -> None:
        """Take note of a candidate that was measured, that failed, or that was rejected."""

    def on_best(self, trial: Trial) -> None:
        """Take note of a candidate that is faster than all before it; follows ``on_trial``."""


class CallbackWarning(UserWarning):
    """A callback or a stop rule raised an exception: it is not called again, the run goes on.

    Attributes
    ----------
    error: the exception, with its traceback.
    """

    error: Exception


class Guarded:
    """A function of the user's that is called until it raises; then it is left alone.

    Parameters
    ----------
    function: what is called.
    name: for the message.
    """

    def __init__(self, function: Callable[[Trial], Any], name: str) -> None:
        self._function = function
        self._name = name
        self._failed = False

    def __call__(self, trial: Trial) -> Any:
        """Return what the function returns; None once it has raised, with a CallbackWarning."""
        if self._failed:
            return None
        try:
            with users_code(self._name):
                return self._function(trial)
        except Exception as error:
            self._failed = True
            self._warn(error, trial)
            return None

    def _warn(self, error: Exception, trial: Trial) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        warning = CallbackWarning(
            f"{self._name} raised {type(error).__name__}: {error} "
            f"({Path(frame.filename).name}, line {frame.lineno}) after {trial.trials} trials of "
            f"{trial.workload.name}. It is not called again; the run goes on, and no result is lost"
        )
        warning.error = error
        # Each run says it once: without a registry, Python does not leave out what it said before.
        warnings.warn_explicit(warning, CallbackWarning, frame.filename, frame.lineno or 0)


class Callbacks:
    """The callbacks of a call.

    Parameters
    ----------
    given: objects with ``on_trial`` or ``on_best``, and functions of a ``Trial``, which are called
        as ``on_trial``. TypeError for anything else.
    """

    def __init__(self, given: Iterable[Callback | Callable[[Trial], Any]] = ()) -> None:
        self._on_trial: list[Guarded] = []
        self._on_best: list[Guarded] = []
        for one in _listed(given):
            self._add(one)

    def _add(self, one: object) -> None:
        name = getattr(one, "__qualname__", type(one).__name__)
        methods = [(into, getattr(one, into, None)) for into in ("on_trial", "on_best")]
        if isinstance(one, type) or not any(callable(method) for _, method in methods):
            if isinstance(one, type) or not callable(one):
                raise TypeError(
                    f"callbacks: {one!r:.80} is no callback; give a function of a trial, or an "
                    "object with on_trial(trial) or on_best(trial), such as a sl.Callback"
                )
            self._on_trial.append(Guarded(one, f"the callback {name}"))
            return
        for into, method in methods:
            if callable(method):
                calls = self._on_trial if into == "on_trial" else self._on_best
                calls.append(Guarded(method, f"the callback {name}.{into}"))

    def tell(self, trial: Trial, *, is_best: bool) -> None:
        """Call them."""
        for call in (*self._on_trial, *(self._on_best if is_best else ())):
            call(trial)


def _listed(given: Any) -> Sequence[Any]:
    if callable(given) or isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"callbacks={given!r:.80}: give a list of callbacks")
    return list(given)
