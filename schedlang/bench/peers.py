"""A contest of programs of a measurer with peers: torch, eager and compiled."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from schedlang.errors import SchedlangError
from schedlang.measurement import Candidate, Measurement, Measurer
from schedlang.measurement.contest import Standing, hold_contest, standings

if TYPE_CHECKING:
    from schedlang.bench.torch_operators import Define, TorchOperator
    from schedlang.measurement.disturbance import CoreUse
    from schedlang.targets import Target
    from schedlang.tvm.program import TensorProgram
    from schedlang.workloads.workload import Workload


OURS, UNSCHEDULED, EAGER, COMPILED = "schedlang", "unscheduled", "torch eager", "torch compiled"
# A slower unscheduled program is timed once, apart: it is out of reach.
_LONGEST_SECONDS = 0.1
_COMPILER_LINES = 2

CALM = 1.25
"""A larger ``spread`` means that the machine had other work, which slows torch down far more than
TVM: its threads wait for each other."""


def spread(rounds: Mapping[str, Sequence[float]]) -> float:
    """Return the largest ratio of a side's median round to its fastest, which counts."""
    return max(statistics.median(times) / min(times) for times in rounds.values())


# Part of the cores that others use from which a machine is busy: threads of torch wait for each
# other, so that its calls take many times as long then, in every round.
_BUSY = 0.1


def disturbance(rounds: Mapping[str, Sequence[float]], use: CoreUse | None) -> str:
    """Say what other work did while the sides were timed; empty where there was little of it."""
    said = []
    if use is not None and use.others + use.stolen > _BUSY * use.cores:
        said.append(str(use))
    if (ratio := spread(rounds)) > CALM:
        said.append(f"rounds usually take {ratio:.1f} times the fastest")
    return ", ".join(said)


class Peer(Protocol):
    """What runs in this process: an operator of torch."""

    def latency(self) -> float:
        """Return the median seconds of a call."""


class OtherResults(SchedlangError):
    """A peer computes something else than a verified program."""


def check(measurer: Measurer, mod: TensorProgram) -> Measurement:
    """Build, run and verify a program; return what measuring it gave."""
    [found] = measurer.measure([Candidate(0, mod)])
    return found


def against_peers(
    measurer: Measurer,
    mod: TensorProgram,
    peers: Mapping[str, Peer],
    rounds: int,
    *,
    unscheduled: bool,
) -> list[Standing]:
    """Time a program in turns with peers, and with the unscheduled program; return ours first.

    An unscheduled program that is far slower is timed once, apart, and comes last.
    """
    programs = {OURS: mod}
    reference = 0.0
    if unscheduled:
        reference = measurer.reference_latency
        if measurer.reference_complete and reference <= _LONGEST_SECONDS:
            programs[UNSCHEDULED] = measurer.workload.mod
    sides = standings(time_in_turns(measurer, programs, peers, rounds), OURS)
    if unscheduled and UNSCHEDULED not in programs:
        sides.append(Standing(UNSCHEDULED, [reference], complete=measurer.reference_complete))
    return sides


def time_in_turns(
    measurer: Measurer,
    programs: Mapping[str, TensorProgram],
    peers: Mapping[str, Peer],
    rounds: int,
    *,
    samples: int = 1,
) -> dict[str, list[float]]:
    """Time programs and peers in turns, forward and backward; return a latency a round of each.

    The programs run in a process of the measurer, built again each time; their latency in a round
    is the median of up to ``samples`` samples. Threads of torch spin for a moment after a call;
    they are asleep by then. SchedlangError if a program fails.
    """
    candidates = {name: Candidate(number, programs[name]) for number, name in enumerate(programs)}

    def take_round(order: Sequence[str]) -> dict[str, float | None]:
        taken: dict[str, float | None] = {}
        for ours, group in itertools.groupby(order, candidates.__contains__):
            names = list(group)
            if not ours:
                taken |= {name: peers[name].latency() for name in names}
                continue
            found = measurer.remeasure([candidates[name] for name in names], rounds=samples)
            for name, one in zip(names, found, strict=True):
                if not one.ok:
                    raise SchedlangError(f"{name}: {one.message or one.status}")
                taken[name] = one.latency
        return taken

    return hold_contest([*programs, *peers], take_round, rounds)


def torch_peers(
    workload: Workload,
    mod: TensorProgram,
    target: Target,
    *,
    compiled: bool,
    announce: Callable[[], object] = lambda: None,
    define: Define | None = None,
) -> tuple[dict[str, TorchOperator], dict[str, Exception]]:
    """Return the workload in torch, eager and compiled, and by name why one is left out.

    A verified program must agree with it: ``mod`` is built and called in this process. Where it
    does not, the reason is ``OtherResults``. ``announce`` is called before torch compiles;
    ``define`` makes the workload in torch where ``schedlang.workloads`` has no such operator.
    """
    from schedlang.bench.torch_operators import CompiledOperator, NoPeer, TorchOperator

    if not target.on_host:
        return {}, {EAGER: NoPeer("torch is compared on CPUs only")}
    peers: dict[str, TorchOperator] = {}
    missing: dict[str, Exception] = {}
    kinds: dict[str, type[TorchOperator]] = {EAGER: TorchOperator}
    if compiled:
        kinds[COMPILED] = CompiledOperator
    program = target.build(mod)
    for name, kind in kinds.items():
        if kind is CompiledOperator:
            announce()
        try:
            peer = kind(workload, target.pool_threads, define)
            if wrong := peer.mismatch(program):
                raise OtherResults(f"{name} computes something else: {wrong}")
        except NoPeer as error:
            missing[name] = error
            break
        except Exception as error:  # what torch raises when it cannot compile has many types
            missing[name] = error
        else:
            peers[name] = peer
    return peers, missing


def why_missing(name: str, error: Any) -> str:
    """Say why a peer is left out, in one line."""
    if isinstance(error, SchedlangError):
        return str(error)
    lines = str(error).strip().splitlines()[:_COMPILER_LINES]
    return f"{name}: {' '.join([type(error).__name__, *lines])}"
