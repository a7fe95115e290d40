"""What the machine of a run allows at most: its peak, and the shortest time that follows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from schedlang.database.history import RunHistory
from schedlang.database.programs import workload_of
from schedlang.errors import SchedlangError, TargetError
from schedlang.targets import Target
from schedlang.targets.roofline import Roofline, peak_of, roofline_of


@dataclass(frozen=True)
class MachineLimits:
    """What is known of a run's machine and workload.

    Attributes
    ----------
    flops: operations of a call; 0 where they are not known, or there are none.
    peak: operations per second that the machine reaches at most, an upper bound; infinite where it
        is not known.
    roofline: the shortest time that follows from that and from the memory's rate.
    why: why there is no roofline; empty where there is one.
    """

    flops: float = 0.0
    peak: float = math.inf
    roofline: Roofline = Roofline(0.0, "arithmetic")
    why: str = ""


def machine_limits(history: RunHistory) -> MachineLimits:
    """Return what is known of the machine of a run."""
    try:
        workload = workload_of(history)
    except SchedlangError as error:
        return MachineLimits(why=str(error))
    unknown = f"the peak of {history.run.target_key} is unknown"
    try:
        target = Target.from_key(history.run.target_key)
    except TargetError:
        return MachineLimits(workload.flops, why=unknown)
    peak, roofline = peak_of(workload, target), roofline_of(workload, target)
    why = ""
    if not roofline.seconds:
        why = unknown if workload.flops else "the workload does no arithmetic that is counted"
    return MachineLimits(workload.flops, peak, roofline, why)
