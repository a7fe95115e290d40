"""The run of one task: opened, resumed, searched in slices, concluded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

from schedlang.database import Record
from schedlang.database.programs import put_program
from schedlang.measurement.measurer import DEFAULT_ID
from schedlang.search import Proposal, Strategy
from schedlang.tuning.budget import batch_for, before_the_end
from schedlang.tuning.identity import identity
from schedlang.tuning.kernels.warm_start import WarmStart
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.measuring import describe_problem
from schedlang.tuning.options import identifying
from schedlang.tuning.records import blank_record
from schedlang.tuning.result import TuneResult
from schedlang.tuning.session.callbacks import Watch
from schedlang.tuning.session.conclusion import ending_of, result_of, stored_result
from schedlang.tuning.session.ending import Ending
from schedlang.tuning.session.live_view import Progress
from schedlang.tuning.session.resume import (
    Journal,
    RunState,
    new_run,
    open_journal,
    release_kept,
    resume,
)
from schedlang.tuning.session.run import FINALS_SECONDS, TuningRun
from schedlang.tuning.session.session import Call
from schedlang.tuning.tasks import TunedTask, search_identity


@dataclass(frozen=True)
class Slice:
    """What a part of a search gave.

    Attributes
    ----------
    records: of the candidates of this slice, in order.
    finished: why it ended.
    cut: whether time ended it.
    """

    records: Sequence[Record]
    finished: str
    cut: bool = False


class TaskRun:
    """The run of one task of a session.

    Nothing is read from the database before ``open``, no search is asked before ``state``, and no
    worker starts before ``run``.

    Parameters
    ----------
    task: what is tuned.
    call: of the session.
    stack: closes what the run opens.
    strategy: the search, where it was made already.
    finals_seconds: planned seconds of the finals' samples.

    Attributes
    ----------
    task: as given.
    ending: how an earlier call of it ended; None before ``open``, and where it did not end.
    """

    def __init__(
        self,
        task: TunedTask,
        call: Call,
        stack: ExitStack,
        strategy: Strategy | None = None,
        finals_seconds: float = FINALS_SECONDS,
    ) -> None:
        self.task = task
        self._made = strategy
        self._finals_seconds = finals_seconds
        self.ending: Ending | None = None
        self._call = call
        self._stack = stack
        self._journal: Journal | None = None
        self._past: WarmStart | None = None

    # -- opening ---------------------------------------------------------------------------------

    @cached_property
    def strategy(self) -> Strategy:
        """The search as it is made, which was asked nothing and starts from nothing."""
        return self._made or self.task.make_strategy()

    @property
    def seed(self) -> int:
        """The seed of the search."""
        return self._call.seed if self.task.seed is None else self.task.seed

    @cached_property
    def identity(self) -> str:
        """What is equal for calls that continue this run."""
        call, task = self._call, self.task
        values = {
            "space": task.space,
            "seed": self.seed,
            "verify": str(call.verify),
            "transfer": call.transfer,
            "search": search_identity(task.search, self.strategy),
            "measurer": call.measuring.identity,
            **task.identifying,
        }
        # Traces name blocks, which the key of a workload does not.
        keys = (task.workload.key, task.workload.structure.blocks, call.target.key)
        return identity(*keys, *identifying(call.options, values))

    @cached_property
    def _blank(self) -> Record:
        call = self._call
        verification = describe_problem(call.measuring.problem)
        workload, name = self.task.workload, self.strategy.name
        blank = blank_record(workload, call.target, name, self.seed, verification)
        return replace(blank, target_key=call.measuring.machine_key)

    def open(self) -> None:
        """Open the run's journal, where there is one; what it ended with is then known."""
        call, workload = self._call, self.task.workload
        if self._journal is not None or not call.journaled:
            return
        self._past = WarmStart(
            call.database,
            workload,
            self._blank,
            call.measuring.verified,
            transfer=call.transfer,
            reuse=not call.remeasure,
        )
        fresh = new_run(self._blank, self.identity, self._past.newest)
        release_kept(call.database)
        with call.database.transaction():
            put_program(call.database, workload)
            journal = open_journal(
                call.database, fresh, anew=call.remeasure, clock=call.budget.clock
            )
            journal.describe(call.notes, call.tags)
        self._journal = self._stack.enter_context(journal)
        self.ending = self._journal.ending

    @property
    def journal_id(self) -> int | None:
        """Id of the run in the database; None where it is not stored."""
        return None if self._journal is None else self._journal.id

    @property
    def is_new(self) -> bool:
        """Whether no earlier call has measured anything; to be asked after ``open``."""
        return self._journal is None or self._journal.is_new

    @property
    def seconds(self) -> float:
        """Wall time that earlier calls of this run had used, as far as it is known."""
        if self._journal is not None:
            return self._journal.seconds
        call = self._call
        if not call.journaled or call.remeasure:
            return 0.0
        database = call.database
        run = database.find_run(self.identity)
        if run is None or run.id is None:
            return 0.0
        asks = database.asks(run.id)
        asked = asks[-1].seconds if asks else 0.0
        return max(asked, Ending.from_json(run.outcome).seconds if run.outcome else 0.0)

    def stored_records(self) -> tuple[Sequence[Record], Record | None]:
        """Return the records of a run that ended, and that of the unscheduled program.

        DatabaseError where the database lacks one.
        """
        assert self._journal is not None and self.ending is not None
        unscheduled = None
        if self.ending.unscheduled is not None:
            [unscheduled] = self._journal.records([self.ending.unscheduled])
        return self._journal.records(self.ending.records), unscheduled

    # -- searching -------------------------------------------------------------------------------

    @cached_property
    def state(self) -> RunState:
        """Where the run stands: new, or as earlier calls left it."""
        call, made = self._call, [self.strategy]

        def make_strategy() -> Strategy:
            strategy = made.pop() if made else self.task.make_strategy()
            strategy.use_clock(call.budget.clock)
            if call.target.has_estimate:
                strategy.use_estimate(call.target.estimated)
            # Without time for them, none is proposed.
            if first := before_the_end(call.budget, self.task.first):
                strategy.suggest(first)
            return strategy

        verified = call.measuring.verified is not False
        leaderboard = Leaderboard(max(call.finals, 1), verified=verified, kept=self._default_key)
        fresh = RunState(
            self.task.workload, make_strategy(), leaderboard, self._journal, self._past
        )
        state = fresh if self._journal is None else resume(fresh, make_strategy)
        self.strategy.used_by_tune = True
        return state

    @cached_property
    def default(self) -> Proposal | None:
        """What the task runs with when it is not tuned, where it takes part in the finals."""
        make = self.task.default
        schedule = None if make is None else before_the_end(self._call.budget, make)
        if schedule is None or not len(schedule.trace):
            return None  # the unscheduled program takes part anyway
        return Proposal(DEFAULT_ID, schedule)

    @property
    def _default_key(self) -> str:
        return "" if self.default is None else self.default.program_key

    @property
    def keeps_default(self) -> bool:
        """Whether the default schedule is the fastest, as far as this call knows."""
        if not self.is_open or self.default is None:
            return False
        leaders = self.state.leaderboard.fastest_first
        return bool(leaders) and leaders[0].record.program_key == self._default_key

    @cached_property
    def run(self) -> TuningRun:
        """What measures; the session's measurer starts where it has not yet."""
        call, state = self._call, self.state
        measurer = call.measuring.started(self.task.workload)
        described = new_run(self._blank, "", 0)
        return TuningRun(
            state,
            self._blank,
            call.database,
            measurer,
            call.budget,
            Watch(call.steps, state, call.target, call.budget),
            finals_seconds=self._finals_seconds if call.finals else None,
            default=self.default,
            run=replace(described, notes=call.notes or "", tags=tuple(call.tags or ())),
        )

    def find_unscheduled(self) -> Record | None:
        """Return a record of the unscheduled program, of this run or of another, if any."""
        return self.state.find_unscheduled()

    @property
    def unscheduled_latency(self) -> float:
        """Latency of the unscheduled program, in seconds; NaN before it is known."""
        return self.run.unscheduled.latency

    @property
    def trials(self) -> int:
        """Number of candidates so far that ran, those of earlier calls included."""
        return self.state.trials

    @property
    def measured(self) -> int:
        """The same, with those that were rejected before they ran."""
        return len(self.state.records)

    @property
    def is_open(self) -> bool:
        """Whether this call continues it, so that it needs an ending."""
        return "state" in vars(self)

    @property
    def out_of_time(self) -> bool:
        """Whether the budget ended the search."""
        return "run" in vars(self) and self.run.pace.out_of_time

    @property
    def records(self) -> Sequence[Record]:
        """What the search was told of, in order; empty where this call does not continue it."""
        return self.state.records if self.is_open else ()

    def advance(self, trials: int | None, progress: Progress, seconds: float = math.inf) -> Slice:
        """Search until the run has this many trials, time is over or a rule ends it.

        After ``seconds`` no batch begins, but for the first one.
        """
        until = self._call.budget.clock.now() + seconds
        run = self.run
        measurer = self._call.measuring.on(self.task.workload)
        known = self.best_of(run.state.records)
        measurer.best_so_far = known if math.isfinite(known) else None
        before = len(run.state.records)
        batch = self._call.batch or batch_for(measurer.parallel, self._call.trials)
        finished = run.search(trials, batch, progress, until)
        return Slice(run.state.records[before:], finished, run.pace.cut)

    def save(self) -> bool:
        """Keep the search's state in the journal; return whether that is possible now."""
        state, journal = self.state, self._journal
        assert journal is not None
        if state.unfinished:
            return False
        return journal.save(
            state.strategy, state.records, state.proposals, state.leaderboard, always=True
        )

    def best_of(self, records: Sequence[Record]) -> float:
        """Return the lowest latency of records that may win, in seconds; NaN without any."""
        return min((one.latency for one in self.that_may_win(records)), default=math.nan)

    def that_may_win(self, records: Iterable[Record]) -> list[Record]:
        """Return the records that may win: those that ran, and are verified where results are."""
        verified = self._call.measuring.verified is not False
        return [one for one in records if one.ok and (one.verified or not verified)]

    # -- the end ---------------------------------------------------------------------------------

    def conclude(self, finals_seconds: float | None = None) -> None:
        """Hold the finals, where there is time for them.

        Their samples take ``finals_seconds`` at most; None for as many as planned.
        """
        self._enter_others()
        if self._call.budget.finals_seconds > 0:
            self._call.measuring.on(self.task.workload)
            self.run.conclude(finals_seconds)

    def _enter_others(self) -> None:
        """Let the fastest win that runs beside this one measured, in an earlier call with hosts."""
        state = self.state
        ended = () if self.ending is None or state.entered else self.ending.records
        if missing := {*ended} - {one.id for one in state.records}:
            found = self._call.database.get(missing)
            others = (one for one in found if one.run_id != self.journal_id and not one.unscheduled)
            won = sorted(self.that_may_win(others), key=lambda one: one.most)
            state.enter(won[: self._call.finals + 1])

    def blame(self) -> bool:
        """Where a result was wrong, look for the instruction at fault; say whether it is known.

        Takes a few seconds at most.
        """
        measuring = self._call.measuring
        if measuring.as_said:
            measuring.on(self.task.workload)
            self.run.blame(measuring.problem)
        return bool(self.run.at_fault)

    def result(self, finished: str, *, interrupted: bool = False) -> TuneResult:
        """Return the result so far; ``finished`` says why it ended."""
        self._enter_others()
        # Finals have ranked the programs, the unscheduled one among them.
        if self.run.finals is None:
            self.run.unscheduled.enter()
        return result_of(self.run, self._call.target, finished, interrupted=interrupted)

    def stored_result(self) -> TuneResult:
        """Return the result of the earlier call that ended the run."""
        assert self._journal is not None and self.ending is not None
        call = self._call
        return stored_result(
            self.task.workload, call.target, self._journal, self.ending, call.budget
        )

    def store(self, result: TuneResult) -> None:
        """Keep how the run ended in the database, where it is written there."""
        if self._journal is not None:
            self._journal.finish(ending_of(self.run, result))
