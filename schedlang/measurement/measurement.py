"""Candidates and measurements: what search and targets agree on."""

from __future__ import annotations

import enum
import statistics
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from schedlang.codec import Stored
from schedlang.errors import NoLatencyError
from schedlang.measurement.clock import Phase, check_phases, check_worker
from schedlang.measurement.disturbance import Disturbance

if TYPE_CHECKING:
    from schedlang.language.schedule import Schedule
    from schedlang.tvm.program import TensorProgram


class Status(enum.StrEnum):
    """How a measurement ended. Only ``OK`` carries a latency."""

    OK = "ok"
    REJECTED = "rejected"
    BUILD_ERROR = "build_error"
    BUILD_TIMEOUT = "build_timeout"
    RUN_ERROR = "run_error"
    RUN_TIMEOUT = "run_timeout"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out_of_memory"
    WRONG_RESULT = "wrong_result"
    SUSPICIOUS_TIME = "suspicious_time"


class Candidate:
    """A program to measure; results are matched by ``id``, never by order.

    Parameters
    ----------
    id: a number.
    module: the program.
    program_key: structural key of the program, where it is known already.
    """

    __slots__ = ("_key", "_module", "_schedule", "id")

    def __init__(self, id: int, module: TensorProgram, program_key: str = "") -> None:
        self.id = id
        self._module = module
        self._schedule: Schedule | None = None
        self._key = program_key

    @classmethod
    def of(cls, schedule: Schedule, id: int, program_key: str = "") -> Candidate:
        """Return the program of a schedule, which is taken from it when it is first needed."""
        made = cls(id, None, program_key)
        made._schedule = schedule
        return made

    @property
    def module(self) -> TensorProgram:
        """The program."""
        schedule = self._schedule
        if schedule is not None:
            self._module, self._schedule = schedule.mod, None
        return self._module

    @property
    def program_key(self) -> str:
        """Structural key of the program: 16 hex digits."""
        if not self._key:
            from schedlang.tvm.program import structural_key

            self._key = structural_key(self.module)
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidate) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Candidate(id={self.id})"


@Stored(
    *("id", "status", "samples", "message", "stderr", "verified", "build_seconds", "run_seconds"),
    *("packed_ahead", "disturbance", "worker", "phases"),
    row=True,
    complete=True,
)
@dataclass(frozen=True)
class Measurement:
    """What measuring one candidate gave.

    Attributes
    ----------
    id: the candidate's id.
    status: how it ended.
    samples: raw latencies in seconds, one per repeat, when ``status`` is OK. When it is
        SUSPICIOUS_TIME, they are the impossible times; otherwise there are none.
    message: one line that says why it failed; empty when it is OK.
    stderr: the last part of what the worker wrote to standard error, when it is not OK.
    verified: the outputs were compared with the unscheduled program's, and agree.
    build_seconds, run_seconds: wall time spent on building and running it, in seconds.
    packed_ahead: weights were packed ahead of the calls, and the samples do not contain that.
    disturbance: what other work on the machine did to its samples; None where that is unknown.
    worker: number of the worker that measured it, from 0; None where the measurer does not tell.
    phases: when it was built, run and verified, oldest first; empty where the measurer does not
        tell.
    host: name of the host that measured it; empty for this machine. Neither this nor worker and
        phases count when measurements are compared.

    Raises ``ValueError`` for a worker that is no number, and for a phase that is none; TypeError
    for a status that is no ``Status``, and for samples that are no tuple.
    """

    id: int
    status: Status
    samples: tuple[float, ...] = ()
    message: str = ""
    stderr: str = ""
    verified: bool = False
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    packed_ahead: bool = False
    disturbance: Disturbance | None = None
    worker: int | None = field(default=None, compare=False)
    phases: tuple[Phase, ...] = field(default=(), compare=False, repr=False)
    host: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.status, Status):
            raise TypeError(f"status={self.status!r}: give a Status, such as Status.OK")
        if not isinstance(self.samples, tuple | list):
            raise TypeError(f"samples={self.samples!r}: give a tuple of latencies in seconds")
        if self.worker is not None:
            check_worker(self.worker)
        object.__setattr__(self, "phases", check_phases(self.phases))

    @property
    def ok(self) -> bool:
        """Whether it carries a latency."""
        return self.status is Status.OK

    @cached_property
    def latency(self) -> float:
        """Median of the samples, in seconds; NoLatencyError, a ValueError, if it is not OK."""
        if not self.ok or not self.samples:
            raise no_latency(f"measurement {self.id}", self.status, self.message)
        return statistics.median(self.samples)

    @property
    def trust(self) -> float:
        """How much its latency says, up to 1, where other work left no doubt about it."""
        return 1.0 if self.disturbance is None else self.disturbance.trust


def no_latency(what: str, status: Status, message: str) -> NoLatencyError:
    """Return the error for asking a failure for its latency; the message says why it failed."""
    said = f" ({message})" if message else ""
    return NoLatencyError(
        f"{what} has no latency: it ended as {status}{said}; ask only those that are .ok"
    )


def rejection_message(reason: str, text: str) -> str:
    """Return the message of a measurement with ``Status.REJECTED``: ``"threads: the block has"``.

    ``reason`` is the word that rejections are counted by; it has no colon.
    """
    return f"{reason}: {text}"


def reason_of(status: Status, message: str) -> str:
    """Return the word to count a failure by: a rejection's reason, or else the status."""
    reason, colon, _ = message.partition(": ")
    return reason if status is Status.REJECTED and colon else str(status)
