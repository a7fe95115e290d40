"""What the machine of a run allows at most: its peak, and the shortest time that follows."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from schedlang.database.history import RunHistory
from schedlang.errors import SchedlangError, TargetError
from schedlang.plot.tables.programs import workload_of
from schedlang.targets import Target
from schedlang.targets.roofline import Roofline, peak_of, roofline_of

_CPU = re.compile(r"cpu/(?P<mcpu>[^/@]+)(?:@[^/]+)?/cores=(?P<cores>\d+)/vector=(?P<bits>\d+)")
_NAMED_CPU = re.compile(r"(?P<name>\w+/\w+)@[^/]*/cores=(?P<cores>\d+)/vector=(?P<bits>\d+)")
_GPU = re.compile(r"cuda/(?P<arch>[^/]+)/(?P<model>[^/]+)/sms=\d+")


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
    target = target_of(history.run.target_key)
    if target is None:
        return MachineLimits(workload.flops, why=f"the peak of {history.run.target_key} is unknown")
    peak, roofline = peak_of(workload, target), roofline_of(workload, target)
    why = ""
    if not roofline.seconds:
        unknown = f"the peak of {history.run.target_key} is unknown"
        why = unknown if workload.flops else "the workload does no arithmetic that is counted"
    return MachineLimits(workload.flops, peak, roofline, why)


def target_of(key: str) -> Target | None:
    """Return the target that records are stored under, as far as its peak is concerned."""
    target: Target | None = None
    try:
        if (found := _CPU.fullmatch(key)) is not None:
            target = Target("cpu", int(found["cores"]), found["mcpu"], int(found["bits"]))
        elif (found := _NAMED_CPU.fullmatch(key)) is not None:
            target = Target(found["name"], int(found["cores"]), vector_bits=int(found["bits"]))
        elif (found := _GPU.fullmatch(key)) is not None:
            target = Target(f"nvidia/{found['model']}")
            target = target if target.key == key else None
    except TargetError:
        return None
    return target
