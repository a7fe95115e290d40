"""Orders that are under way, and their replies: read, and compared with what can be.

``Flight`` is an order that went out. ``read_reply`` reads what came back, and ``Examiner``
compares what the host says with what the driver knows of the task; ``WrongReply`` is a reply that
is not to be believed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from schedlang.database import Record
from schedlang.database.parts import RunPart
from schedlang.errors import HostError, SchedlangError, ordinary, users_code
from schedlang.language.schedule import Trace
from schedlang.targets.roofline import shortest_time
from schedlang.tuning.hosts.messages import (
    FINALS,
    MEASURED,
    GivenOrder,
    HostReply,
    Order,
    what_is_measured,
)
from schedlang.tuning.session import Call, TaskRun
from schedlang.tuning.session.ending import Ending

# -- An order that is under way, and the reply that comes of it -----------------------------------

Examine = Callable[[GivenOrder, HostReply], None]
"""HostError for a reply that is not to be believed, of what is known besides its order."""


@dataclass(eq=False)
class Flight:
    """An order that is under way, and when it was sent to everyone who has it.

    It has ``failed`` so often, of which ``failures`` count. ``copies`` of it were sent as it was
    late. Hosts that it ``avoids`` have sent a wrong reply; they are ``forgiven`` once, where nobody
    else takes it.
    """

    order: GivenOrder
    packed: bytes
    began: float
    sent: float = 0.0
    failures: float = 0.0
    failed: int = 0
    failed_by: list[str] = field(default_factory=list)
    futures: dict[Future[bytes], float] = field(default_factory=dict)
    copies: int = 0
    avoids: dict[str, None] = field(default_factory=dict)
    forgiven: bool = False

    def avoid(self, name: str, known: Iterable[str]) -> None:
        """Keep the order from a host, if others are ``known``."""
        if name and {*known} - {name, *self.avoids} and not self.forgiven:
            self.avoids[name] = None

    def forgive(self) -> None:
        """Let all hosts have the order: there are no others."""
        self.avoids, self.forgiven = {}, True


class WrongReply(HostError):
    """A reply that is not to be believed; ``host`` is the name in it, if that can be read."""


def read_reply(
    future: Future[bytes], order: GivenOrder, seconds: float, examine: Examine | None
) -> HostReply:
    """Return the reply of a future that is done, to an order that went out so long ago.

    WrongReply for one that is not to be believed; any other Exception where there is none.
    """
    with users_code("the engine"):
        if future.cancelled():
            raise HostError("the engine has cancelled it")
        raised = future.exception()
        message = future.result() if raised is None else b""
    if raised is not None:  # Ctrl-C on a host, too, does not interrupt this process
        raise ordinary(raised, "a host")
    name = ""
    try:
        reply = HostReply.unpack(message)
        name = reply.name
        reply.check(order, seconds)
        if examine is not None and reply.how == MEASURED:
            examine(order, reply)
        return reply
    except Exception as error:  # such as that of an instruction in the trace of a winner
        raise WrongReply(str(error), name or getattr(error, "host", "")) from error


def cancel(future: Future[bytes]) -> None:
    """Cancel what is under way, as far as the engine can."""
    with suppress(Exception), users_code("the engine"):
        future.cancel()


# -- Whether a reply can be -----------------------------------------------------------------------

# A winner that is this many times as fast as what other hosts have measured is timed by another.
_TOO_FAST = 2.0


def check_arithmetic(samples: Iterable[float], shortest: float) -> None:
    """HostError for a sample below the seconds that the program's arithmetic takes."""
    if (least := min(samples, default=math.inf)) < shortest:
        raise HostError(
            f"a call took {least:.3g} s, and its arithmetic takes this target more than "
            f"{shortest:.3g} s"
        )


class WinnerDoubt:
    """Doubts a winner, once, that is much faster than what other hosts have measured."""

    def __init__(self) -> None:
        self._doubted = False

    def examine(self, latency: float, elsewhere: float) -> None:
        """HostError for a winner to doubt; ``elsewhere`` is the fastest of others, or NaN."""
        if not self._doubted and latency * _TOO_FAST < elsewhere:
            self._doubted = True
            raise HostError(
                f"its winner takes {latency:.3g} s, less than half of what other hosts have "
                "measured: another one times it as well"
            )


class Examiner:
    """Examines the replies to the orders of one task.

    Parameters
    ----------
    run: of the task.
    call: of the session.
    own: whether hosts measure with the target's own measurer, which compares results as the call
        says, and believes no latency that is shorter than the program's arithmetic.
    """

    def __init__(self, run: TaskRun, call: Call, *, own: bool) -> None:
        self._run, self._call, self._own = run, call, own
        self._doubt = WinnerDoubt()

    def examine(self, order: Order, reply: HostReply, stored: Collection[int | str]) -> None:
        """HostError for a reply that says what cannot be.

        ``stored`` is what the database has the run's records of (``what_is_measured``).
        """
        part = reply.part
        assert part is not None
        measured = {*map(what_is_measured, part.records)}
        if not reply.again and not measured.isdisjoint(stored):
            raise HostError("it has measured what a record is stored of")
        ending = Ending.from_json(part.run.outcome) if order.what == FINALS else None
        if self._own:
            self._examine_own(reply, part, ending)
        if ending is not None:
            self._examine_winner(reply, part, ending)

    def _examine_own(self, reply: HostReply, part: RunPart, ending: Ending | None) -> None:
        """HostError for what the target's own measurer does not say."""
        if not reply.verified and self._call.measuring.verified is not False:
            raise HostError("it has not compared results, and the call says to")
        records = [one for one in part.records if one.ok and not one.unscheduled]
        timed: list[Sequence[float]] = [one.samples for one in records]
        timed += [one.samples for one in part.finals]
        timed += [] if ending is None else ending.finals.values()
        check_arithmetic(chain.from_iterable(timed), self._shortest)

    @cached_property
    def _shortest(self) -> float:
        """Seconds below which no latency of a candidate is believed."""
        return shortest_time(self._run.task.workload, self._call.target)

    def _examine_winner(self, reply: HostReply, part: RunPart, ending: Ending) -> None:
        """HostError for a winner that is none, or too fast to be believed of one host."""
        if ending.winner is None:
            return
        records = self._run.records
        record = self._winner(part, ending.winner, records)
        if not self._run.that_may_win([record]):
            raise HostError("its winner has no latency, or was not verified")
        if record.unscheduled:
            return
        try:
            found = Trace.from_json(ending.trace, self._run.task.workload).replay()
        except SchedlangError as error:
            raise HostError(f"the trace of its winner is none: {error}") from error
        if found.program_key != record.program_key:
            raise HostError("its winner is another program than was measured")
        entry = next((one for one in part.finals if one.record_id == ending.winner), record)
        latency = min([entry.latency, *map(statistics.median, ending.finals.values())])
        elsewhere = [one for one in records if one.provenance.get("host") != reply.name]
        self._doubt.examine(latency, self._run.best_of(elsewhere))

    def _winner(self, part: RunPart, number: int, records: Sequence[Record]) -> Record:
        if number < 0:
            return part.records[-1 - number]
        known = next((one for one in records if one.id == number), None)
        return known or self._call.database.get([number])[0]
