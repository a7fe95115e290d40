"""Rules that end a run before its trials or seconds are used up: ``tune(..., stop_when=...)``.

A rule is a function of the newest ``Trial``. It returns why the run should end, as text, or True;
None or False while it should go on. A rule of your own is any such function, for example
``lambda trial: trial.best < 1e-3``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from schedlang.measurement import describe_latency
from schedlang.targets import Target
from schedlang.targets.roofline import RooflineBound, roofline_of
from schedlang.tuning.leaderboard import Trial
from schedlang.workloads.workload import Workload

__all__ = ["Rule", "StopRule", "all_of", "any_of", "latency", "no_gain", "roofline"]

# Where other work hides whether a candidate of a window was a gain, the window is longer by this.
_PATIENCE = 2
_EXAMPLES = {
    "no_gain": "trials=100",
    "latency": "1e-3",
    "roofline": "0.9",
    "any_of": "...",
    "all_of": "...",
}

StopRule = Callable[[Trial], object]
"""Returns why the run should end, or True; None or False while it should go on."""


class Rule:
    """A rule of this file; the functions here make them."""

    def __call__(self, trial: Trial) -> str | None:
        """Return why the run should end; None while it should go on."""
        raise NotImplementedError

    def check(self, workload: Workload, target: Target) -> None:
        """ValueError where the rule can never hold for this workload and target."""


def no_gain(*, trials: int | None = None, seconds: float | None = None, least: float = 0.0) -> Rule:
    """End where the best latency has not fallen within the last ``trials`` or ``seconds``.

    Parameters
    ----------
    trials: number of candidates without a gain; rejected ones do not count.
    seconds: wall time of this call without a gain.
    least: gains of less than this fraction together do not count: 0.01 for 1%.

    With both, the first that holds ends the run. Where other work on the machine leaves it open
    whether one of these candidates is the best, it takes twice as many trials or seconds.
    ValueError without any, or for numbers out of range.
    """
    if trials is None and seconds is None:
        raise ValueError("no_gain() needs trials= or seconds=")
    if trials is not None and (type(trials) is not int or trials < 1):
        raise ValueError(f"trials={trials!r}; give a whole number, 1 or more")
    if seconds is not None:
        _check_positive("seconds", seconds)
    if not (isinstance(least, (int, float)) and 0 <= least < 1):
        raise ValueError(f"least={least!r}; give a fraction from 0 to below 1, such as 0.01")
    return _NoGain(trials, seconds, float(least))


def latency(seconds: float) -> Rule:
    """End when a verified program's latency is at most ``seconds``. ValueError unless positive."""
    _check_positive("seconds", seconds)
    return _Latency(float(seconds))


def roofline(
    share: float = 0.9,
    *,
    flops_per_second: float | None = None,
    bytes_per_second: float | None = None,
) -> Rule:
    """End where the best program reaches a share of what the machine can do at most.

    The roofline is the longer of two times: the workload's operations at the machine's peak rate,
    and each of its arguments once at the rate of its memory.

    Parameters
    ----------
    share: from above 0 to 1: roofline over latency.
    flops_per_second: the machine's peak, for the type of the workload's operands; better as
        measured. By default ``target.peak_flops_of``, which is an upper bound: no program reaches
        all of it.
    bytes_per_second: rate of the memory that holds the arguments. By default that of the target's
        memory, where it is known and the arguments do not fit into the target's cache; else that
        time is left out.

    ValueError for numbers out of range, and, when ``tune`` is called, where no time follows from
    what is known.
    """
    if not (isinstance(share, (int, float)) and 0 < share <= 1):
        raise ValueError(f"share={share!r}; give a fraction above 0, at most 1, such as 0.9")
    for name, rate in (
        ("flops_per_second", flops_per_second),
        ("bytes_per_second", bytes_per_second),
    ):
        if rate is not None:
            _check_positive(name, rate)
    return _Roofline(float(share), flops_per_second, bytes_per_second)


def any_of(*rules: StopRule) -> Rule:
    """End where one of the rules holds, as a list of rules does; to be used in ``all_of``."""
    return _Several(_checked(rules), every=False)


def all_of(*rules: StopRule) -> Rule:
    """End where all of the rules hold at the same time."""
    return _Several(_checked(rules), every=True)


def name_of(rule: StopRule) -> str:
    """Return what a rule of a user's is called in messages."""
    return str(getattr(rule, "__qualname__", type(rule).__name__))


def reason_of(rule: StopRule, said: object) -> str:
    """Return why a rule ends the run, from what it returned; empty where it does not."""
    if isinstance(said, str) and said:
        return said
    return f"the rule {name_of(rule)} holds" if said else ""


