"""Watches a run: tells callbacks of each trial, and asks the rules whether to end it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from schedlang.database import Record
from schedlang.measurement import Status
from schedlang.targets import Target
from schedlang.tuning.budget import Budget
from schedlang.tuning.callbacks.callback import Callback, Callbacks, Guarded
from schedlang.tuning.resume import RunState, identity
from schedlang.tuning.resume.ending import Ending
from schedlang.tuning.stop import Rule, StopRule, check_rule, name_of, reason_of
from schedlang.tuning.trial import Gain, Trial
from schedlang.workloads.workload import Workload

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
