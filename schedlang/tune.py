"""``tune()``: space, search, measurement and database put together."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from schedlang.clock import Clock
from schedlang.database import Database, Record, open_database
from schedlang.errors import SpaceError
from schedlang.finals import Finals
from schedlang.leaders import Leaders
from schedlang.measurement import Candidate, Measurement, Measurer, Status
from schedlang.module import Module
from schedlang.progress import ProgressBar
from schedlang.result import Best, TuneResult
from schedlang.search import SEARCHES, MakeStrategy, Outcome, Proposal, Strategy, make_search
from schedlang.space import Space
from schedlang.targets import LocalCPU, Target, as_target, build_callable, export_library
from schedlang.targets import toolchain_key as current_toolchain
from schedlang.targets.cpu_space import cpu_space
from schedlang.targets.local_cpu import Verify
from schedlang.tvm.program import to_json
from schedlang.workload import Workload
from schedlang.workloads.construct import as_workload

__all__ = ["BATCH", "SEARCHES", "Target", "default_space", "tune"]

TRIALS = 64
BATCH = 16
FINALS_SECONDS = 5.0
# With a wall-clock budget, before it is known how long a candidate takes.
_FIRST_BATCH = 8


def default_space(target: Target | str = "cpu") -> Space:
    """The target's own space, to extend or override: ``default_space() + my_module``."""
    return cpu_space(as_target(target))


def tune(
    workload: Workload | Any,
    target: Target | str = "cpu",
    *,
    space: Space | Module | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    search: str | MakeStrategy | Strategy = "auto",
    batch: int = BATCH,
    database: Database | str | os.PathLike[str] | None = None,
    verify: Verify = True,
    finals: int = 5,
    measurer: Measurer | None = None,
    progress: bool | None = None,
) -> TuneResult:
    """Find a fast schedule of a workload by measuring candidates of a space on this machine.

    Parameters
    ----------
    workload: a ``Workload``, or what makes one (PrimFunc, IRModule, TE tensors).
    target: a ``Target`` or its name.
    space: what to search; by default the target's own.
    trials: candidates to measure at most; 64 when ``seconds`` are not given either.
    seconds: wall time of the whole call, finals included; it then returns the best so far. A
        measurer of your own is not interrupted: what it began it finishes.
    seed: of the search and of the random inputs.
    search: a name of ``schedlang.search.SEARCHES``, ``"auto"`` for what measured best (see
        docs/search.md), a function ``(space, workload, seed) -> Strategy`` such as a strategy's
        class, or a strategy made for this space and workload.
    batch: candidates to ask the search for at a time, at most. A search that learns does better
        with small batches, a farm of machines with large ones.
    database: where records go: a path, a ``Database``, or None for memory only.
    verify: compare results with the unscheduled program's: True for candidates that could win,
        ``"all"``, or False.
    finals: so many of the fastest verified candidates are timed again at the end, against each
        other, and the best is the winner; 0 takes the fastest as it was measured.
    measurer: what measures, for this workload, such as ``schedlang.targets.RPC``; it stays open
        and its own settings hold, ``verify`` too. By default this machine does.
    progress: show a progress bar; None does on a terminal.

    Returns the records and the best candidate. A bad candidate never raises: it becomes a record
    with its status. An interruption (Ctrl-C) stops the workers and keeps the records made so far.
    An exception of a module itself, other than ``NotApplicable``, is the user's to see: it ends the
    run, as do wrong arguments (``ValueError``, ``SpaceError``, ``WorkloadError``, ``TargetError``)
    and a database that cannot be opened (``DatabaseError``).
    """
    clock = Clock(seconds)
    workload = as_workload(workload)
    target = as_target(target)
    if trials is None and seconds is None:
        trials = TRIALS
    if trials is not None:
        _check_whole("trials", trials, least=1)
    _check_whole("seed", seed, least=0)
    _check_whole("finals", finals, least=0)
    _check_whole("batch", batch, least=1)
    space = _as_space(space, target)
    strategy = _as_strategy(search, space, workload, seed, trials)
    # A measurer that is given verifies as it likes.
    leaders = Leaders(max(finals, 1), verified=measurer is None and verify is not False)
    # The database comes second: a target that is not this machine leaves no file behind.
    with _opened(measurer, workload, target, verify, seed) as measurer:
        opened = open_database(database)
        try:
            run = _Run(workload, target, strategy, seed, opened, leaders, clock)
            with ProgressBar(f"tuning {workload.name}", trials, workload.flops, progress) as bar:
                finished = run.search(measurer, trials, batch, bar, finals=finals > 0)
            if finals:
                run.hold_finals(measurer)
        finally:
            if opened is not database:
                opened.close()
        return run.result(measurer, finished)


def _opened(
    measurer: Measurer | None, workload: Workload, target: Target, verify: Verify, seed: int
) -> AbstractContextManager[Measurer]:
    if measurer is not None:
        return nullcontext(measurer)
    return LocalCPU(workload, target, verify=verify, seed=seed)


def _check_whole(name: str, value: int, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}; give a whole number, {least} or more")


def _as_space(space: Space | Module | None, target: Target) -> Space:
    if space is None:
        return default_space(target)
    if isinstance(space, Module):
        return Space([space])
    if isinstance(space, Space):
        return space
    raise SpaceError(
        f"space is a Space or a module, not {type(space).__name__}; for several modules give "
        "Space([...])"
    )


