"""The probability of a line of instructions (MetaSchedule, eq. 1)."""

from __future__ import annotations

import math

from schedlang.errors import InvalidTrace
from schedlang.instructions.instruction import Line
from schedlang.interpreters.replay import replay
from schedlang.workloads.workload import Workload


def log_prob(line: Line) -> float:
    """Return log P(tau) of all draws and choices, with the recorded distributions."""
    total = 0.0
    for instruction in line:
        if instruction.distribution is not None:
            total += instruction.distribution.log_prob(instruction.decision)
    return total


def assess(line: Line, workload: Workload) -> float:
    """Return log P(tau) with the distributions found on a workload; -inf if it does not replay."""
    try:
        return log_prob(replay(line, workload).line)
    except InvalidTrace:
        return -math.inf
