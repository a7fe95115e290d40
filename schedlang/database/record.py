"""Records: a trace, where it was measured, what measuring gave, and how it did in finals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from schedlang.errors import DatabaseError
from schedlang.interpreters.document import MAX_BYTES
from schedlang.measurement import Status
from schedlang.measurement.disturbance import Disturbance
from schedlang.measurement.finals import DRIFT
from schedlang.measurement.measurement import no_latency
from schedlang.printed import html_method

UNSCHEDULED = "unscheduled"
"""``search`` of the record of the unscheduled program, which is no candidate of a search."""

LONGEST_TEXT = 1 << 16
"""Number of characters that a record keeps of a message, and of a worker's output.

A database stores as many in keys, names and provenance together.
"""
LONGEST_TRACE = MAX_BYTES
"""Maximum number of characters of a trace that a database stores: longer ones cannot be read."""
MOST_SAMPLES = 1 << 20
"""Maximum number of samples that a database stores with a record."""

# Stands for what was left out of a longer text.
_CUT = "[...]"


@dataclass(frozen=True, slots=True)
class Record:
    """One measured trace. The key of a lookup is (workload_key, target_key, toolchain_key).

    Attributes
    ----------
    workload_key, workload_name: of the program before scheduling.
    target_key: of the machine; toolchain_key: of the compiler and its versions.
    trace_json: the trace as JSON text; a database never interprets it.
    status: how the measurement ended.
    samples: raw latencies in seconds, one a repeat; at least one when ``status`` is OK. With
        SUSPICIOUS_TIME they are evidence, and no latency.
    message, stderr: one line, and the tail of the worker's output, when it is not OK. Of a longer
        message the first ``LONGEST_TEXT`` characters are kept, of the output the last ones.
    verified: the outputs were compared with the unscheduled program's and agree.
    search: what proposed the trace, such as ``"evolutionary"``; ``"unscheduled"`` for the program
        before scheduling, whose trace is empty.
    seed: the search's seed, if it had one.
    created: when it was measured, in seconds since 1970 (UTC).
    id: given by the database on ``append``; None before.
    program_key: structural key of the scheduled program, equal for traces that make the same
        program; ``""`` where it is not known.
    provenance: what it was measured with, by name: versions of TVM, LLVM, Python and schedlang,
        the CPU and its features, a GPU and its driver.
    disturbance: what other work on the machine did to the samples; None where that is unknown.
    run_id: the tuning run that measured it; proposal: the search's id of it in that run. None
        outside of a run; the unscheduled program has no proposal.

    Raises ``ValueError`` for an OK record without samples, or with a sample that is not a positive
    finite number: such a latency would win every search.
    """

    workload_key: str
    workload_name: str
    target_key: str
    toolchain_key: str
    trace_json: str
    status: Status
    samples: tuple[float, ...]
    message: str
    verified: bool
    search: str
    seed: int | None
    created: float
    id: int | None = None
    stderr: str = field(default="", repr=False)
    program_key: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    run_id: int | None = None
    proposal: int | None = None
    disturbance: Disturbance | None = None

    _repr_html_ = html_method("record")

    def __post_init__(self) -> None:
        if self.ok and not self.samples:
            raise ValueError("a record with status ok needs at least one sample")
        check_samples(self.samples if self.ok else ())
        object.__setattr__(self, "provenance", dict(self.provenance))
        for name, cut in (("message", _beginning), ("stderr", _end)):
            # A worker may print bytes that are no text; they must not stop a record.
            text = cut(getattr(self, name)).encode("utf-8", "backslashreplace").decode("utf-8")
            object.__setattr__(self, name, cut(text))

    @property
    def ok(self) -> bool:
        """Whether it carries a latency."""
        return self.status is Status.OK

    @property
    def certain(self) -> bool:
        """Whether other work leaves no doubt about its latency, as far as that is known."""
        return self.disturbance is None or self.disturbance.settled

    @property
    def least(self) -> float:
        """Seconds that its program takes at least, as far as its samples tell."""
        lowest = min(self.samples)
        if self.disturbance is None or self.disturbance.settled:
            return lowest
        return min(lowest, self.disturbance.low)

    @property
    def most(self) -> float:
        """Seconds that count where programs are compared and not timed again.

        That is the latency. Where other work leaves doubt about it, it is the upper bound, and
        more than that by what two measurements differ for other reasons: a latency in doubt does
        not beat a certain one by a little.
        """
        if self.disturbance is None or self.disturbance.settled:
            return self.latency
        return DRIFT * max(self.latency, self.disturbance.high)

    @property
    def trust(self) -> float:
        """How much its latency says, up to 1, where other work left no doubt about it."""
        return 1.0 if self.disturbance is None else self.disturbance.trust

    @property
    def unscheduled(self) -> bool:
        """Whether it is of the program before scheduling, which each run measures as well."""
        return self.search == UNSCHEDULED

    @property
    def latency(self) -> float:
        """Median of the samples, in seconds; NoLatencyError, a ValueError, if it is not OK.

        It is that of the search: ``schedlang.database.timing_of`` prefers the finals.
        """
        if not self.ok:
            raise no_latency(f"record {self.id}", self.status, self.message)
        return statistics.median(self.samples)


def check_samples(samples: Iterable[float]) -> None:
    """ValueError for a sample that is no latency: it would win every search."""
    for sample in samples:
        if not (math.isfinite(sample) and sample > 0):
            raise ValueError(f"{sample!r} is no latency; a sample is positive, in seconds")


@dataclass(frozen=True, slots=True)
class FinalsEntry:
    """How one record did in finals.

    Attributes
    ----------
    record_id: the record of the program.
    held: when the finals were held, in seconds since 1970 (UTC); equal for all of their entries.
    place: 0 for the winner.
    status: how timing it ended; a program that failed is behind all others.
    samples: latencies in seconds, one per round; empty unless ``status`` is OK.

    Raises ``ValueError`` for a negative place, and for samples that a record could not have.
    """

    record_id: int
    held: float
    place: int
    status: Status
    samples: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.place < 0:
            raise ValueError(f"place={self.place}; the winner has 0")
        if (self.status is Status.OK) != bool(self.samples):
            raise ValueError(f"an entry with status {self.status} has {len(self.samples)} samples")
        check_samples(self.samples)

    @property
    def ok(self) -> bool:
        """Whether the program was timed."""
        return self.status is Status.OK

    @property
    def latency(self) -> float:
        """Median of the samples, in seconds; NoLatencyError, a ValueError, if it was not timed."""
        if not self.ok:
            raise no_latency(f"record {self.record_id} in the finals", self.status, "")
        return statistics.median(self.samples)


def check_sizes(records: Iterable[Record]) -> None:
    """DatabaseError for a record that is too large to be stored and read in reasonable time."""
    for record in records:
        if (length := len(record.trace_json)) > LONGEST_TRACE:
            _refuse(record, f"its trace has {length:,} characters", LONGEST_TRACE)
        if (length := len(record.samples)) > MOST_SAMPLES:
            _refuse(record, f"it has {length:,} samples", MOST_SAMPLES)
        keys = (record.workload_key, record.target_key, record.toolchain_key, record.program_key)
        names = (record.workload_name, record.search, *record.provenance.keys())
        length = sum(map(len, (*keys, *names, *record.provenance.values())))
        if length > LONGEST_TEXT:
            what = f"its keys, names and provenance have {length:,} characters"
            _refuse(record, what, LONGEST_TEXT)


def _refuse(record: Record, what: str, most: int) -> NoReturn:
    raise DatabaseError(
        f"a record of {record.workload_name[:80]!r} is too large: {what}, and at most {most:,} can "
        "be stored; leave it out"
    )


def _beginning(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - len(_CUT)] + _CUT


def _end(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else _CUT + text[len(_CUT) - LONGEST_TEXT :]
