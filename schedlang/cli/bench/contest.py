"""Time a program against the unscheduled one and against torch, in turns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from schedlang.cli.output import note
from schedlang.errors import SchedlangError
from schedlang.measurement import Candidate, Measurement, Measurer
from schedlang.measurement.finals import CONFIDENCE, FEWEST_SAMPLES, Interval, median_interval
from schedlang.measurement.rank_test import mann_whitney

if TYPE_CHECKING:
    from schedlang.language.schedule import Schedule
    from schedlang.targets import Target
    from schedlang.workloads.workload import Workload

OURS, UNSCHEDULED, EAGER, COMPILED = "schedlang", "unscheduled", "torch eager", "torch compiled"
_PROGRAM, _REFERENCE = 0, 1
# A slower unscheduled program is timed once, apart: it is out of reach.
_LONGEST = 0.1
_COMPILER_LINES = 2


class Peer(Protocol):
    """What runs in this process: an operator of torch."""

    def latency(self) -> float:
        """Return the median seconds of a call."""


@dataclass(frozen=True)
class Side:
    """How fast one side is.

    Attributes
    ----------
    name: of the side.
    samples: latencies in seconds, one a round; a single one is no more than an estimate.
    p_value: probability of samples that differ this much from ours if both are equally fast; None
        for ours, and where there are too few samples.
    complete: False where measuring was cut off: the latency is a lower bound.
    """

    name: str
    samples: Sequence[float]
    p_value: float | None = None
    complete: bool = True

    @property
    def latency(self) -> float:
        """Median of the samples, in seconds."""
        return statistics.median(self.samples)

    @property
    def interval(self) -> Interval | None:
        """Confidence interval of the median; None with too few samples."""
        return median_interval(self.samples) if len(self.samples) >= FEWEST_SAMPLES else None

    def verdict(self, ours: Side) -> str:
        """Say how its latency relates to ours."""
        if self is ours:
            return ""
        ratio = self.latency / ours.latency
        if self.p_value is not None and self.p_value >= 1 - CONFIDENCE:
            return f"{ratio:.2f}x, as fast within the noise"
        bound = "" if self.complete else ">= "
        return f"{bound}{ratio:.3g}x the time" if ratio >= 1 else f"{ratio:.2f}x the time: faster"


def check(measurer: Measurer, schedule: Schedule) -> Measurement:
    """Build, run and verify a program; return what measuring it gave."""
    [found] = measurer.measure([Candidate(_PROGRAM, schedule.mod)])
    return found


def time_in_turns(
    measurer: Measurer,
    schedule: Schedule,
    peers: Mapping[str, Peer],
    rounds: int,
    *,
    unscheduled: bool,
) -> list[Side]:
    """Time all sides in turns, forward and backward; return them, ours first.

    Our programs run in a process of the measurer, built again each time. Threads of torch spin for
    a moment after a call; they are asleep by then.
    """
    programs = {OURS: Candidate(_PROGRAM, schedule.mod)}
    reference, complete = 0.0, True
    if unscheduled:
        reference = measurer.reference_latency
        complete = measurer.reference_complete
        if complete and reference <= _LONGEST:
            programs[UNSCHEDULED] = Candidate(_REFERENCE, measurer.workload.mod)
    samples: dict[str, list[float]] = {name: [] for name in (*programs, *peers)}
    turns = [OURS, *peers]
    for number in range(rounds):
        for name in turns if number % 2 == 0 else reversed(turns):
            if name in peers:
                samples[name].append(peers[name].latency())
                continue
            for side, found in zip(
                programs, measurer.remeasure(list(programs.values()), rounds=1), strict=True
            ):
                if not found.ok:
                    raise SchedlangError(f"{side}: {found.message or found.status}")
                samples[side].append(found.latency)
    ours = samples[OURS]
    sides = [
        Side(name, times, None if name == OURS else _p_value(times, ours))
        for name, times in samples.items()
    ]
    if unscheduled and UNSCHEDULED not in samples:
        sides.append(Side(UNSCHEDULED, [reference], complete=complete))
    return sides


def torch_peers(
    workload: Workload, schedule: Schedule, target: Target, *, compiled: bool
) -> tuple[dict[str, Peer], list[str]]:
    """Return the workload in torch, eager and compiled, and why one is left out.

    A verified program must agree with it: ``schedule`` is built and called in this process.
    """
    from schedlang.cli.bench.torch_compiled import CompiledOperator
    from schedlang.cli.bench.torch_operators import TorchOperator

    threads = target.pool_threads
    if target.kind != "cpu":
        return {}, ["torch is compared on CPUs only"]
    peers: dict[str, Peer] = {}
    missing = []
    kinds: dict[str, type[TorchOperator]] = {EAGER: TorchOperator}
    if compiled:
        kinds[COMPILED] = CompiledOperator
    program = target.build(schedule.mod)
    for name, kind in kinds.items():
        if kind is CompiledOperator:
            note("torch.compile is compiling; --no-compiled leaves it out")
        try:
            peer = kind(workload, threads)
            wrong = peer.mismatch(program)
        except SchedlangError as error:
            missing.append(str(error))
            break
        except Exception as error:  # what torch raises when it cannot compile has many types
            lines = str(error).strip().splitlines()[:_COMPILER_LINES]
            missing.append(f"{name}: {' '.join([type(error).__name__, *lines])}")
            continue
        if wrong is None:
            peers[name] = peer
        else:
            missing.append(f"{name} computes something else: {wrong}")
    return peers, missing


def _p_value(times: Sequence[float], ours: Sequence[float]) -> float | None:
    if min(len(times), len(ours)) < FEWEST_SAMPLES:
        return None
    return mann_whitney(times, ours)