def _as_strategy(
    search: str | MakeStrategy | Strategy,
    space: Space,
    workload: Workload,
    seed: int,
    trials: int | None,
) -> Strategy:
    if isinstance(search, Strategy):
        return search
    if callable(search):
        made = search(space, workload, seed)
        if isinstance(made, Strategy):
            return made
        raise ValueError(f"search={search!r} made a {type(made).__name__}, not a Strategy")
    return make_search(search, space, workload, seed, trials)


class _Run:
    """One tuning run: keeps what was measured and writes it down as it comes."""

    def __init__(
        self,
        workload: Workload,
        target: Target,
        strategy: Strategy,
        seed: int,
        database: Database,
        leaders: Leaders,
        clock: Clock,
    ) -> None:
        self.workload = workload
        self.target = target
        self.strategy = strategy
        self.seed = seed
        self.database = database
        self.toolchain = current_toolchain()
        self.records: list[Record] = []
        self.leaders = leaders
        self.clock = clock
        self.finals: Finals | None = None
        self.failed_finals: Counter[str] = Counter()
        database.put_workload(workload.key, workload.name, to_json(workload.mod))

    def search(
        self, measurer: Measurer, trials: int | None, batch: int, bar: ProgressBar, *, finals: bool
    ) -> str:
        """Ask, measure and tell until trials or time are used up; says why it ended."""
        deadline = self.clock.search_deadline(finals)
        if self.clock.limited:
            # It is part of the result: better to know how long it takes than to be late.
            _ = measurer.reference_latency
        while trials is None or len(self.records) < trials:
            left = deadline - time.monotonic()
            if left <= 0:
                return f"{self.clock.seconds:g} s are over"
            wanted = batch if trials is None else min(batch, trials - len(self.records))
            if self.clock.limited:
                wanted = min(wanted, self._fit(left))
            with self.clock.timing("search"):
                proposals = self.strategy.ask(wanted)
            if not proposals:
                return self.strategy.finished or "the search proposed nothing"
            with self.clock.timing("measure"):
                outcomes = list(self._measure(measurer, proposals, deadline, bar))
            with self.clock.timing("search"):
                self.strategy.tell(outcomes)
        return f"{trials} trials"

    def _fit(self, left: float) -> int:
        """How many candidates can be measured in so many seconds, as far as is known."""
        spent = self.clock.elapsed
        return max(1, int(left / spent * len(self.records))) if self.records else _FIRST_BATCH

    def _measure(
        self, measurer: Measurer, proposals: Sequence[Proposal], deadline: float, bar: ProgressBar
    ) -> Iterator[Outcome]:
        """Measure and write down, until the deadline."""
        by_id = {proposal.id: proposal for proposal in proposals}
        candidates = [Candidate(p.id, p.schedule.mod) for p in proposals]
        with _stopping_at(deadline, measurer):
            for measurement in measurer.measure(candidates):
                self._keep(by_id[measurement.id], measurement)
                bar.update(measurement, len(self.strategy.rejections), self.strategy.report)
                yield Outcome(measurement.id, measurement)
                if time.monotonic() >= deadline:
                    return

    def _keep(self, proposal: Proposal, measurement: Measurement) -> None:
        record = Record(
            workload_key=self.workload.key,
            workload_name=self.workload.name,
            target_key=self.target.key,
            toolchain_key=self.toolchain,
            trace_json=proposal.trace.to_json(),
            status=measurement.status,
            samples=measurement.samples,
            message=measurement.message,
            verified=measurement.verified,
            search=self.strategy.name,
            seed=self.seed,
            created=time.time(),
            stderr=measurement.stderr,
        )
        [record] = self.database.append([record])
        self.records.append(record)
        self.leaders.add(record, proposal.schedule)

    def hold_finals(self, measurer: Measurer) -> None:
        """Time the fastest candidates against each other, if there is time."""
        budget = min(FINALS_SECONDS, self.clock.finals_budget)
        if self.leaders.fastest_first and budget > 0:
            with self.clock.timing("finals"):
                self.finals, self.failed_finals = self.leaders.hold_finals(
                    lambda candidates: measurer.remeasure(candidates, budget_seconds=budget)
                )

    def result(self, measurer: Measurer, finished: str) -> TuneResult:
        rejections = self.strategy.rejections
        rejected = Counter(rejection.reason for rejection in rejections)
        rejected.update(str(r.status) for r in self.records if r.status is not Status.OK)
        rejected.update(self.failed_finals)
        culprits = _most_common(rejection.where for rejection in rejections if rejection.where)
        best = None
        if leaders := self.leaders.fastest_first:
            target = self.target
            best = Best(
                leaders[0].record,
                leaders[0].schedule.trace,
                lambda mod: build_callable(mod, target),
                lambda mod, path: export_library(mod, target, path),
                self.finals,
                leaders[1].record if self.finals and len(leaders) > 1 else None,
            )
        reference = measurer.reference_latency
        measured = dict(measurer.seconds) if isinstance(measurer, LocalCPU) else {}
        return TuneResult(
            self.workload,
            self.records,
            rejected,
            culprits,
            reference,
            self.clock.elapsed,
            finished,
            best,
            self.clock.split(measured, self.strategy.seconds.get("model", 0.0)),
        )


@contextmanager
def _stopping_at(deadline: float, measurer: Measurer) -> Iterator[None]:
    """Have a measurer of this machine stop at a deadline, whatever it does."""
    if not isinstance(measurer, LocalCPU):
        yield
        return
    measurer.deadline = deadline
    try:
        yield
    finally:
        measurer.deadline = math.inf


def _most_common(names: Iterable[str]) -> list[tuple[str, int]]:
    return Counter(names).most_common(5)
