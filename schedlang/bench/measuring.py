"""Measuring the kernels of a suite, each in turns with torch, and their figures as text."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

import schedlang as sl
from schedlang.bench.peers import (
    COMPILED,
    EAGER,
    OURS,
    disturbance,
    spread,
    time_in_turns,
    torch_peers,
    why_missing,
)
from schedlang.bench.torch_operators import Define, NoPeer, TorchOperator
from schedlang.errors import SchedlangError
from schedlang.measurement import contest, describe_latency
from schedlang.measurement.finals import WITHIN_NOISE, is_noise
from schedlang.printed import first_line
from schedlang.targets import Target
from schedlang.targets.measure.contention import CoreWatch
from schedlang.targets.roofline import bytes_of
from schedlang.terminal import table
from schedlang.tuning.options import TRIALS

if TYPE_CHECKING:
    from schedlang.tuning.result import Best
    from schedlang.workloads.workload import Workload


# -- Measuring the kernels of a suite: each is tuned, and timed in turns with torch ---------------


class BenchKernel(Protocol):
    """A kernel to measure: its name, its maximum number of candidates, its program, torch's."""

    @property
    def name(self) -> str:
        """Its name, by which others are told apart."""

    @property
    def trials(self) -> int | None:
        """Maximum number of candidates to measure; None where it does not say."""

    def workload(self) -> Workload:
        """Return its program."""

    def in_torch(self, workload: Workload) -> Define | None:
        """Return how torch computes its workload; None where it is an operator that is known."""


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


def list_kernels(kernels: Sequence[BenchKernel]) -> Iterator[ListedKernel]:
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

    def trials_of(self, kernel: BenchKernel) -> int | None:
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


def measure_kernels(kernels: Sequence[BenchKernel], plan: Plan) -> Iterator[SuiteRow]:
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


def _measure(kernel: BenchKernel, plan: Plan, measurer: Any, found: dict[str, Any]) -> None:
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


