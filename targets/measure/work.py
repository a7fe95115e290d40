"""A candidate on its way through the workers, and the measurement when it fails there."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from schedlang.measurement import Candidate, Measurement, Status
from schedlang.targets.measure.fault import describe
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.worker.pool import Reply, Request
from schedlang.tvm.program import to_json


@dataclass(slots=True, eq=False)
class Work:
    """A candidate on its way.

    ``serial`` is its name inside the workers; ``suspect`` once a worker was lost with it that an
    earlier candidate may have damaged: it gets a second chance, in a fresh worker.
    """

    candidate: Candidate
    serial: int
    suspect: bool = False
    build_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Requests:
    """Makes the requests about candidates, and reads what came of them.

    Parameters
    ----------
    timing: how often to run a candidate.
    build_timeout, run_timeout: seconds.
    """

    timing: TimingPolicy
    build_timeout: float
    run_timeout: float

    def build(self, work: Work, *, discard: bool) -> Request | Measurement:
        """Build it, and forget all others first if told to ``discard`` them.

        A candidate that cannot be sent is a measurement at once.
        """
        header = {"request": "build", "id": work.serial, "discard": discard}
        try:
            program = to_json(work.candidate.module).encode()
        except Exception as error:
            return Measurement(
                work.candidate.id,
                Status.BUILD_ERROR,
                message=f"it cannot be written as JSON: {describe(error)}",
            )
        return Request(header, (program,), self.build_timeout)

    def run(
        self,
        work: Work,
        best: float | None = None,
        verify_factor: float | None = None,
        *,
        keep: bool = False,
    ) -> Request:
        """Time it, verify it if it is fast enough, and forget it unless told to ``keep`` it."""
        header = {
            "request": "run",
            "id": work.serial,
            "policy": asdict(self.timing),
            "best": best,
            "verify_factor": verify_factor,
            "keep": keep,
        }
        return Request(header, timeout=self.run_timeout, executes=True)

    def sample(self, work: Work, calls: int) -> Request:
        """Take one more sample of a candidate that was kept."""
        header = {
            "request": "sample",
            "id": work.serial,
            "calls": calls,
            "policy": asdict(self.timing),
        }
        return Request(header, timeout=self.run_timeout, executes=True)

    def failure(
        self, work: Work, reply: Reply, *, building: bool, late: str | None = None
    ) -> Measurement:
        """The measurement of a candidate whose request failed; ``late`` says how it timed out."""
        timeout = self.build_timeout if building else self.run_timeout
        timed_out = Status.BUILD_TIMEOUT if building else Status.RUN_TIMEOUT
        return Measurement(
            work.candidate.id,
            timed_out if reply.timed_out else reply.status,
            tuple(reply.header.get("samples", ())),
            late or reply.message(timeout),
            reply.stderr,
            build_seconds=reply.seconds if building else work.build_seconds,
            run_seconds=0.0 if building else reply.seconds,
        )
