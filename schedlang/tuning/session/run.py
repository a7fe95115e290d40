"""One tuning run: ask, measure, tell, and store each measurement as it arrives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from schedlang.database import Database, FinalsEntry, Record, Run, RunHistory
from schedlang.database.past_runs import as_history
from schedlang.database.programs import program_text
from schedlang.errors import DatabaseError, SchedlangError
from schedlang.measurement import Candidate, Measurement, Measurer
from schedlang.measurement.finals import Finals, load_statistics
from schedlang.measurement.measurer import REFERENCE_ID
from schedlang.measurement.problem import Problem
from schedlang.search import Outcome, Proposal
from schedlang.targets.measure.contention import CoreWatch
from schedlang.tuning.budget import Budget, FinalsPlan, OutOfTime, Pace, describe_trials, within
from schedlang.tuning.failures import first_fault
from schedlang.tuning.records import as_record, finals_entries
from schedlang.tuning.session.callbacks import Watch
from schedlang.tuning.session.live_view import Progress
from schedlang.tuning.session.recorder import RunRecorder, Unscheduled, share
from schedlang.tuning.session.resume import RunState, new_run
from schedlang.tuning.tasks import checked_proposals

FINALS_SECONDS = 5.0
"""Planned seconds of the finals' samples."""
_TIMING = "timing the unscheduled program"

# A search ends after this many candidates in a row that were rejected before they ran.
_MOST_REJECTED = 1024


