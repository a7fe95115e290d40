"""A candidate on its way through the workers, and the measurement at the end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.clock import Phase
from schedlang.measurement.disturbance import Disturbance
from schedlang.targets.errors import describe
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.measure.verification import REPEATS, Repeats
from schedlang.targets.worker.pool import Slot
from schedlang.targets.worker.protocol import START_TIMEOUT, Reply, Request
from schedlang.tvm.program import to_json


@dataclass(slots=True, eq=False)
class Work:
    """A candidate on its way.

    Attributes
    ----------
    candidate: the measured candidate.
    serial: its name inside the workers.
    suspect: a worker was lost with it that an earlier candidate may have damaged; it gets a second
        chance, in a fresh worker.
    postponed: its code is large; it is built when the size of others is known.
    most_size: code that is larger is not built; None for no limit.
    build_seconds, run_seconds: wall time spent on it so far.
    slot: the worker that built it.
    built: what that replied; it says where the program is. Empty before.
    server, lost_on: where it runs, and the servers that were lost with it.
    phases: what workers did for it so far.
    """

    candidate: Candidate
    serial: int
    suspect: bool = False
    postponed: bool = False
    most_size: int | None = None
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    phases: list[Phase] = field(default_factory=list)
    slot: Slot | None = None
    built: dict[str, Any] = field(default_factory=dict)
    server: str = ""
    lost_on: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name in a folder."""
        return f"candidate{self.serial}"

    def note(self, reply: Reply) -> None:
        """Keep what a worker did for it."""
        self.phases += reply.phases

    def measurement(self, reply: Reply) -> Measurement:
        """Make the measurement, from the last reply about it."""
        worker = self.phases[-1].worker if self.phases else None
        disturbance = reply.header.get("disturbance") if reply.ok else None
        return Measurement(
            self.candidate.id,
            Status.OK if reply.ok else Status(reply.status),
            tuple(reply.header.get("samples", ())),
            "" if reply.ok else str(reply.header["message"]),
            "" if reply.ok else reply.stderr,
            verified=reply.ok and reply.header["verified"],
            build_seconds=self.build_seconds,
            run_seconds=self.run_seconds,
            packed_ahead=reply.ok and reply.header.get("packed_ahead", False),
            disturbance=None if disturbance is None else Disturbance(**disturbance),
            worker=worker,
            phases=tuple(
                phase._replace(worker=None) if phase.worker == worker else phase
                for phase in self.phases
            ),
        )


def program_of(work: Work) -> bytes | Reply:
    """Write a candidate's program for a worker; a reply says why that is not possible."""
    try:
        return to_json(work.candidate.module).encode()
    except Exception as error:
        message = f"it cannot be written as JSON: {describe(error)}"
        return Reply.refusal(Status.BUILD_ERROR, message)


def binding_requests(
    binding: Binding, set_up: dict[str, Any], *, replaces: bool = False
) -> tuple[Request, Request]:
    """Return the requests that bind a new and a running worker to a workload.

    ``set_up`` holds further settings of a new worker. A worker that keeps workloads knows them by
    the header's ``fingerprint``; the binding before is not asked for again where this one
    ``replaces`` it.
    """
    header, parts = binding.pack()
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    header, blobs = {**header, "fingerprint": digest.hexdigest()}, tuple(parts)
    start = {"request": "start", **set_up, **header}
    bind = {"request": "bind", "replaces": replaces, **header}
    return Request(start, blobs, START_TIMEOUT), Request(bind, blobs, START_TIMEOUT)


def run_header(
    policy: TimingPolicy,
    best: float | None,
    verify_factor: float | None,
    repeats: Repeats = REPEATS,
) -> dict[str, Any]:
    """Say how to time and verify a program, for ``read_run_header``."""
    return {
        "policy": asdict(policy),
        "best": best,
        "verify_factor": verify_factor,
        "repeats": asdict(repeats),
    }


def read_run_header(
    header: dict[str, Any],
) -> tuple[TimingPolicy, float | None, float | None, Repeats]:
    """Read from a header what ``CandidateRunner.run`` takes after the program."""
    repeats = Repeats(**header["repeats"])
    return TimingPolicy(**header["policy"]), header["best"], header["verify_factor"], repeats


@dataclass(frozen=True, slots=True)
class Requests:
    """Makes the requests about candidates to workers that build and run them.

    Parameters
    ----------
    timing: how often to run a candidate.
    build_timeout, run_timeout: seconds.
    """

    timing: TimingPolicy
    build_timeout: float
    run_timeout: float

    def build(self, work: Work, *, discard: bool) -> Request | Reply:
        """Build it, and forget all others first if told to ``discard`` them.

        One that was built into a file is only loaded. A candidate that cannot be sent has its reply
        at once.
        """
        if "library" in work.built:
            header = {"request": "build", "id": work.serial, "discard": discard}
            return Request({**header, "built": work.built}, timeout=self.build_timeout)
        program = program_of(work)
        if isinstance(program, Reply):
            return program
        return self.build_of(work, program, discard=discard)

    def build_of(self, work: Work, program: bytes, *, discard: bool) -> Request:
        """Build it from the program, as ``program_of`` writes it."""
        header = {
            "request": "build",
            "id": work.serial,
            "discard": discard,
            "most_size": work.most_size,
        }
        return Request(header, (program,), self.build_timeout)

    def run(
        self,
        work: Work,
        best: float | None = None,
        verify_factor: float | None = None,
        *,
        repeats: Repeats = REPEATS,
        keep: bool = False,
    ) -> Request:
        """Time it, and verify it if it is fast enough; forget it then, unless told to keep it."""
        how = run_header(self.timing, best, verify_factor, repeats)
        header = {"request": "run", "id": work.serial, "keep": keep, **how}
        return Request(header, timeout=self.run_timeout, executes=True)

    def sample(self, works: Sequence[Work], calls: Sequence[int], *, verify: bool) -> Request:
        """Take one more sample of each of some candidates that were kept, in this order.

        ``calls`` are those of each sample. Verify the candidates once more if told to.
        """
        header = {
            "request": "sample",
            "programs": [(work.serial, n) for work, n in zip(works, calls, strict=True)],
            "verify": verify,
            "policy": asdict(self.timing),
        }
        return Request(header, timeout=self.run_timeout * len(works), executes=True)

    def built(self, work: Work, reply: Reply) -> Reply:
        """Apply the reply to a build; of one that was built elsewhere its time is known."""
        if not work.built:
            work.build_seconds = reply.seconds
        work.note(reply)
        if not reply.timed_out:
            return reply
        return reply.failed_as(Status.BUILD_TIMEOUT, reply.message(self.build_timeout))

    def ran(self, work: Work, reply: Reply) -> Reply:
        """Apply the reply to a run."""
        work.run_seconds += reply.seconds
        work.note(reply)
        if not reply.timed_out:
            return reply
        return reply.failed_as(Status.RUN_TIMEOUT, reply.message(self.run_timeout))
