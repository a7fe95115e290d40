"""An order to a host, and its reply.

An order goes out with all that it needs: the call, the program, the run so far. So any host can
take it, and may be given it again. A reply comes back as data: rows of a database, which are
checked as those of a file are. What a user wrote travels outward only, pickled.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Protocol, Self

from schedlang.codec import Stored, decode, encode
from schedlang.database.parts import RunPart, records_from_json
from schedlang.database.record import FinalsEntry, Record
from schedlang.database.run import Ask, Run, is_readable, mentioned
from schedlang.errors import DatabaseError, HostError
from schedlang.interpreters.stored_trace import BEGINNING
from schedlang.measurement.clock import WORKERS_OF_A_HOST
from schedlang.tuning.hosts.frames import deflate, inflate, pack, printable, unpack
from schedlang.tuning.session.ending import Ending

# Characters of a host's name, and bytes of what is new of a run; its state may be longer.
_LONGEST_NAME, LONGEST_PART = 200, 1 << 26
_LONGEST_MESSAGE = 8192
# Seconds below which no sample is a latency, whatever the program is.
_SHORTEST = 1e-10
# Proposals that a search is asked for at most at one time.
_LARGEST_ASK = 1 << 16
# Seconds by which the clocks of two machines may differ, and by which they may tell a day.
_CLOCKS, _DAY = 60.0, 86_400.0

SEARCH, FINALS = "search", "finals"
MEASURED, UNTUNABLE, REFUSED, FAILED = "measured", "untunable", "refused", "failed"
"""How an order ended: as it should; its program cannot be tuned; by a host that is another machine
than the call is for, or is set apart; by an error in the call's own code."""


class GivenOrder(Protocol):
    """What a host is to do: an ``Order`` of a slice, or a ``Batch`` of programs to measure."""

    @property
    def serial(self) -> int:
        """Tells the reply to it from others."""

    @property
    def what(self) -> str:
        """What kind it is of."""

    @property
    def task_key(self) -> str:
        """Key of the workload."""

    @property
    def size(self) -> int:
        """What it takes grows with this."""

    @property
    def used(self) -> float:
        """Seconds that the call has used so far."""

    @property
    def apart(self) -> Sequence[str]:
        """Names of hosts that should not take it."""

    def kept_from(self, names: Sequence[str]) -> Self:
        """Return it as one that hosts of these names refuse."""

    def pack(self) -> bytes:
        """Return it as bytes."""

    def check(self, reply: HostReply) -> None:
        """ValueError, TypeError, KeyError or DatabaseError for what is no reply to it."""


@Stored("run", "ids", row=True)
@dataclass(frozen=True)
class Block:
    """Records as they came from a host, or as ``records_to_json`` wrote them.

    Attributes
    ----------
    run: the run that measured them, by its id in the driver's database; 0 for none that matters.
    ids: of the records in the driver's database, in their order.
    frame: the records, deflated; the ids in it do not count.
    """

    run: int
    ids: Sequence[int]
    frame: bytes = field(repr=False)

    def records(self) -> list[Record]:
        """Return the records with the driver's ids."""
        found = records_from_json(inflate(self.frame))
        if len(found) != len(self.ids):
            raise HostError("a block of records with another number of ids")
        return [replace(one, id=number) for one, number in zip(found, self.ids, strict=True)]


@Stored("new", "asks", row=True)
@dataclass(frozen=True)
class State:
    """The state of a search as a host saved it.

    Attributes
    ----------
    frame: ``Run.state``, deflated; empty for none.
    new: ids in the driver's database of the records that the state calls -1, -2, ...
    asks: as ``Run.state_asks``.
    """

    frame: bytes = field(default=b"", repr=False)
    new: Sequence[int] = ()
    asks: int = 0

    @property
    def ids(self) -> dict[int, int]:
        """The driver's ids of records that were new when it was saved."""
        return {-1 - place: number for place, number in enumerate(self.new)}


