"""Measuring the kernels of a suite: each is tuned, and timed in turns with torch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import schedlang as sl
from schedlang.bench.peers import (
    CALM,
    COMPILED,
    EAGER,
    OURS,
    spread,
    time_in_turns,
    torch_peers,
    why_missing,
)
from schedlang.bench.suite import SuiteKernel
from schedlang.bench.torch_operators import NoPeer, TorchOperator
from schedlang.errors import SchedlangError
from schedlang.measurement import contest
from schedlang.printed import first_line
from schedlang.targets import Target
from schedlang.targets.measure.contention import CoreWatch
from schedlang.targets.roofline import bytes_of
from schedlang.tuning.options import TRIALS

if TYPE_CHECKING:
    from schedlang.measurement.disturbance import CoreUse
    from schedlang.tuning.result import Best
    from schedlang.workloads.workload import Workload


Stage = Literal["", "make", "tune", "torch", "time"]
"""The step in which a kernel failed; empty for one that did not."""


@dataclass(frozen=True)
class SuiteRow:
    """A kernel of a suite: its figures, or why it has none. Its fields are those of ``--json``.

    Attributes
    ----------
    kernel: its name.
    workload_key: of its program; empty where that could not be made.
    flops: operations of a call; 0 where they are not counted.
    bytes: of the arguments, each counted once.
    latency: seconds of a call, by side: of the fastest round, so that noise favours none.
    rounds: median seconds of a call in each round, by side.
    spread: the largest ratio between two rounds of one side.
    disturbed: what other work did meanwhile; empty for none. The latencies tell little then.
    ratio: latency of a side over ours, for the others: above 1 where we are faster.
    p_value: probability of such rounds if the side and ours are equally fast; None with too
        few of them.
    missing: why a side is left out.
    slowest_call: the operator in which torch eager spends most time.
    compiled_calls: the functions of a library that compiled torch calls; empty where it calls none.
    trials: number of candidates that were measured, those of earlier calls included.
    tuning_seconds: wall time of tuning in this call.
    search: that proposed the candidates.
    record: of the best program; in the database, where one is given.
    failed: the step in which it failed: ``make``, ``tune``, ``torch`` or ``time``.
    error: why, in one line.
    """

    kernel: str
    workload_key: str = ""
    flops: float = 0.0
    bytes: int = 0
    latency: Mapping[str, float] = field(default_factory=dict)
    rounds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    spread: float = 1.0
    disturbed: str = ""
    ratio: Mapping[str, float] = field(default_factory=dict)
    p_value: Mapping[str, float | None] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    slowest_call: str = ""
    compiled_calls: Sequence[str] = ()
    trials: int = 0
    tuning_seconds: float = 0.0
    search: str = ""
    record: int | None = None
    failed: Stage = ""
    error: str = ""


@dataclass(frozen=True)
class ListedKernel:
    """A kernel whose program was made. Its fields are those of ``--json``.

    Attributes
    ----------
    kernel: its name.
    workload_key: of its program; empty where that could not be made.
    flops: operations of a call. bytes: of the arguments, each counted once.
    missing: why torch has no equivalent; empty where it has one.
    error: why its program could not be made; empty where it was.
    """

    kernel: str
    workload_key: str = ""
    flops: float = 0.0
    bytes: int = 0
    missing: str = ""
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"failed: {self.error}"
        size = f"{self.flops / 1e6:8.1f} MFLOP {self.bytes / 2**20:8.2f} MiB"
        return f"{size}  {self.missing or 'torch has it'}"


def list_kernels(kernels: Sequence[SuiteKernel]) -> Iterator[ListedKernel]:
    """Make the program of each kernel, and its equivalent in torch; nothing of them is run."""
    for kernel in kernels:
        try:
            workload = kernel.workload()
            define = kernel.in_torch(workload)
        except (Exception, SystemExit) as error:  # code of the user's raises errors of every type
            kind = "" if isinstance(error, SchedlangError) else f"{type(error).__name__}: "
            yield ListedKernel(kernel.name, error=f"{kind}{first_line(error)}")
            continue
        try:
            TorchOperator(workload, 1, define)
            missing = ""
        except NoPeer as error:
            missing = str(error)
        yield ListedKernel(kernel.name, workload.key, workload.flops, bytes_of(workload), missing)


# Part of the cores that others use from which a machine is busy: threads of torch wait for each
# other, so that its calls take many times as long then, in every round.
_BUSY = 0.1


@dataclass(frozen=True)
class Plan:
    """How the kernels of a suite are measured.

    Attributes
    ----------
    target: the machine.
    arguments: of ``tune``, for every kernel; ``trials`` of None are those of the suite.
    compiled: whether torch compiles them, too.
    rounds: how often each side is timed, in turns with the others.
    """

    target: Target
    arguments: Mapping[str, Any]
    compiled: bool
    rounds: int

    def trials_of(self, kernel: SuiteKernel) -> int | None:
        """The maximum number of candidates for a kernel; None where seconds limit it alone."""
        given = self.arguments["trials"] or kernel.trials
        return given or (None if self.arguments["seconds"] else TRIALS)


class _Failure(SchedlangError):
    """A kernel failed in a step."""

    def __init__(self, stage: Stage, error: BaseException) -> None:
        super().__init__(_said(error))
        self.stage = stage


@contextmanager
def _step(stage: Stage) -> Iterator[None]:
    """Make a failure of the step out of any error in it."""
    try:
        yield
    except (Exception, SystemExit) as error:  # code of the user's raises errors of every type
        raise _Failure(stage, error) from error


def _said(error: BaseException) -> str:
    if isinstance(error, SchedlangError | ValueError | OSError):
        return first_line(error)
    return f"{type(error).__name__}: {first_line(error)}"


def measure_kernels(kernels: Sequence[SuiteKernel], plan: Plan) -> Iterator[SuiteRow]:
    """Yield a row for each kernel, as soon as it is measured; a kernel that fails has one too.

    Raises ``KeyboardInterrupt`` where Ctrl-C ends the tuning of a kernel; its records are kept.
    """
    with sl.measurer(plan.target) as measurer:
        for kernel in kernels:
            found: dict[str, Any] = {}
            try:
                _measure(kernel, plan, measurer, found)
            except _Failure as failure:
                found |= {"failed": failure.stage, "error": str(failure)}
            yield SuiteRow(kernel.name, **found)


def _measure(kernel: SuiteKernel, plan: Plan, measurer: Any, found: dict[str, Any]) -> None:
    """Add the fields of a kernel's row as they become known; _Failure where a step fails."""
    with _step("make"):
        workload = kernel.workload()
        define = kernel.in_torch(workload)
        found |= {
            "workload_key": workload.key,
            "flops": workload.flops,
            "bytes": bytes_of(workload),
        }
    with _step("tune"):
        best = _tuned(kernel, workload, plan, measurer, found)
        mod = best.schedule.mod
    with _step("torch"):
        peers, missing = torch_peers(
            workload, mod, plan.target, compiled=plan.compiled, define=define
        )
        found["missing"] = {name: why_missing(name, one) for name, one in missing.items()}
        if EAGER in peers:
            found["slowest_call"] = peers[EAGER].slowest_call()
        found["compiled_calls"] = tuple(getattr(peers.get(COMPILED), "library_calls", ()))
    with _step("time"):
        measurer.bind(workload)
        watch = CoreWatch()
        rounds = time_in_turns(measurer, {OURS: mod}, peers, plan.rounds, samples=contest.ROUNDS)
        latency = {side: min(times) for side, times in rounds.items()}
        others = [one for one in contest.standings(rounds, OURS) if one.name != OURS]
        found |= {
            "latency": latency,
            "rounds": rounds,
            "spread": spread(rounds),
            "disturbed": disturbance(rounds, watch.use()),
            "ratio": {one.name: latency[one.name] / latency[OURS] for one in others},
            "p_value": {one.name: one.p_value for one in others},
        }
    with _step("torch"):
        for error in missing.values():
            if not isinstance(error, NoPeer):  # it has an equivalent, which does not work
                raise SchedlangError("; ".join(found["missing"].values()))


def disturbance(rounds: Mapping[str, Sequence[float]], use: CoreUse | None) -> str:
    """Say what other work did while the sides were timed; empty where there was little of it."""
    said = []
    if use is not None and use.others + use.stolen > _BUSY * use.cores:
        said.append(str(use))
    if (ratio := spread(rounds)) > CALM:
        said.append(f"rounds usually take {ratio:.1f} times the fastest")
    return ", ".join(said)


def _tuned(
    kernel: SuiteKernel, workload: Workload, plan: Plan, measurer: Any, found: dict[str, Any]
) -> Best:
    """Return the best program of a kernel; SchedlangError where no candidate succeeded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sl.InterruptedWarning)  # the verb says it
        given = {**plan.arguments, "trials": plan.trials_of(kernel)}
        result = sl.tune(workload, **given, measurer=measurer)
    if result.interrupted:
        raise KeyboardInterrupt
    found["trials"], found["tuning_seconds"] = len(result.records), result.seconds
    found["search"] = result.records[0].search if result.records else ""
    if not result.has_best:
        raise SchedlangError(f"no candidate succeeded: {result.finished}")
    if plan.arguments["database"] is not None:
        found["record"] = result.best.record.id
    return result.best
