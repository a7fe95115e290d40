"""Replaying a trace, drawing it anew, and its probability on a workload."""

from __future__ import annotations

import random
from typing import Any

from schedlang.interpreters import assess as interpreter
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
    """Another member of the trace's sketch: the same instructions with fresh decisions."""
    rng = random.Random(seed)
    return trace.rerun(lambda _, distribution: distribution.sample(rng), workload)


def assess(trace: Trace, workload: Workload | Any = None) -> float:
    """log P(tau) of a trace on a workload, with the distributions found there; -inf if it is
    invalid.

    ``Trace.log_prob`` is the cheap twin: it uses the distributions of the recording.
    """
    return interpreter.assess(trace.instructions, trace.workload_or(workload))