class TuningRun:
    """Asks a search, has its proposals measured, and keeps the records and the fastest of them.

    Parameters
    ----------
    state: where the run stands: new, or as earlier calls left it.
    blank: the fields that all records of the run share.
    database: where records go.
    measurer: measures the workload.
    budget: wall time.
    watch: is shown each record, and may end the search.
    finals_seconds: planned seconds of the finals' samples, for which the search leaves time; None
        for no finals.
    default: takes part in the finals too; measured there if the search did not measure it.
    run: stands for it in its history where no database keeps one.

    Attributes
    ----------
    state, budget, watch: as given.
    finals: result of the finals; None where they were not held.
    failed_finals: number of finalists that failed, by status.
    pace: how fast it measures, and which time ended its search.
    unscheduled: the unscheduled program.
    recorder: notes when and where the trials were measured.
    cores: reads what other programs use of this machine's cores; None where others measure.
    at_fault: what the first wrong result is the fault of; empty where that is not known.
    """

    def __init__(
        self,
        state: RunState,
        blank: Record,
        database: Database,
        measurer: Measurer,
        budget: Budget,
        watch: Watch,
        *,
        finals_seconds: float | None,
        default: Proposal | None = None,
        run: Run | None = None,
    ) -> None:
        self.state = state
        self.budget = budget
        self.watch = watch
        self.finals: Finals | None = None
        self.failed_finals: Counter[str] = Counter()
        self.at_fault = ""
        self._blank = replace(blank, run_id=state.run_id)
        self._database = database
        self._measurer = measurer
        self._finals_seconds = finals_seconds
        self._default = default
        if finals_seconds is not None:
            budget.plan_finals(self._plan_finals)
        self.restart_pace()
        self.unscheduled = Unscheduled(state, self._blank, database, measurer)
        self.recorder = RunRecorder(state, database, budget.clock)
        self.cores = None if measurer.elsewhere else CoreWatch()
        self._run = run or new_run(blank, "", 0)
        # What resuming took is not part of this call.
        self._model_seconds = self._model_seconds_so_far()
        self._measured_seconds = dict.fromkeys(measurer.seconds, 0.0)

    def restart_pace(self) -> None:
        """Learn anew how fast it measures: the budget has begun again."""
        finals = self._finals_seconds is not None
        self.pace = Pace(self.budget, finals=finals, at_once=self._measurer.parallel)

    # -- searching -------------------------------------------------------------------------------

    def search(self, trials: int | None, batch: int, bar: Progress, until: float = math.inf) -> str:
        """Ask, measure and tell until trials or time are used up, or a rule ends it; return why.

        A candidate that is rejected before it runs is no trial. From ``until`` on, by the clock, no
        batch begins, but for the first.
        """
        self.pace.begin_slice(until)
        log = self.recorder.log
        if self.budget.measured:
            log.enter("search")
        else:
            # The call began before.
            log.enter("start", 0.0 if log.phases else self.budget.elapsed)
        try:
            return self._search(trials, batch, bar)
        except OutOfTime as error:
            self.pace.out_of_time = self.pace.cut = True
            return f"{self._describe_time()}, and {error.running} had not ended"
        finally:
            log.enter("")

    def _search(self, trials: int | None, batch: int, bar: Progress) -> str:
        state = self.state
        self._tell_state(bar)
        if self.budget.limited:
            if self._finals_seconds is not None:
                load_statistics()
            # It is part of the result: better to know how long it takes than to be late.
            with self._stopping_by(self.pace.deadline):
                self._measure_unscheduled(bar)
        while trials is None or state.trials < trials:
            if self.watch.reason:
                return self.watch.reason
            fits = self.pace.fit(batch)
            if fits < 1:
                return self._describe_time()
            if state.rejected_last >= _MOST_REJECTED:
                return f"the last {state.rejected_last} candidates were all rejected"
            proposals = self._take_unfinished(trials)
            if not proposals:
                proposals = self._ask(fits if trials is None else min(fits, trials - state.trials))
                if not proposals:
                    return state.strategy.finished or "the search proposed nothing"
            with self._measuring():
                outcomes = list(self._measure(proposals, bar))
            cut_off = self.watch.reason or not math.isinf(self.pace.deadline)
            if len(outcomes) < len(proposals) and not cut_off:
                raise SchedlangError(
                    f"the measurer {self._measurer.key!r} gave no measurement for "
                    f"{len(proposals) - len(outcomes)} of {len(proposals)} candidates"
                )
            with self.budget.timing("search"):
                within(self.budget, partial(state.strategy.tell, outcomes))
            # Now, as the workers are ready, and the program is in the database if a run is
            # interrupted.
            self._measure_unscheduled(bar)
            self._tell_state(bar)
            self.recorder.store()
            # What was not measured in time is pending: only asking again can take that up.
            if state.journal is not None and len(outcomes) == len(proposals):
                state.journal.save(
                    state.strategy, state.records, state.proposals, state.leaderboard
                )
        return describe_trials(state.trials, trials)

    def _measure_unscheduled(self, bar: Progress | None = None) -> None:
        log = self.recorder.log
        if not self.unscheduled.find():
            if bar is not None:
                bar.enter(_TIMING)
            activity = log.activity
            log.enter("start")
            self.unscheduled.measure()
            log.enter(activity)

    def _tell_state(self, bar: Progress) -> None:
        if self.unscheduled.latency > 0:
            bar.compare_with(self.unscheduled.latency, complete=self.unscheduled.complete)
        bar.split(self.time_split())

    def _take_unfinished(self, trials: int | None) -> list[Proposal]:
        """Return the rest of an earlier call's last batch, without what would be too many."""
        proposals, self.state.unfinished = self.state.unfinished, []
        room = math.inf if trials is None else trials - self.state.trials
        if len(proposals) <= room:
            return proposals
        known = self.state.find_measured(proposals)
        ordered = sorted(proposals, key=lambda one: one.id not in known)
        return ordered[: int(max(room, len(known)))]

    def _describe_time(self) -> str:
        """Say that the time is over: the budget's, or that of a slice."""
        if not self.pace.out_of_time:
            return "the time of its slice is over"
        if math.isnan(self.unscheduled.latency):
            return f"{self.budget.seconds:g} s are over before a worker was ready"
        return self.budget.describe_end(self._finals_seconds is not None)

    def _ask(self, wanted: int) -> list[Proposal]:
        used = self.budget.used
        with self.budget.timing("search"), self.pace.asking():
            ask = partial(checked_proposals, self.state.strategy, wanted)
            proposals = within(self.budget, ask)
        if proposals and self.state.journal is not None:
            self.state.journal.note(wanted, used)
        return proposals

    def _measure(self, proposals: Sequence[Proposal], bar: Progress) -> Iterator[Outcome]:
        """Measure what is not known and write it down, until the deadline."""
        strategy = self.state.strategy
        by_id = {proposal.id: proposal for proposal in proposals}
        for part in share(self.state, proposals, self.pace.deadline, self.budget.clock):
            for proposal, record in part.known:
                outcome = self.state.reuse(record, proposal)
                self.recorder.log.enter("search")
                bar.enter(strategy.phase)
                bar.update(outcome.measurement, strategy)
                self.watch.see(record, reused=True)
                yield outcome
                if self.watch.reason:
                    return
            if not part.own:
                continue
            with self._stopping_by(self.pace.deadline):
                candidates = [
                    Candidate.of(one.schedule, one.id, one.program_key) for one in part.own
                ]
                began = self.budget.clock.now()
                for measurement in self._measurer.checked(candidates):
                    self.recorder.end_start(measurement, self.budget.clock.now() - began)
                    record = self._keep(by_id[measurement.id], measurement)
                    bar.enter(strategy.phase)
                    bar.update(measurement, strategy)
                    self.watch.see(record)
                    yield Outcome(measurement.id, measurement)
                    if self.watch.reason or self.budget.clock.now() >= self.pace.deadline:
                        return

    def _keep(self, proposal: Proposal, measurement: Measurement) -> Record:
        record = as_record(self._blank, proposal, measurement)
        try:
            [record] = self._database.append([record])
        finally:
            # A record that cannot be stored is part of the result so far.
            seconds = measurement.build_seconds + measurement.run_seconds
            self.budget.measured += 1
            self.state.add(record, proposal, seconds)
        self.recorder.note(record, measurement)
        return record

    @contextmanager
    def _stopping_by(self, deadline: float) -> Iterator[None]:
        """Have the measurer stop at this time."""
        self._measurer.deadline = deadline
        try:
            yield
        finally:
            self._measurer.deadline = math.inf

    # -- the end ---------------------------------------------------------------------------------

    def _plan_finals(self) -> FinalsPlan:
        """Return what the finals would take now: nothing, while there is nothing to time."""
        leaderboard = self.state.leaderboard
        if self._finals_seconds is None or not leaderboard.fastest_first:
            return FinalsPlan(0.0, 0.0)
        return FinalsPlan(leaderboard.finals_seconds, self._finals_seconds)

    def conclude(self, finals_seconds: float | None = None) -> None:
        """Let the unscheduled program compete, and hold the finals if there is time for them.

        They end when the budget is over, with as many rounds as they have by then. Their samples
        take ``finals_seconds`` at most; None for as many as planned.
        """
        with self._stopping_by(self.budget.end):
            self._measure_unscheduled()
            self._measure_default()
            self.unscheduled.enter()
            if self._finals_seconds is not None and self.budget.finals_seconds > 0:
                self._hold_finals(finals_seconds or self._finals_seconds)

    def _measure_default(self) -> None:
        """Measure the default schedule, unless the run did before."""
        default, state = self._default, self.state
        if default is None or any(r.program_key == default.program_key for r in state.records):
            return
        keys = (self._blank.workload_key, self._blank.target_key, self._blank.toolchain_key)
        found = self._database.query(*keys, program_key=default.program_key)
        known = [one for one in found if one.run_id == state.run_id and one.proposal is None]
        if known and state.journal is not None:
            state.add_unproposed(known[-1], default.schedule)
            return
        self._measurer.best_so_far = None  # it is not given up for being slow
        with self._measuring():
            candidates = [Candidate.of(default.schedule, default.id, default.program_key)]
            measurements = list(self._measurer.checked(candidates))
        for measurement in measurements:
            record = replace(as_record(self._blank, default, measurement), proposal=None)
            [record] = self._database.append([record])
            seconds = measurement.build_seconds + measurement.run_seconds
            state.add_unproposed(record, default.schedule, seconds)
            self.recorder.note(record, measurement)

    def _hold_finals(self, most_seconds: float) -> None:
        leaderboard, budget = self.state.leaderboard, self.budget
        if not leaderboard.fastest_first:
            return

        def remeasure(candidates: Sequence[Candidate], ready: float) -> Sequence[Measurement]:
            seconds = min(most_seconds, max(budget.finals_seconds - ready, 0.0))
            return self._measurer.remeasure(candidates, budget_seconds=seconds)

        self.recorder.log.enter("finals")
        with budget.timing("finals"):
            self.finals, self.failed_finals = leaderboard.hold_finals(
                remeasure, lambda: budget.finals_seconds
            )
        self._database.add_finals(finals_entries(leaderboard, self.finals))
        self.recorder.log.enter("")

    def blame(self, problem: Problem) -> None:
        """Find out which instruction the first wrong result is the fault of, if there is one.

        ``problem`` is what the measurer verifies with. Takes a few seconds at most.
        """
        self.at_fault = first_fault(
            self.state.records, self.state.workload, self._measurer, problem, self.budget.left
        )

    @property
    def unreached(self) -> Sequence[str]:
        """Sides of the unscheduled program's branches on which no results are compared."""
        return self._measurer.unreached

    @property
    def reference_latency(self) -> float:
        """Median latency of the unscheduled program, in seconds: that of the finals, if it was in.

        NaN where the time for the search was over before it was known.
        """
        ranking = () if self.finals is None else self.finals.ranking
        again = [finalist.latency for finalist in ranking if finalist.id == REFERENCE_ID]
        return again[0] if again else self.unscheduled.latency

    def history(self, finished: str) -> RunHistory:
        """Return the history of the run so far; ``finished`` says why it ended."""
        state, blank, entries = self.state, self._blank, list[FinalsEntry]()
        with suppress(DatabaseError):  # the result does without them
            entries = self._database.finals(
                blank.workload_key, blank.target_key, blank.toolchain_key
            )
        return as_history(
            self._run if state.journal is None else state.journal.run,
            state.workload.name,
            list(state.records),
            self.unscheduled.record,
            self.recorder.details,
            entries,
            finished,
            program_text(state.workload),
        )

    # -- where the time went ---------------------------------------------------------------------

    def time_split(self) -> Mapping[str, float]:
        """Return the wall seconds of this call by what they went into."""
        model = self._model_seconds_so_far() - self._model_seconds
        return self.budget.split(self._measured_seconds, model)

    @contextmanager
    def _measuring(self) -> Iterator[None]:
        before = dict(self._measurer.seconds)
        try:
            with self.budget.timing("measure"):
                yield
        finally:
            for part, seconds in self._measurer.seconds.items():
                spent = seconds - before.get(part, 0.0)
                self._measured_seconds[part] = self._measured_seconds.get(part, 0.0) + spent

    def _model_seconds_so_far(self) -> float:
        return self.state.strategy.seconds.get("model", 0.0)
