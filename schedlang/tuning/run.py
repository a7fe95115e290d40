"""One tuning run: ask, measure, tell, and write down what was measured as it comes."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from schedlang.database import Database, Record
from schedlang.errors import SchedlangError
from schedlang.measurement import Candidate, Measurement, Measurer
from schedlang.measurement.finals import Finals
from schedlang.search import Outcome, Proposal, Strategy
from schedlang.targets import LocalCPU
from schedlang.targets.measure.verify_policy import Verify
from schedlang.tuning.budget import Clock
from schedlang.tuning.leaderboard import Leaders
from schedlang.tuning.progress import ProgressBar
from schedlang.tuning.records import as_measurement, as_record
from schedlang.tuning.resume.journal import Journal
from schedlang.tuning.warm_start.measurement_cache import Known
from schedlang.workloads.workload import Workload

FINALS_SECONDS = 5.0
# With a wall-clock budget, before it is known how long a candidate takes.
_FIRST_BATCH = 8


class TuningRun:
    """Asks a search, has its proposals measured, and keeps the records and the fastest of them.

    Parameters
    ----------
    like: what all records of the run have in common.
    strategy: the search, not used yet; make_strategy: makes another one like it.
    database: where records go.
    clock: wall time and its budget.
    finalists: how many of the fastest are kept.
    verified: as ``verify`` of ``tune``; unless False, only candidates can win whose results were
        compared.
    reuse: programs that other runs measured need not be measured again.

    Attributes
    ----------
    journal: what is written down to go on with; None when nothing is.
    strategy, leaders: the search, and the fastest it found.
    records: in the order in which the search was told of them, those of earlier calls first.
    earlier: how many of them were not measured in this call.
    out_of_time: the wall-clock budget ended the search.
    unfinished: proposals of which not all were measured when an earlier call ended.
    """

    def __init__(
        self,
        workload: Workload,
        like: Record,
        strategy: Strategy,
        make_strategy: Callable[[], Strategy],
        database: Database,
        clock: Clock,
        *,
        finalists: int,
        verified: Verify,
        reuse: bool,
    ) -> None:
        self.workload = workload
        self.like = like
        self.database = database
        self.clock = clock
        self.verified = verified
        self.journal: Journal | None = None
        self.finals: Finals | None = None
        self.failed_finals: Counter[str] = Counter()
        self.out_of_time = False
        self._make_strategy = make_strategy
        self._finalists = finalists
        self._reuse = reuse
        self._known: Known | None = None
        self._reference_latency: float | None = None
        self._model_seconds = 0.0
        self.begin(strategy)

    # -- going on: see resuming.py ---------------------------------------------------------------

    def begin(self, strategy: Strategy) -> None:
        """With a search that was asked nothing yet."""
        self.strategy = strategy
        self.leaders = Leaders(self._finalists, verified=self.verified is not False)
        self.records: list[Record] = []
        self.earlier = 0
        self.unfinished: list[Proposal] = []

    def another_strategy(self) -> Strategy:
        """A search that was asked nothing yet."""
        made = self._make_strategy()
        if made is self.strategy:
            raise SchedlangError(
                f"this {made.name!r} cannot go on with the run that the database has of it; give "
                "tune its class or a function that makes it, instead of the strategy itself"
            )
        return made

    def write_to(self, journal: Journal) -> None:
        """Keep everything there."""
        self.journal = journal
        self.like = dataclasses.replace(self.like, run_id=journal.id)
        self._known = Known(
            self.database, journal, self.like, verified=self.verified, reuse=self._reuse
        )

    def release(self) -> None:
        """Let other processes have the run."""
        if self.journal is not None:
            self.journal.release()

    def find_known(self, proposals: Sequence[Proposal]) -> dict[int, Record]:
        """Records of proposals that need no measuring, by the proposal's id."""
        return {} if self._known is None else self._known.of(proposals, self.leaders)

    def count(self, record: Record, proposal: Proposal) -> Outcome:
        """Take in a record of an earlier call or of another run, and what to tell of it."""
        self.records.append(record)
        self.earlier += 1
        self.leaders.add(record, proposal.schedule)
        return Outcome(proposal.id, as_measurement(record, proposal.id))

    # -- searching -------------------------------------------------------------------------------

    def search(
        self, measurer: Measurer, trials: int | None, batch: int, bar: ProgressBar, *, finals: bool
    ) -> str:
        """Ask, measure and tell until trials or time are used up; says why it ended."""
        deadline = self.clock.search_deadline(finals)
        if self.clock.limited:
            # It is part of the result: better to know how long it takes than to be late.
            with _stopping_at(deadline, measurer):
                self.reference_latency(measurer)
        self._model_seconds = self.strategy.seconds.get("model", 0.0)
        while trials is None or len(self.records) < trials:
            left = deadline - time.monotonic()
            if left <= 0:
                self.out_of_time = True
                early = " before a worker was ready" if self._nothing_started else ""
                return f"{self.clock.seconds:g} s are over{early}"
            proposals = self._take_unfinished(trials)
            if not proposals:
                wanted = batch if trials is None else min(batch, trials - len(self.records))
                if self.clock.limited:
                    wanted = min(wanted, self._fit(left))
                used = self.clock.used
                with self.clock.timing("search"):
                    proposals = self.strategy.ask(wanted)
                if not proposals:
                    return self.strategy.finished or "the search proposed nothing"
                if self.journal is not None:
                    self.journal.note(wanted, used)
            with self.clock.timing("measure"):
                outcomes = list(self._measure(measurer, proposals, deadline, bar))
            with self.clock.timing("search"):
                self.strategy.tell(outcomes)
            # What was not measured in time is pending: only asking again can take that up.
            if self.journal is not None and len(outcomes) == len(proposals):
                self.journal.save(self.strategy, self.records, self.leaders)
        return f"{trials} trials"

    def _take_unfinished(self, trials: int | None) -> list[Proposal]:
        """What is left of an earlier call's last batch, without what would be too many."""
        proposals, self.unfinished = self.unfinished, []
        room = math.inf if trials is None else trials - len(self.records)
        if len(proposals) <= room:
            return proposals
        known = self.find_known(proposals)
        ordered = sorted(proposals, key=lambda one: one.id not in known)
        return ordered[: int(max(room, len(known)))]

    def _fit(self, left: float) -> int:
        """How many candidates can be measured in so many seconds, as far as is known."""
        measured = len(self.records) - self.earlier
        return max(1, int(left / self.clock.elapsed * measured)) if measured else _FIRST_BATCH

    def _measure(
        self, measurer: Measurer, proposals: Sequence[Proposal], deadline: float, bar: ProgressBar
    ) -> Iterator[Outcome]:
        """Measure what is not known and write it down, until the deadline."""
        known = self.find_known(proposals)
        by_id = {proposal.id: proposal for proposal in proposals}
        for number, record in known.items():
            outcome = self.count(record, by_id[number])
            bar.update(outcome.measurement, len(self.strategy.rejections), self.strategy.report)
            yield outcome
        candidates = [Candidate(p.id, p.schedule.mod) for p in proposals if p.id not in known]
        if not candidates:
            return
        with _stopping_at(deadline, measurer):
            for measurement in measurer.measure(candidates):
                self._keep(by_id[measurement.id], measurement)
                bar.update(measurement, len(self.strategy.rejections), self.strategy.report)
                yield Outcome(measurement.id, measurement)
                if time.monotonic() >= deadline:
                    return

    def _keep(self, proposal: Proposal, measurement: Measurement) -> None:
        record = as_record(self.like, proposal.schedule, measurement, proposal.id)
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

    # -- what it comes to ------------------------------------------------------------------------

    def count_rejected(self) -> Counter[str]:
        """Traces that did not become candidates and candidates that failed, by reason."""
        rejected = Counter(rejection.reason for rejection in self.strategy.rejections)
        rejected.update(str(record.status) for record in self.records if not record.ok)
        rejected.update(self.failed_finals)
        return rejected

    def culprits(self) -> list[tuple[str, int]]:
        """The sites and instructions that caused most rejections, most first."""
        return _most_common(r.where for r in self.strategy.rejections if r.where)

    def time_split(self, measurer: Measurer) -> Mapping[str, float]:
        """Wall seconds by what they went into."""
        measured = dict(measurer.seconds) if isinstance(measurer, LocalCPU) else {}
        # Bringing the search to where an earlier call ended is not in its time either.
        model = self.strategy.seconds.get("model", 0.0) - self._model_seconds
        return self.clock.split(measured, model)

    @property
    def _nothing_started(self) -> bool:
        return self._reference_latency is not None and math.isnan(self._reference_latency)

    def reference_latency(self, measurer: Measurer) -> float:
        """Of the unscheduled program, as ``TuneResult`` has it."""
        if self._reference_latency is None:
            self._reference_latency = measurer.reference_latency
        return self._reference_latency


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
