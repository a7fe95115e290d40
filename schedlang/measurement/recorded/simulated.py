"""A measurer that answers from a recorded space, on a clock that runs ahead of the real one."""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from schedlang.errors import TargetError
from schedlang.measurement.clock import Clock
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS
from schedlang.measurement.measurement import Candidate, Measurement, Status
from schedlang.measurement.measurer import REFERENCE_ID, Measurer
from schedlang.measurement.recorded.recording import RecordedProgram, RecordedSpace
from schedlang.workloads.workload import Workload

# A sample of finals lasts at least so long: short programs run several times in it.
_SAMPLE_SECONDS = 5e-4


class SimulatedClock(Clock):
    """Real time, plus the time that measuring would have taken."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        return time.monotonic() + self._ahead

    def sleep(self, seconds: float) -> None:
        self._ahead += max(seconds, 0.0)

    def reach(self, moment: float) -> None:
        """Go on to a moment that has not come yet."""
        self.sleep(moment - self.now())


class SimulatedMeasurer(Measurer):
    """Gives the programs of a recorded space the latencies and the failures that they had.

    Latencies are drawn from the recorded samples, with replacement. The clock of the session goes
    on by what building, running and verifying took, on as many lanes as given, and by the real time
    of the search. No program is given up for being slow, and all are verified, as when they were
    recorded.

    Parameters
    ----------
    recorded: a recorded space, as ``survey`` and ``load_survey`` return it.
    seed: of the samples: equal seeds give a program equal latencies, whatever was measured before.
    builders: number of programs that are built at the same time.

    When it measures, RecordingError for a program that the space does not have; TargetError for
    another workload.
    """

    clock: SimulatedClock
    seconds: dict[str, float]

    def __init__(self, recorded: RecordedSpace, seed: int = 0, *, builders: int = 2) -> None:
        if not isinstance(recorded, RecordedSpace):
            raise TypeError(
                f"recorded is a RecordedSpace, not {type(recorded).__name__}; "
                "schedlang.load_survey reads one from a file"
            )
        if builders < 1:
            raise ValueError(f"builders={builders}: give 1 or more")
        self.recorded = recorded
        self.clock = SimulatedClock()
        self.parallel = builders
        self.seconds = {"build": 0.0, "run": 0.0}
        self._seed, self._builders = seed, builders
        self._times: Counter[str] = Counter()

    @property
    def key(self) -> str:
        return f"simulated {self.recorded.digest} {self._seed} {self._builders}"

    def bind(self, workload: Workload) -> None:
        """TargetError for a workload that was not recorded."""
        if workload.key != self.recorded.workload.key:
            raise TargetError(
                f"the recorded space is one of {self.recorded.workload.name}, not of "
                f"{workload.name}"
            )
        super().bind(workload)

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        start = self.clock.now()
        built, ran = [start] * self._builders, start
        for candidate in candidates:
            if self.clock.now() >= self.deadline:
                return
            program = self._program(candidate)
            lane = built.index(min(built))
            built[lane] += program.build_seconds
            ran = max(ran, built[lane]) + program.run_seconds
            self.seconds["build"] += program.build_seconds
            self.seconds["run"] += program.run_seconds
            self.clock.reach(ran)
            yield self._measurement(candidate, program)

    def _program(self, candidate: Candidate) -> RecordedProgram:
        if candidate.id == REFERENCE_ID:
            return RecordedProgram("unscheduled", Status.OK, self.recorded.reference)
        return self.recorded.program(candidate.program_key)

    def _measurement(self, candidate: Candidate, program: RecordedProgram) -> Measurement:
        samples = program.samples
        if samples:
            self._times[program.key] += 1
            rng = random.Random(f"{self._seed} {program.key} {self._times[program.key]}")
            samples = tuple(rng.choices(samples, k=len(samples)))
        return Measurement(
            candidate.id,
            program.status,
            samples,
            program.message,
            verified=bool(samples),
            build_seconds=program.build_seconds,
            run_seconds=program.run_seconds,
        )

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Draw a sample of each candidate for each round."""
        if rounds < 1:
            raise ValueError(f"rounds={rounds}: give 1 or more")
        if self.clock.now() >= self.deadline:
            return []
        found = []
        for candidate in candidates:
            program = self._program(candidate)
            rng = random.Random(f"{self._seed} {candidate.id} {program.key} again")
            self.clock.sleep(program.build_seconds)
            samples = tuple(rng.choices(program.samples, k=rounds)) if program.samples else ()
            self.clock.sleep(sum(max(one, _SAMPLE_SECONDS) for one in samples))
            found.append(
                Measurement(
                    candidate.id,
                    program.status,
                    samples,
                    program.message,
                    verified=bool(samples),
                )
            )
        return found

    def _time_reference(self) -> float:
        return statistics.median(self.recorded.reference)