def _tuned(
    kernel: BenchKernel, workload: Workload, plan: Plan, measurer: Any, found: dict[str, Any]
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


# -- A suite as text: a line for each kernel as it comes, and the figures at the end --------------


@dataclass(frozen=True)
class Figures:
    """Ratios of kernels: latency of a side over ours, so that above 1 we are faster.

    Attributes
    ----------
    kernels: number of kernels that both sides ran.
    at_least_as_fast: number of those with a ratio of 1 or more.
    geometric_mean, best, percentile_90, lowest: of the ratios.
    """

    kernels: int
    at_least_as_fast: int
    geometric_mean: float
    best: float
    percentile_90: float
    lowest: float


def figures(rows: Iterable[SuiteRow], side: str) -> Figures | None:
    """Return how kernels compare with a side; None where no kernel has both latencies."""
    ratios = [row.ratio[side] for row in rows if side in row.ratio]
    if not ratios:
        return None
    return Figures(
        kernels=len(ratios),
        at_least_as_fast=sum(ratio >= 1 for ratio in ratios),
        geometric_mean=statistics.geometric_mean(ratios),
        best=max(ratios),
        percentile_90=float(np.percentile(ratios, 90)),
        lowest=min(ratios),
    )


def by_family(rows: Sequence[SuiteRow]) -> dict[str, list[SuiteRow]]:
    """Return the rows by the first word of their names: ``matmul`` of ``matmul.q_proj.s32``."""
    found: dict[str, list[SuiteRow]] = {}
    for row in rows:
        found.setdefault(row.kernel.partition(".")[0], []).append(row)
    return found


def losers(rows: Iterable[SuiteRow], side: str) -> list[SuiteRow]:
    """Return the kernels that a side runs faster, the slowest of ours first."""
    lost = [row for row in rows if row.ratio.get(side, 1.0) < 1]
    return sorted(lost, key=lambda row: row.ratio[side])


_WIDTH = 11
_REMEDY = "their figures tell little, so stop it and repeat the call"
# With fewer operations a byte, memory limits a kernel on most machines.
_OPERATIONS_A_BYTE = 4.0
_SIDES = {EAGER: "eager", COMPILED: "compiled"}


def head(names: Sequence[str], sides: int) -> str:
    """Return the head of a table of these kernels; the first ``sides`` of torch have columns."""
    torch = list(_SIDES.values())[:sides]
    return _line("kernel", [OURS, *torch, *(f"/ {one}" for one in torch)], names, "tuning")


def row_line(row: SuiteRow, names: Sequence[str], sides: int) -> str:
    """Return the line of a kernel; ratios above 1 say how much faster it is."""
    if row.failed and OURS not in row.latency:
        return f"{row.kernel.ljust(_longest(names))}  failed ({row.failed}): {row.error}"
    torch = list(_SIDES)[:sides]
    cells = [_latency(row, one) for one in (OURS, *torch)]
    cells += [f"{row.ratio[one]:.2f}x" if one in row.ratio else "-" for one in torch]
    said = f"{row.trials} trials, {row.tuning_seconds:.0f} s"
    notes = [said, *row.missing.values()] if sides else [said]
    notes += [row.disturbed] if row.disturbed else []
    return _line(row.kernel, cells, names, "; ".join(notes))


def _line(name: str, cells: Sequence[str], names: Sequence[str], note: str) -> str:
    aligned = "".join(cell.rjust(_WIDTH) for cell in cells)
    return f"{name.ljust(_longest(names))}{aligned}  {note}"


def _longest(names: Sequence[str]) -> int:
    return max(map(len, ("kernel", *names)))


def _latency(row: SuiteRow, side: str) -> str:
    return describe_latency(row.latency[side]) if side in row.latency else "-"


def summary(rows: Sequence[SuiteRow], name: str, seconds: float) -> str:
    """Return the figures of a suite, by families too, and the kernels that torch runs faster."""
    failed = [row for row in rows if row.failed]
    disturbed = [row for row in rows if row.disturbed]
    lines = [f"{name}: {len(rows)} kernels in {seconds:.0f} s, {len(failed) or 'none'} failed"]
    found = {side: figures(rows, side) for side in _SIDES}
    known = {side: one for side, one in found.items() if one is not None}
    if known:
        lines += ["", _figures_table(known)]
        families = by_family(rows)
        if len(families) > 1:
            lines += ["", _families(families, list(known))]
    if disturbed:
        lines += ["", f"other work disturbed {len(disturbed)} of {len(rows)} kernels: {_REMEDY}"]
    for side in known:
        lost = losers(rows, side)
        if lost:
            lines += ["", f"{side} is faster for {len(lost)} of {known[side].kernels} kernels:"]
            lines += [f"  {row.kernel}: {'; '.join(_facts(row, side))}" for row in lost]
    if failed:
        lines += ["", "failed:"]
        lines += [f"  {row.kernel} ({row.failed}): {row.error}" for row in failed]
    return "\n".join(lines)


def _figures_table(known: dict[str, Figures]) -> str:
    sides = list(known.values())
    return table(
        ("latency of torch over ours", *known),
        [
            (
                "at or above 1",
                *(f"{one.at_least_as_fast} / {one.kernels}" for one in sides),
            ),
            ("geometric mean", *(f"{one.geometric_mean:.2f}x" for one in sides)),
            ("best", *(f"{one.best:.2f}x" for one in sides)),
            ("90th percentile", *(f"{one.percentile_90:.2f}x" for one in sides)),
            ("lowest", *(f"{one.lowest:.2f}x" for one in sides)),
        ],
    )


def _families(families: dict[str, list[SuiteRow]], sides: list[str]) -> str:
    rows = []
    for name, held in families.items():
        means = [figures(held, side) for side in sides]
        cells = ("-" if one is None else f"{one.geometric_mean:.2f}x" for one in means)
        rows.append((name, str(len(held)), *cells))
    return table(("family (geometric mean)", "kernels", *sides), rows)


def _facts(row: SuiteRow, side: str) -> Iterator[str]:
    """Say what is known of a kernel that a side runs faster."""
    noise = f", {WITHIN_NOISE}" if is_noise(row.p_value[side]) else ""
    yield f"{row.ratio[side]:.2f}x{noise}"
    yield f"ours {describe_latency(row.latency[OURS])}{_rate(row, OURS)}"
    yield f"{_SIDES[side]} {describe_latency(row.latency[side])}{_rate(row, side)}"
    if side == EAGER and row.slowest_call:
        yield f"torch calls {row.slowest_call}"
    if side == COMPILED:
        yield f"its code calls {', '.join(row.compiled_calls) or 'no library'}"


def _rate(row: SuiteRow, side: str) -> str:
    """Return the rate that counts: of operations, or of bytes where there are few operations."""
    if row.flops >= _OPERATIONS_A_BYTE * row.bytes:
        return f" ({row.flops / row.latency[side] / 1e9:.3g} GFLOPS)"
    return f" ({row.bytes / row.latency[side] / 1e9:.3g} GB/s)"