@dataclass(frozen=True)
class _NoGain(Rule):
    trials: int | None
    seconds: float | None
    least: float

    def __call__(self, trial: Trial) -> str | None:
        if self.trials is not None:
            trials = self.trials * (_PATIENCE if trial.in_doubt(trials=self.trials) else 1)
            if trial.trials >= trials and self._stands(trial, trial.best_before(trials=trials)):
                return self._describe(trial, f"{trials} trials")
        if self.seconds is not None:
            seconds = self.seconds * (_PATIENCE if trial.in_doubt(seconds=self.seconds) else 1)
            if trial.seconds - trial.begun >= seconds:
                if self._stands(trial, trial.best_before(seconds=seconds)):
                    return self._describe(trial, f"{seconds:g} s")
        return None

    def _stands(self, trial: Trial, before: float) -> bool:
        """Whether ``before`` is hardly slower than the best now."""
        if math.isinf(trial.best):
            return True
        return before < math.inf and trial.best >= before * (1 - self.least)

    def _describe(self, trial: Trial, window: str) -> str:
        if math.isinf(trial.best):
            return f"no candidate succeeded in the last {window}"
        least = f" of {100 * self.least:.3g}% or more" if self.least else ""
        return f"no gain{least} in the last {window}"


@dataclass(frozen=True)
class _Latency(Rule):
    seconds: float

    def __call__(self, trial: Trial) -> str | None:
        if trial.best > self.seconds:
            return None
        wanted = describe_latency(self.seconds)
        return f"the latency of {wanted} is reached: {describe_latency(trial.best)}"


@dataclass(frozen=True)
class _Roofline(Rule):
    share: float
    flops_per_second: float | None
    bytes_per_second: float | None

    def __call__(self, trial: Trial) -> str | None:
        if math.isinf(trial.best):
            return None
        found = self._roofline(trial.workload, trial.target)
        reached = found.share(trial.best)
        if reached < self.share:
            return None
        memory = found.limit == "memory"
        known = self.bytes_per_second if memory else self.flops_per_second
        source = "" if known else ", the target's bound"
        best = describe_latency(trial.best)
        return (
            f"{reached:.0%} of the roofline is reached ({found.limit}{source}: "
            f"{describe_latency(found.seconds)} of {best}); at most "
            f"{max(1 / reached, 1.0):.2f}x is left to find"
        )

    def check(self, workload: Workload, target: Target) -> None:
        if self._roofline(workload, target).seconds > 0:
            return
        does = "the target has no known peak" if workload.flops else "it does no arithmetic"
        needed = "flops_per_second=" if workload.flops else "bytes_per_second="
        raise ValueError(f"roofline(): {workload.name} has none, as {does}; give {needed}")

    def _roofline(self, workload: Workload, target: Target) -> RooflineBound:
        return roofline_of(
            workload,
            target,
            flops_per_second=self.flops_per_second,
            bytes_per_second=self.bytes_per_second,
        )


@dataclass(frozen=True)
class _Several(Rule):
    rules: tuple[StopRule, ...]
    every: bool

    def __call__(self, trial: Trial) -> str | None:
        reasons = [reason_of(rule, rule(trial)) for rule in self.rules]
        held = [reason for reason in reasons if reason]
        enough = all(reasons) if self.every else held
        return " and ".join(held if self.every else held[:1]) if enough else None

    def check(self, workload: Workload, target: Target) -> None:
        for rule in self.rules:
            if isinstance(rule, Rule):
                rule.check(workload, target)


def _checked(rules: tuple[StopRule, ...]) -> tuple[StopRule, ...]:
    if not rules:
        raise ValueError("give one rule or more")
    for rule in rules:
        check_rule(rule)
    return rules


def check_rule(rule: object) -> None:
    """TypeError unless it can be a rule."""
    if isinstance(rule, type) or not callable(rule):
        raise TypeError(
            f"stop_when: {rule!r:.80} is no rule; give one of schedlang.stop, such as "
            "sl.stop.no_gain(trials=100), or a function of a trial"
        )
    name = getattr(rule, "__name__", "")
    if name in _EXAMPLES and rule is globals()[name]:
        raise TypeError(
            f"stop_when: {name} makes a rule and is none; call it, as in "
            f"sl.stop.{name}({_EXAMPLES[name]})"
        )


def _check_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not (isinstance(value, (int, float)) and 0 < value < math.inf):
        raise ValueError(f"{name}={value!r}; give a positive number")
