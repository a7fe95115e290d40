"""The run of one task, which measures in slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property

from schedlang.database import Record
from schedlang.errors import SpaceError, WorkloadError
from schedlang.language.schedule import Trace
from schedlang.measurement import Status
from schedlang.networks.tuning.settings import Settings
from schedlang.networks.tuning.shared_tasks import SharedTask
from schedlang.search import Strategy
from schedlang.search.tasks import TaskProgress
from schedlang.spaces.space import Space
from schedlang.tuning.arguments import search_identity
from schedlang.tuning.callbacks import Watch
from schedlang.tuning.conclusion import ending_of, result_of, stored_result
from schedlang.tuning.defaults import default_schedule
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.live import Progress
from schedlang.tuning.options import TUNE_NETWORK
from schedlang.tuning.records import blank_record
from schedlang.tuning.result import TuneResult
from schedlang.tuning.resume import Journal, RunState, resume
from schedlang.tuning.resume.ending import Ending
from schedlang.tuning.resume.opening import journal_of, run_identity
from schedlang.tuning.run import TuningRun
from schedlang.tuning.warm_start import WarmStart

MOVING_TRIALS = 2
"""Most trials of a task that computes nothing: its space holds hardly more."""


class TaskRun:
    """The run of one task: opened at its first slice, continued at each, concluded once.

    What earlier calls of the run measured comes first: slices of it measure nothing, and the
    history after each is what it was then.

    Parameters
    ----------
    shared: the task.
    settings: of the call.
    stack: closes what the run opens.

    Attributes
    ----------
    trials: number of candidates in the slices so far, those of earlier calls included.
    history: trials so far and best latency in seconds, after each slice.
    finished: why the search has ended; empty while it has not.
    failed: why the task cannot be tuned; empty if it can.
    """

    def __init__(self, shared: SharedTask, settings: Settings, stack: ExitStack) -> None:
        self.shared = shared
        self._settings = settings
        self._stack = stack
        self.trials = 0
        self.history: list[tuple[int, float]] = []
        self.finished = ""
        self.failed = ""
        self._journal: Journal | None = None
        self._ending: Ending | None = None
        self._run: TuningRun | None = None
        self._earlier: Sequence[Record] = ()
        self._unscheduled = math.nan

    # -- what is known ---------------------------------------------------------------------------

    @property
    def progress(self) -> TaskProgress:
        """What a scheduler knows of it."""
        task = self.shared.task
        return TaskProgress(
            weights=self.shared.weights,
            flops=task.flops,
            kin=task.workload.kin_key,
            trials=self.trials,
            latencies=tuple(self.history),
            default=self._unscheduled,
            most=MOVING_TRIALS if task.moves_data else None,
            finished=bool(self.finished or self.failed),
        )

    @property
    def latency(self) -> float:
        """The lowest latency known, in seconds; NaN if none is."""
        return self.progress.latency

    @property
    def seconds(self) -> float:
        """Wall time that the calls of this run had used when it was last asked."""
        run = self._settings.database.find_run(self._identity)
        if run is None or run.id is None or self._settings.remeasure:
            return 0.0
        asks = self._settings.database.asks(run.id)
        asked = asks[-1].seconds if asks else 0.0
        return max(asked, Ending.from_json(run.outcome).seconds if run.outcome else 0.0)

    # -- slices ----------------------------------------------------------------------------------

    def advance(self, trials: int, progress: Progress) -> bool:
        """Take a slice of this many trials; return whether anything was measured.

        A program that cannot be tuned sets ``failed``; other errors are raised.
        """
        wanted = self.trials + trials
        measured = False
        try:
            self._open()
            if self._stored_trials < wanted and not self._exhausted:
                measured = self._search(wanted, progress)
        except (WorkloadError, SpaceError) as error:
            # Nobody wrote the program by hand, so what its writer could do is left out.
            said = error.reason if isinstance(error, WorkloadError) else str(error)
            self.failed = (said.strip().splitlines() or [type(error).__name__])[0]
        finally:
            self.trials = min(wanted, self._stored_trials)
            self.history.append((self.trials, self._best_of(self.trials)))
        out_of_time = self._run is not None and self._run.out_of_time
        if not self.failed and self._stored_trials < wanted and not out_of_time:
            self.finished = self.finished or "the search has nothing left"
        return measured

    def _search(self, wanted: int, progress: Progress) -> bool:
        run = self._resumed()
        before = len(run.state.records)
        settings = self._settings
        settings.bind(self.shared.task.workload)
        known = self._best_of(math.inf)
        settings.measurer.best_so_far = known if math.isfinite(known) else None
        why = run.search(wanted, settings.batch, progress)
        self._unscheduled = run.unscheduled.latency
        if run.state.trials < wanted and not run.out_of_time:
            self.finished = why
        return len(run.state.records) > before

    @property
    def _records(self) -> Sequence[Record]:
        return self._earlier if self._run is None else self._run.state.records

    @property
    def _stored_trials(self) -> int:
        return sum(record.status is not Status.REJECTED for record in self._records)

    @property
    def _exhausted(self) -> bool:
        ending = self._ending
        if self._run is not None or ending is None:
            return False
        return ending.exhausted or self._settings.steps.ended(ending)

    def _best_of(self, trials: float) -> float:
        """Return the best latency of the first ``trials`` candidates; NaN without any."""
        best, count = math.nan, 0
        for record in self._records:
            count += record.status is not Status.REJECTED
            if count > trials:
                break
            if record.ok and (record.verified or self._settings.verified is False):
                best = record.latency if math.isnan(best) else min(best, record.latency)
        return best

    # -- the run in the database -----------------------------------------------------------------

    @cached_property
    def _space(self) -> Space:
        settings = self._settings
        moves = self.shared.task.moves_data
        return settings.target.movement_space() if moves else settings.space

    @cached_property
    def _default(self) -> Trace:
        """What the task runs with where nothing is measured: the first candidate."""
        workload = self.shared.task.workload
        return default_schedule(workload, self._settings.target, space=self._space).trace

    def _make_strategy(self) -> Strategy:
        strategy = self._settings.make_search(self._space, self.shared.task.workload)
        if len(self._default):
            strategy.suggest([self._default])
        return strategy

    @cached_property
    def _identity(self) -> str:
        settings, workload = self._settings, self.shared.task.workload
        search = settings.make_search(self._space, workload)
        return run_identity(
            *(workload, settings.target, TUNE_NETWORK),
            network="network",
            space=self._space,
            seed=settings.seed,
            verify=str(settings.verify),
            transfer=settings.transfer,
            search=search_identity(settings.search, search),
            measurer=settings.measurer_identity,
        )

    def _open(self) -> None:
        """Open the journal; where the run had ended, its records are all that is read."""
        if self._journal is not None:
            return
        settings, workload = self._settings, self.shared.task.workload
        search = settings.make_search(self._space, workload)
        self._blank = blank_record(workload, settings.target, search.name, settings.seed)
        self._past = WarmStart(
            settings.database,
            workload,
            self._blank,
            settings.verified,
            transfer=settings.transfer,
            reuse=not settings.remeasure,
        )
        self._journal = self._stack.enter_context(
            journal_of(
                settings.database,
                workload,
                self._blank,
                self._identity,
                self._past,
                anew=settings.remeasure,
            )
        )
        self._journal.describe(settings.notes, settings.tags)
        self._ending = self._journal.ending
        if self._ending is not None:
            self._earlier = self._journal.records(self._ending.records)
            if self._ending.unscheduled is not None:
                [unscheduled] = self._journal.records([self._ending.unscheduled])
                self._unscheduled = unscheduled.latency
        elif not self._journal.is_new:
            run = self._resumed()
            known = run.state.find_unscheduled()
            self._unscheduled = math.nan if known is None else known.latency

    def _resumed(self) -> TuningRun:
        """Return the run, brought to the state in which earlier calls left it."""
        if self._run is None:
            settings, workload = self._settings, self.shared.task.workload
            verified = settings.verified is not False
            leaderboard = Leaderboard(max(settings.finals, 1), verified=verified)
            fresh = RunState(
                workload, self._make_strategy(), leaderboard, self._journal, self._past
            )
            state = resume(fresh, self._make_strategy)
            self._run = TuningRun(
                state,
                self._blank,
                settings.database,
                settings.measurer,
                settings.budget,
                Watch(settings.steps, state, settings.target, settings.budget),
                finals=settings.finals > 0,
            )
        return self._run

    # -- the end ---------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether this call continued it, so that it needs an ending."""
        return self._run is not None and not self.failed

    def conclude(self, finals_seconds: float) -> None:
        """Hold the finals; their samples take this many seconds at most."""
        assert self._run is not None
        self._settings.bind(self.shared.task.workload)
        self._run.conclude(finals_seconds)

    def result(self, finished: str) -> TuneResult | None:
        """Return the result so far; None where nothing was opened or the task failed."""
        target, workload = self._settings.target, self.shared.task.workload
        if self._run is not None and not self.failed:
            self._run.unscheduled.enter()
            return result_of(self._run, target, self.finished or finished)
        if self._journal is not None and self._ending is not None:
            return stored_result(
                workload, target, self._journal, self._ending, self._settings.budget
            )
        return None

    def store(self, result: TuneResult) -> None:
        """Keep how the run ended in the database."""
        if self._run is not None and self._journal is not None:
            self._journal.finish(ending_of(self._run, result))
