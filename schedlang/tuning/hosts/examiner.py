"""Whether a reply can be: what its host says is compared with what the driver knows of the task."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from schedlang.database import Record
from schedlang.database.parts import RunPart
from schedlang.errors import HostError, SchedlangError
from schedlang.language.schedule import Trace
from schedlang.targets.roofline import shortest_time
from schedlang.tuning.hosts.hosted_run import HostedRun
from schedlang.tuning.hosts.messages import FINALS, Order, Reply, what_is_measured
from schedlang.tuning.resume.ending import Ending
from schedlang.tuning.session import Call

# A winner that is this many times as fast as what other hosts have measured is timed by another.
_TOO_FAST = 2.0


class Examiner:
    """Examines the replies to the orders of one task.

    Parameters
    ----------
    first: the run that ends with the result.
    call: of the session.
    own: whether hosts measure with the target's own measurer, which compares results as the call
        says, and believes no latency that is shorter than the program's arithmetic.
    """

    def __init__(self, first: HostedRun, call: Call, *, own: bool) -> None:
        self._first, self._call, self._own = first, call, own
        self._doubted = False

    def examine(
        self, order: Order, reply: Reply, run: HostedRun, records: Sequence[Record]
    ) -> None:
        """HostError for a reply that says what cannot be.

        ``run`` is that of the order; ``records`` are those of the task so far.
        """
        part = reply.part
        assert part is not None
        stored = set() if reply.again else run.stored_of
        if not stored.isdisjoint(map(what_is_measured, part.records)):
            raise HostError("it has measured what a record is stored of")
        ending = Ending.from_json(part.run.outcome) if order.what == FINALS else None
        if self._own:
            self._examine_own(reply, part, ending)
        if ending is not None:
            self._examine_winner(reply, part, ending, records)

    def _examine_own(self, reply: Reply, part: RunPart, ending: Ending | None) -> None:
        """HostError for what the target's own measurer does not say."""
        if not reply.verified and self._call.measuring.verified is not False:
            raise HostError("it has not compared results, and the call says to")
        records = [one for one in part.records if one.ok and not one.unscheduled]
        timed: list[Sequence[float]] = [one.samples for one in records]
        timed += [one.samples for one in part.finals]
        timed += [] if ending is None else ending.finals.values()
        least = min(chain.from_iterable(timed), default=math.inf)
        if least < self._shortest:
            raise HostError(
                f"a call took {least:.3g} s, and its arithmetic takes this target more than "
                f"{self._shortest:.3g} s"
            )

    @cached_property
    def _shortest(self) -> float:
        """Seconds below which no latency of a candidate is believed."""
        return shortest_time(self._first.task.workload, self._call.target)

    def _examine_winner(
        self, reply: Reply, part: RunPart, ending: Ending, records: Sequence[Record]
    ) -> None:
        """HostError for a winner that is none, or too fast to be believed of one host."""
        if ending.winner is None:
            return
        record = self._winner(part, ending.winner, records)
        if not self._first.that_may_win([record]):
            raise HostError("its winner has no latency, or was not verified")
        if record.unscheduled:
            return
        try:
            found = Trace.from_json(ending.trace, self._first.task.workload).replay()
        except SchedlangError as error:
            raise HostError(f"the trace of its winner is none: {error}") from error
        if found.program_key != record.program_key:
            raise HostError("its winner is another program than was measured")
        entry = next((one for one in part.finals if one.record_id == ending.winner), record)
        latency = min([entry.latency, *map(statistics.median, ending.finals.values())])
        elsewhere = [one for one in records if one.provenance.get("host") != reply.name]
        if not self._doubted and latency * _TOO_FAST < self._first.best_of(elsewhere):
            self._doubted = True
            raise HostError(
                f"its winner takes {latency:.3g} s, less than half of what other hosts have "
                "measured: another one times it as well"
            )

    def _winner(self, part: RunPart, number: int, records: Sequence[Record]) -> Record:
        if number < 0:
            return part.records[-1 - number]
        known = next((one for one in records if one.id == number), None)
        return known or self._call.database.get([number])[0]