@Stored(
    *("serial", "what", "after", "latest", "trials", "seconds", "used", "finals_seconds"),
    *("finished", "apart", "python", "toolchain", "run", "asks", "state", "blocks"),
    complete=True,
)
@dataclass(frozen=True)
class Order:
    """What a host is to do with one run.

    Attributes
    ----------
    serial: tells the reply to it from others.
    what: ``SEARCH`` or ``FINALS``.
    call: what all orders of a call have in common, pickled.
    task: what all orders of a task have in common, deflated JSON.
    run: as the driver's database has it, without its state.
    asks: of it, in order.
    after: token of the reply that came before; empty where this is the call's first order of the
        run.
    latest: ids of the records of that reply.
    state: of its search.
    blocks: records of it, and of other runs that are known: their programs need no measuring.
    trials: number of trials of the slice.
    seconds: after which no batch of the slice begins, or None.
    used: seconds that the call has used so far.
    finals_seconds: of the samples of finals.
    finished: why the search ended, for the result.
    apart: names of hosts that should not take it.
    python, toolchain: versions: what is pickled is for that Python alone, and latencies do not
        compare between toolchains.
    programs: other programs that blocks have records of, as ``task``.
    """

    serial: int
    what: str
    call: bytes = field(repr=False)
    task: bytes = field(repr=False)
    run: Run
    asks: Sequence[Ask] = ()
    after: str = ""
    latest: Sequence[int] = ()
    state: State = State()
    blocks: Sequence[Block] = ()
    trials: int = 0
    seconds: float | None = None
    used: float = 0.0
    finals_seconds: float | None = None
    finished: str = ""
    apart: Sequence[str] = ()
    python: str = platform.python_version().rpartition(".")[0]
    toolchain: str = ""
    programs: Sequence[bytes] = ()

    @property
    def task_key(self) -> str:
        """Key of the workload."""
        return self.run.workload_key

    @property
    def size(self) -> int:
        """Number of trials of a slice; 1 for finals."""
        return max(self.trials, 1)

    def kept_from(self, names: Sequence[str]) -> Self:
        """Return it as one that hosts of these names refuse."""
        return replace(self, apart=names)

    def pack(self) -> bytes:
        """Return it as bytes."""
        header = encode(replace(self, run=replace(self.run, state="")))
        blocks = [block.frame for block in self.blocks]
        return pack(header, [self.call, self.task, self.state.frame, *blocks, *self.programs])

    @classmethod
    def unpack(cls, message: bytes) -> Order:
        """Read what ``pack`` returned; HostError for anything else."""
        return cls.of(*unpack(message))

    @classmethod
    def of(cls, header: Mapping[str, Any], frames: Sequence[bytes]) -> Order:
        """Return the order of a message; HostError where it is none."""
        try:
            call, task, state, *others = frames
            listed = decode(list[list[Any]], header["blocks"])
            return decode(
                cls,
                header,
                call=call,
                task=task,
                state=decode(State, header["state"], frame=state),
                blocks=[
                    decode(Block, one, frame=frame)
                    for one, frame in zip(listed, others, strict=False)
                ],
                programs=others[len(listed) :],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise HostError(f"this is no order: {error!r:.200}") from error

    def check(self, reply: HostReply) -> None:
        """ValueError, TypeError, KeyError or DatabaseError for what is no reply to it."""
        part, run = reply.part, self.run
        if part is None:
            raise ValueError("it has no part of the run")
        keys = run.workload_key, run.target_key, run.toolchain_key
        found = {(one.workload_key, one.target_key, one.toolchain_key) for one in part.records}
        if found - {keys}:
            raise ValueError("a record of another program, machine or toolchain")
        _check_records(part.records)
        new = {-1 - place for place in range(len(part.records))}
        known = {number for block in self.blocks for number in block.ids} | new
        if reply.saved and not is_readable(reply.saved):
            raise ValueError("the state of its search is none")
        state = replace(part.run, state=reply.saved)
        named = {*reply.told, *(one.record_id for one in part.finals), *mentioned(state)}
        if not named <= known:
            raise ValueError("it names records that were not sent")
        if self.what == FINALS:
            ending = Ending.from_json(part.run.outcome)
            _check_finals(part.finals)
            check_latencies(chain.from_iterable(ending.finals.values()))
        elif part.finals or (part.run.outcome and not run.outcome):
            raise ValueError("a search has no finals, and no outcome")
        if any(one.record_id not in new for one in part.details.trials):
            raise ValueError("details of a record that it did not measure")
        if any(one.worker >= WORKERS_OF_A_HOST for one in part.details.trials):
            raise ValueError(f"a host has at most {WORKERS_OF_A_HOST} workers")
        if part.run.known and part.run.known not in known:
            raise ValueError(f"a run that knows up to record {part.run.known}")
        if not 0 <= part.run.state_asks <= len(self.asks) + len(part.asks):
            raise ValueError(f"a state after {part.run.state_asks} asks")
        if len(reply.told) > sum(one.size for one in (*self.asks, *part.asks)) + len(known):
            raise ValueError("its search was told of more than it was asked for")
        for ask in part.asks:
            if not 1 <= ask.size <= _LARGEST_ASK or not 0.0 <= ask.seconds < math.inf:
                raise ValueError(f"an ask of {ask.size} after {ask.seconds} s")


@Stored(
    *("serial", "how", "name", "rate", "message", "token", "cut", "ended", "verified"),
    *("unscheduled", "complete", "keeps_default", "again", "whole", "told", "seconds"),
    complete=True,
)
@dataclass(frozen=True)
class HostReply:
    """What a host has done.

    Attributes
    ----------
    serial: of the order.
    how: one of ``MEASURED``, ``UNTUNABLE``, ``REFUSED``, ``FAILED``.
    name: what the host is called; rate: operations a second of ``machine_rate``.
    token: tells it from all others, also of the same order.
    message: of what failed; the reason why a slice ended.
    cut: whether time ended it; ended: whether the search ended before the slice had its trials.
    verified: whether results were compared; False where the host's measurer does not say.
    unscheduled: latency of the unscheduled program in seconds; None if it is not known.
    complete: whether that is a latency, and no lower bound.
    keeps_default: whether the default schedule is the fastest.
    again: whether the search was begun again, as it no longer proposes what its run measured.
    told: ids of all records that the search was told of, where ``whole``, else of those of this
        order, in order; new ones have those of ``records``: -1, -2, ...
    seconds: wall time that the order took.
    part: what is new of the run, but for its records and its state.
    records: new ones, deflated.
    state: of the search, deflated; empty where it could not be saved.
    """

    serial: int
    how: str
    name: str
    rate: float = 0.0
    message: str = ""
    token: str = ""
    cut: bool = False
    ended: bool = False
    verified: bool = True
    unscheduled: float | None = None
    complete: bool = True
    keeps_default: bool = False
    again: bool = False
    whole: bool = False
    told: Sequence[int] = ()
    seconds: float = 0.0
    part: RunPart | None = field(default=None, repr=False)
    records: bytes = field(default=b"", repr=False)
    state: bytes = field(default=b"", repr=False)

    def pack(self) -> bytes:
        """Return it as bytes."""
        part = b"" if self.part is None else deflate(self.part.to_json())
        return pack(encode(self), [part, self.records, self.state])

    @classmethod
    def unpack(cls, message: object) -> HostReply:
        """Read what ``pack`` returned; HostError for anything else. No code is run."""
        header, frames = unpack(message)
        sender = header.get("name")
        sender = printable(sender[:_LONGEST_NAME]) if isinstance(sender, str) else ""
        try:
            part, records, state = frames
            found = decode(cls, header, records=records, state=state)
            if found.how not in (MEASURED, UNTUNABLE, REFUSED, FAILED):
                raise ValueError(f"it ended as {found.how!r:.40}")
            if found.rate < 0.0 or found.seconds < 0.0:
                raise ValueError("rate and seconds are not negative")
            if found.unscheduled is not None:
                check_latencies([found.unscheduled])
            lines = found.message[:_LONGEST_MESSAGE].split("\n")
            return replace(
                found,
                name=sender,
                token=found.token[:_LONGEST_NAME],
                message="\n".join(printable(line, "") for line in lines),
                part=_read_part(part, records) if part else None,
            )
        except (KeyError, TypeError, ValueError, DatabaseError, HostError) as error:
            raise HostError(f"this is no reply: {error!s:.200}", sender) from error

    @cached_property
    def saved(self) -> str:
        """The state of the search, as text; HostError where it is damaged, or too long."""
        return inflate(self.state) if self.state else ""

    def check(self, order: GivenOrder, seconds: float = math.inf) -> None:
        """HostError unless it is a reply to an order: it names that, and what was sent.

        ``seconds`` are over since the order went out: no host has spent more on it.
        """
        if self.serial != order.serial:
            raise HostError(f"it is the reply to order {self.serial}")
        if self.how != MEASURED:
            return
        try:
            order.check(self)
            asks = () if self.part is None else self.part.asks
            spent = max([self.seconds, *(one.seconds - order.used for one in asks)])
            if spent > seconds + _CLOCKS:
                raise ValueError(f"it says that {spent:.3g} s went by, of {seconds:.3g}")
        except (ValueError, TypeError, KeyError, DatabaseError) as error:
            raise HostError(f"this is no reply to the order: {error!s:.200}") from error


def _read_part(part: bytes, records: bytes) -> RunPart:
    """Return what a reply has of a run; ValueError, DatabaseError or HostError where it is none."""
    new = records_from_json(inflate(records, LONGEST_PART))
    if [one.id for one in new] != [-1 - place for place in range(len(new))]:
        raise ValueError("records are numbered -1, -2, ..., each once")
    return RunPart.from_json(inflate(part, LONGEST_PART), new)


def _check_records(records: Sequence[Record]) -> None:
    """ValueError for records that no run measures."""
    measured = [what_is_measured(one) for one in records]
    if len({*measured}) < len(measured):
        raise ValueError("a record twice, or two of one proposal")
    now = time.time()
    for one in records:
        if one.ok:
            check_latencies(one.samples)
        if abs(one.created - now) > _DAY:
            raise ValueError("a record of another day")
        text = one.trace_json
        if one.ok and not (text.startswith(BEGINNING) and text.endswith("}")):
            raise ValueError(f"the trace of a record is none: {text[:40]!r}")


def what_is_measured(record: Record) -> int | str:
    """Return the proposal that a record of a run is of, or the program where it is of none."""
    return record.program_key if record.proposal is None else record.proposal


def _check_finals(finals: Sequence[FinalsEntry]) -> None:
    """ValueError for entries that are not of one finals."""
    held = {one.held for one in finals}
    if len({one.record_id for one in finals}) < len(finals) or len(held) > 1:
        raise ValueError("finals of one moment have each program once")
    check_latencies(sample for one in finals for sample in one.samples)
    if sorted(one.place for one in finals) != [*range(len(finals))]:
        raise ValueError("finals have places 0, 1, ...")
    if any(abs(moment - time.time()) > _DAY for moment in held):
        raise ValueError("finals of another day")


def check_latencies(samples: Iterable[float]) -> None:
    """ValueError for samples in seconds of which one is too short for any machine."""
    if (least := min(samples, default=math.inf)) < _SHORTEST:
        raise ValueError(f"{least!r} s is no latency: no machine calls a function so fast")
