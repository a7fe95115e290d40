"""What became fast for one shape, tried on shapes near it that take longer than they should."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from schedlang.database import Database
from schedlang.database.programs import Unreadable, replayed
from schedlang.language.schedule import Trace
from schedlang.measurement import Candidate, Measurer
from schedlang.shapes.scheduler import Expectation
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.lookup.leads import leads_of_kin
from schedlang.tuning.records import as_record, blank_record
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.workloads.workload import Workload

# What its records name as their search.
_SEARCH = "exchange"
# A shape that takes this much longer than expected is tried with what is fast for others, with so
# many schedules at a time.
_BEHIND = 1.07
_AT_ONCE = 4


@dataclass(frozen=True)
class Known:
    """The best program of a shape that is known.

    Attributes
    ----------
    trace: makes it; empty for the unscheduled program.
    latency: in seconds.
    trials: candidates that were measured for the shape.
    """

    trace: Trace
    latency: float
    trials: int


class Exchange:
    """Carries fast programs to shapes that are behind; measures, verifies and stores them.

    The first slices of shapes saw what was known at their time only.

    Parameters
    ----------
    workloads: of the shapes.
    target: the machine.
    database: has the records of all shapes, and gets more.
    bind: returns a measurer of a workload, which verifies every result.
    room: number of measurements, at most, those of earlier calls included.
    out_of_time: says whether to end.
    """

    def __init__(
        self,
        workloads: Sequence[Workload],
        target: Target,
        database: Database,
        bind: Callable[[Workload], Measurer],
        room: int,
        out_of_time: Callable[[], bool],
    ) -> None:
        self._workloads, self._target, self._database = workloads, target, database
        self._bind = bind
        self._room = room
        self._out_of_time = out_of_time

    def run(self, found: dict[int, Known], expectation: Expectation) -> None:
        """Put better programs in place of those known, until nothing helps or the room is used.

        ``found`` has those of each shape by its place; those of earlier calls come first.
        """
        for place, one in found.items():
            found[place] = self._earlier(place, one)
        while True:
            latencies = np.full(len(self._workloads), np.inf)
            for place, one in found.items():
                latencies[place] = one.latency
            behind = latencies / expectation.of(latencies)
            order = sorted(found, key=lambda place: -behind[place])
            gained = False
            for place in (place for place in order if behind[place] > _BEHIND):
                if self._out_of_time():
                    return
                better = self._tried(place, found[place])
                gained |= better.latency < found[place].latency
                found[place] = better
            if not gained:
                return

    def _earlier(self, place: int, known: Known) -> Known:
        """Return the best program of a shape with what earlier calls exchanged."""
        workload = self._workloads[place]
        records = self._database.query(workload.key, self._target.key, toolchain_key())
        own = [one for one in records if one.search == _SEARCH]
        self._room -= len(own)
        best = replace(known, trials=known.trials + len(own))
        usable = [one for one in own if one.ok and one.verified and one.latency < best.latency]
        for record in sorted(usable, key=lambda one: one.latency):
            schedule = replayed(record, workload)
            if schedule is not None:
                return replace(best, trace=schedule.trace, latency=record.latency)
        return best

    def _tried(self, place: int, known: Known) -> Known:
        """Return the best program of a shape after trying those of its neighbours."""
        workload = self._workloads[place]
        if only_moves_data(workload.func):
            return known
        found = leads_of_kin(workload, self._target, self._database, Unreadable())
        room = min(_AT_ONCE, max(self._room, 0))
        proposals = [lead.proposal for lead in islice(found, room)]
        blank = blank_record(workload, self._target, _SEARCH, None)
        candidates = [Candidate.of(one.schedule, one.id, one.program_key) for one in proposals]
        best = replace(known, trials=known.trials + len(candidates))
        self._room -= len(candidates)
        for measurement in self._bind(workload).measure(candidates) if candidates else ():
            proposal = proposals[measurement.id]
            record = replace(as_record(blank, proposal, measurement), proposal=None)
            self._database.append([record])
            if record.ok and record.verified and record.latency < best.latency:
                best = replace(best, trace=proposal.trace, latency=record.latency)
        return best
