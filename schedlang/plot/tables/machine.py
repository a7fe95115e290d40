"""What the machine of a run allows at most: its peak, and the shortest time that follows."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from schedlang.database.history import RunHistory
from schedlang.errors import SchedlangError, TargetError
from schedlang.plot.tables.programs import workload_of
from schedlang.targets import Target
from schedlang.targets.roofline import peak_of

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
    why: why there is no roofline; empty where there is one.
    """

    flops: float = 0.0
    peak: float = math.inf
    why: str = ""

    @property
    def shortest(self) -> float:
        """Seconds that the operations take at the peak; 0 where there is no roofline."""
        return self.flops / self.peak


def machine_limits(history: RunHistory) -> MachineLimits:
    """Return what is known of the machine of a run."""
    try:
        workload = workload_of(history)
    except SchedlangError as error:
        return MachineLimits(why=str(error))
    if not workload.flops:
        return MachineLimits(why="the workload does no arithmetic that is counted")
    target = target_of(history.run.target_key)
    peak = math.inf if target is None else peak_of(workload, target)
    if math.isinf(peak):
        return MachineLimits(workload.flops, why=f"the peak of {history.run.target_key} is unknown")
    return MachineLimits(workload.flops, peak)


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
