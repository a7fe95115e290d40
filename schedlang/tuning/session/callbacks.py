"""What a run tells of each trial: to callbacks, and to the rules that end it.

``Callback`` is what users derive from. ``Watch`` watches one run: it calls the callbacks of the
call after each trial, and asks the stop rules whether to end the run. Code of the user's that
raises is not called again.
"""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from schedlang.database import Record
from schedlang.errors import CallbackWarning, users_code
from schedlang.measurement import Status
from schedlang.targets import Target
from schedlang.tuning.budget import Budget
from schedlang.tuning.identity import identity
from schedlang.tuning.leaderboard import Gain, Trial
from schedlang.tuning.session.ending import Ending
from schedlang.tuning.session.resume import RunState
from schedlang.tuning.stop import Rule, StopRule, check_rule, name_of, reason_of
from schedlang.workloads.workload import Workload

# -- Callbacks: a user's own code, called while a run goes on -------------------------------------


class Callback:
    """Derive from this, and override what you need; the methods here do nothing.

    They are called in the process and thread that called ``tune``, after the record was stored; the
    run waits for them. An exception does not end the run: see ``CallbackWarning``.
    """

    def on_trial(self, trial: Trial) -> None:
        """Take note of a candidate that was measured, that failed, or that was rejected."""

    def on_best(self, trial: Trial) -> None:
        """Take note of a candidate that is faster than all before it; follows ``on_trial``."""


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


# -- What watches a run: it tells callbacks, and asks the rules -----------------------------------

GivenCallbacks = Iterable[Callback | Callable[[Trial], Any]]
GivenRules = StopRule | Iterable[StopRule] | None


class Steps:
    """The callbacks and rules of a call of ``tune`` or ``tune_network``, which all its runs share.

    TypeError for what is neither.
    """

    def __init__(self, callbacks: GivenCallbacks = (), stop_when: GivenRules = None) -> None:
        self.callbacks = Callbacks(callbacks)
        given = () if stop_when is None else stop_when
        rules = list(given) if isinstance(given, Iterable) else [given]
        for rule in rules:
            check_rule(rule)
        self._rules = rules
        # What a rule returns is the user's too: asking an array whether it is true raises.
        self.rules = [
            (rule, Guarded(partial(_reason_now, rule), f"the rule {name_of(rule)}"))
            for rule in rules
        ]

    def check(self, workload: Workload, target: Target) -> None:
        """ValueError for a rule that can never hold."""
        for rule in self._rules:
            if isinstance(rule, Rule):
                rule.check(workload, target)

    def ended(self, ending: Ending) -> bool:
        """Whether a run ended by one of these rules, so that it has nothing left to do."""
        return bool(ending.stopped) and ending.stopped in map(identity_of, self._rules)


class Watch:
    """Watches one run.

    Parameters
    ----------
    steps: what to call.
    state: of the run; records of earlier calls count, but callbacks are not told of them again.
    target: the machine.
    budget: the clock.

    Attributes
    ----------
    reason: why a rule ends the run; empty while none does.
    stopped: identity of that rule.
    """

    def __init__(self, steps: Steps, state: RunState, target: Target, budget: Budget) -> None:
        self.reason = self.stopped = ""
        self._steps = steps
        self._state = state
        self._target = target
        self._budget = budget
        self._trials = 0
        self._gains: list[Gain] = []
        self._doubts: list[Gain] = []
        for record in state.records:
            trial = self._count(record, reused=True)
        if state.records:
            self._ask(trial)

    def see(self, record: Record, *, reused: bool = False) -> None:
        """Take in the newest record of the run."""
        gains = len(self._gains)
        trial = self._count(record, reused=reused)
        if not self._is_of_an_earlier_call(record, reused):
            self._steps.callbacks.tell(trial, is_best=len(self._gains) > gains)
        self._ask(trial)

    def _is_of_an_earlier_call(self, record: Record, reused: bool) -> bool:
        return reused and self._state.run_id is not None and record.run_id == self._state.run_id

    def _count(self, record: Record, *, reused: bool) -> Trial:
        earlier = self._is_of_an_earlier_call(record, reused)
        seconds = self._budget.earlier if earlier else self._budget.used
        self._trials += record.status is not Status.REJECTED
        if self._state.leaderboard.may_win(record):
            best = self._gains[-1].latency if self._gains else math.inf
            if record.latency < best:
                self._gains.append(Gain(self._trials, seconds, record.latency))
            elif not record.certain and record.least < best:
                self._doubts.append(Gain(self._trials, seconds, record.least))
        return Trial(
            record,
            self._state.workload,
            self._target,
            self._trials,
            seconds,
            self._budget.earlier,
            tuple(self._gains),
            reused,
            tuple(self._doubts),
        )

    def _ask(self, trial: Trial) -> None:
        """Keep the reason of the first rule that holds."""
        for rule, guarded in self._steps.rules:
            if not self.reason:
                self.reason = guarded(trial) or ""
                self.stopped = identity_of(rule) if self.reason else ""


def _reason_now(rule: StopRule, trial: Trial) -> str:
    return reason_of(rule, rule(trial))


def identity_of(rule: StopRule) -> str:
    """Return what is equal for equal rules, in every process; empty where nothing is."""
    try:
        return identity(rule)
    except RecursionError:  # a rule of a user's that holds half the program
        return ""
