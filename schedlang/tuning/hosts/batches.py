"""Candidates that a host measures: the order, and the measurements that come back.

A ``Batch`` needs nothing of a search: programs go out, and what they take comes back. So one search
measures on many hosts, and a host that takes one knows nothing of the others.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

from schedlang.codec import Stored, decode, encode
from schedlang.errors import HostError
from schedlang.files import read_json
from schedlang.measurement import Candidate, Measurement
from schedlang.measurement.clock import WORKERS_OF_A_HOST
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS
from schedlang.tuning.hosts.frames import deflate, inflate, pack, unpack
from schedlang.tuning.hosts.messages import LONGEST_PART, HostReply, check_latencies
from schedlang.tvm.program import from_json, to_json

MEASURE, COMPARE = "measure", "compare"
UNSCHEDULED, DESCRIBE = "unscheduled", "describe"
"""What a host does with the programs of a batch: measures each, or times them against each other.
Without programs it times the unscheduled one, or only tells whether it compares results."""


@Stored(
    *("serial", "what", "task_key", "target_key", "ids", "keys", "best", "seconds", "rounds"),
    *("budget_seconds", "used", "apart", "python", "toolchain"),
    complete=True,
)
@dataclass(frozen=True)
class Batch:
    """Programs for a host to measure.

    Attributes
    ----------
    serial: tells the reply to it from others.
    what: ``MEASURE``, ``COMPARE``, ``UNSCHEDULED`` or ``DESCRIBE``.
    call: what all orders of a call have in common, pickled.
    task: the program before scheduling, deflated JSON; task_key is the workload's.
    target_key: what the host's measurer has to measure for.
    ids, keys: of the candidates, and of their programs.
    programs: theirs, deflated.
    best: lowest latency so far, in seconds; None where nothing is known.
    seconds: until the measurer's deadline; None for no deadline.
    rounds, budget_seconds: as ``Measurer.remeasure`` takes them.
    used: seconds that the call has used so far.
    apart, python, toolchain: as in ``Order``.
    """

    serial: int
    what: str
    call: bytes = field(repr=False)
    task: bytes = field(repr=False)
    task_key: str
    target_key: str
    ids: Sequence[int] = ()
    keys: Sequence[str] = ()
    programs: Sequence[bytes] = field(default=(), repr=False)
    best: float | None = None
    seconds: float | None = None
    rounds: int = ROUNDS
    budget_seconds: float = BUDGET_SECONDS
    used: float = 0.0
    apart: Sequence[str] = ()
    python: str = platform.python_version().rpartition(".")[0]
    toolchain: str = ""

    @property
    def size(self) -> int:
        """What it takes grows with this."""
        return max(len(self.ids), 1)

    def kept_from(self, names: Sequence[str]) -> Self:
        """Return it as one that hosts of these names refuse."""
        return replace(self, apart=names)

    def pack(self) -> bytes:
        """Return it as bytes."""
        return pack(encode(self), [self.call, self.task, *self.programs])

    @classmethod
    def unpack(cls, message: bytes) -> Batch:
        """Read what ``pack`` returned; HostError for anything else."""
        return cls.of(*unpack(message))

    @classmethod
    def of(cls, header: Mapping[str, Any], frames: Sequence[bytes]) -> Batch:
        """Return the batch of a message; HostError where it is none."""
        try:
            call, task, *programs = frames
            return decode(cls, header, call=call, task=task, programs=programs)
        except ValueError as error:
            raise HostError(f"this is no batch: {error!r:.200}") from error

    @property
    def candidates(self) -> list[Candidate]:
        """The programs to measure."""
        found = zip(self.ids, self.keys, self.programs, strict=True)
        return [Candidate(k, from_json(inflate(frame)), key) for k, key, frame in found]

    def check(self, reply: HostReply) -> None:
        """ValueError, TypeError or HostError unless a reply has what was asked for.

        Fewer measurements come where the batch has a deadline; of those that are compared, none.
        """
        if reply.part is not None or reply.state or reply.told:
            raise ValueError("it has a part of a run, and no run was sent")
        if self.what == UNSCHEDULED and self.seconds is None and reply.unscheduled is None:
            raise ValueError("it has not timed the unscheduled program")
        found = measurements_of(reply)
        ids = [one.id for one in found]
        if len({*ids}) < len(ids) or not {*ids} <= {*self.ids}:
            raise ValueError("it measured what was not sent, or a candidate twice")
        may_stop = self.seconds is not None and (self.what == MEASURE or not ids)
        if len(ids) < len(self.ids) and not may_stop:
            raise ValueError(f"it measured {len(ids)} of {len(self.ids)} candidates")
        for one in found:
            if one.ok and not one.samples:
                raise ValueError(f"candidate {one.id} has no latency, and ended as {one.status}")
            check_latencies(one.samples)
            workers = {one.worker or 0, *(phase.worker or 0 for phase in one.phases)}
            if max(workers) >= WORKERS_OF_A_HOST:
                raise ValueError(f"a host has at most {WORKERS_OF_A_HOST} workers")


def program_frame(candidate: Candidate) -> bytes:
    """Return the program of a candidate as it is sent."""
    return deflate(to_json(candidate.module))


# -- Measurements as they come back ---------------------------------------------------------------


def measurements_frame(found: Sequence[Measurement]) -> bytes:
    """Return measurements as they are sent."""
    return deflate(json.dumps(encode(found, list[Measurement])))


def measurements_of(reply: HostReply) -> list[Measurement]:
    """Return the measurements of a reply; ValueError, TypeError or HostError for anything else."""
    return [*_measurements(reply.records)] if reply.records else []


@lru_cache(maxsize=16)  # a reply is checked, examined and then taken, a few at a time
def _measurements(frame: bytes) -> tuple[Measurement, ...]:
    found: tuple[Measurement, ...] = decode(
        tuple[Measurement, ...], read_json(inflate(frame, LONGEST_PART))
    )
    for one in found:
        spent = one.build_seconds + one.run_seconds
        if min(one.build_seconds, one.run_seconds) < 0.0 or not math.isfinite(spent):
            raise ValueError("seconds are not negative")
    return found
