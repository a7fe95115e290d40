"""Replaying a trace, drawing it anew, and its probability on a workload."""

from __future__ import annotations

import math
import random
from typing import Any

from schedlang.errors import ConstraintError, InvalidTrace
from schedlang.instructions.choices import MAX_REDRAWS
from schedlang.interpreters.replay import Misfit
from schedlang.language.schedule import Schedule, Trace
from schedlang.workloads.workload import Workload


def replay(
    trace: Trace,
    workload: Workload | Any = None,
    *,
    misfit: Misfit = "reject",
    seed: int | None = None,
) -> Schedule:
    """Apply a trace's instructions with its decisions: see ``Trace.replay``."""
    return trace.replay(workload, misfit=misfit, seed=seed)


def resample(trace: Trace, workload: Workload | Any = None, *, seed: int | None = None) -> Schedule:
    """Draw another member of the trace's sketch: the same instructions with fresh decisions.

    Where they violate a constraint, others are drawn; ``ConstraintError`` after 256 such draws.
    """
    rng = random.Random(seed)
    for draws in range(1, MAX_REDRAWS + 1):
        try:
            return trace.rerun(lambda _, distribution: distribution.sample(rng), workload)
        except ConstraintError as error:
            error.draws = draws
            violated = error
    raise violated


def assess(trace: Trace, workload: Workload | Any = None) -> float:
    """Return log P(tau) with the distributions found on the workload; -inf if it does not replay.

    ``Trace.log_prob`` is cheaper: it uses the recorded distributions.
    """
    try:
        return trace.replay(workload).trace.log_prob()
    except InvalidTrace:
        return -math.inf
