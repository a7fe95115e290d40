"""Measurers and a clock for ``streams.py``: what they answer depends on nothing but the program."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import schedlang as sl
from schedlang.lab import RecordedProgram
from schedlang.lab.simulation import SimulatedClock
from schedlang.measurement import (
    Candidate,
    Measurement,
    RecordedSpace,
    SimulatedMeasurer,
    Status,
)
from schedlang.measurement.measurer import REFERENCE_ID
from schedlang.measurement.problem import Problem

BUILD_SECONDS, RUN_SECONDS = 0.5, 0.125
"""Seconds of the simulated clock that a scripted program takes."""


class ScriptedClock(SimulatedClock):
    """A simulated clock that real time does not move."""

    def now(self) -> float:
        return self._ahead


class RecordedMeasurer(SimulatedMeasurer):
    """A simulated measurer on a scripted clock, which the user may interrupt.

    Parameters
    ----------
    recorded, seed: as ``SimulatedMeasurer`` takes them.
    until: number of measurements after which ``error`` is raised; infinite by default.
    error: by default that of Ctrl-C.
    unverified: every program whose key ends in one of these digits is not verified.
    """

    def __init__(
        self,
        recorded: RecordedSpace,
        seed: int = 0,
        until: float = math.inf,
        error: type[BaseException] = KeyboardInterrupt,
        unverified: str = "",
    ) -> None:
        super().__init__(recorded, seed)
        self.clock = ScriptedClock()
        if unverified:
            # Records that are not verified may not win.
            self.problem = Problem(verify=True)
        self._left, self._error, self._unverified = until, error, tuple(unverified)

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for measurement in super().measure(candidates):
            if measurement.id != REFERENCE_ID:
                if self._left <= 0:
                    raise self._error
                self._left -= 1
            yield measurement

    def _as_found(
        self, number: int, program: RecordedProgram, samples: tuple[float, ...]
    ) -> Measurement:
        found = super()._as_found(number, program, samples)
        verified = found.verified and not program.key.endswith(self._unverified or ("-",))
        return Measurement(number, found.status, samples, found.message, verified=verified)


class ScriptedMeasurer(RecordedMeasurer):
    """Measures any program: recorded ones as recorded, others by the digests of their keys.

    One in sixteen of the others fails. Their latencies spread over a factor of ten, around a
    microsecond and one nanosecond for each operation.

    Parameters
    ----------
    spaces: recorded spaces by the keys of their workloads; none by default.
    """

    machine_key = ""  # type: ignore[assignment]

    def __init__(self, spaces: Mapping[str, RecordedSpace] | None = None, **given: Any) -> None:
        self._spaces = dict(spaces or {})
        self._first = _nothing_recorded()
        super().__init__(self._first, **given)
        if self._spaces:
            self.machine_key = "simulated/streams"  # type: ignore[misc]

    @property
    def key(self) -> str:
        return f"scripted {sorted(self._spaces)}"

    def bind(self, workload: sl.Workload) -> None:
        known = self._spaces.get(workload.key)
        self.recorded = self._first if known is None else known
        sl.Measurer.bind(self, workload)

    def _program(self, candidate: Candidate) -> RecordedProgram:
        unscheduled = candidate.id == REFERENCE_ID
        if self.recorded is not self._first:
            if unscheduled or candidate.program_key in self.recorded.numbers:
                return super()._program(candidate)
        usual = 1e-6 + self.workload.flops * 1e-9
        if unscheduled:
            return _made_up("unscheduled", (2 * usual,))
        key = candidate.program_key
        drawn = hashlib.sha256(f"{self.workload.key} {key}".encode()).digest()
        if drawn[0] < 16:
            return _made_up(key, (), Status.CRASHED, f"it crashed: {drawn[1]}")
        latency = usual * math.exp(2.3 * (drawn[1] / 255 - 0.5))
        return _made_up(key, tuple(latency * (1 + one / 5000) for one in drawn[2:10]))

    def _time_reference(self) -> float:
        return self._program(Candidate(REFERENCE_ID, self.workload.mod)).latency


def _made_up(
    key: str, samples: tuple[float, ...], status: Status = Status.OK, message: str = ""
) -> RecordedProgram:
    return RecordedProgram(key, status, samples, message, BUILD_SECONDS, RUN_SECONDS)


def _nothing_recorded() -> RecordedSpace:
    """Return a recorded space without programs."""
    workload = sl.workloads.matmul(1, 1, 1)
    return RecordedSpace(workload, "", "", (), (), ())  # type: ignore[arg-type]
