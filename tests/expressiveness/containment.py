"""Whether MetaSchedule's programs of a workload are in a space of ours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import schedlang as sl
from tests.expressiveness import metaschedule
from tests.expressiveness.following import follow
from tests.expressiveness.programs import same_program

# MetaSchedule's names for them (MetaSchedule, A.2).
WORKLOADS = (
    *("C1D", "C2D", "C3D", "DEP", "DIL", "GMM", "GRP", "T2D"),
    *("CAP", "NRM", "SFM", "CBR", "TBG"),
)
SHAPES = 2
CORES = 2


@dataclass(frozen=True)
class Containment:
    """What was compared.

    Attributes
    ----------
    sketches: MetaSchedule's, all of them.
    programs: that were drawn from them, and made by ours.
    missing: why, for each that ours did not make.
    """

    sketches: int
    programs: int
    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return not self.missing


def check(workload: sl.Workload, space: sl.Space, programs: int, cores: int = CORES) -> Containment:
    """Draw programs from each of MetaSchedule's sketches and make them with ``space``."""
    found = metaschedule.sketches(workload.mod, cores)
    compared = 0
    missing: list[str] = []
    for number, sketch in enumerate(found):
        begin: tuple[int, ...] = ()
        drawn = 0
        for peer in sketch.programs(programs):
            drawn += 1
            result = follow(space, workload, peer.mod, sketch.instructions, peer.decisions, begin)
            if isinstance(result, str):
                missing.append(f"sketch {number}, {peer.decisions}: {result}")
                break
            if not same_program(result.trace.replay().mod, peer.mod):
                missing.append(f"sketch {number}, {peer.decisions}: not when it is replayed")
            begin = result.prefix
            if not result.trace.log_prob() > -math.inf:
                missing.append(f"sketch {number}, {peer.decisions}: of probability 0")
            compared += 1
        if drawn == 0:
            missing.append(f"sketch {number}: MetaSchedule itself finishes none of its programs")
    return Containment(len(found), compared, tuple(missing))
