"""Searches judged on a recorded space: a measurer that answers from it, and scores.

Scores compare with random search, computed exactly, after Willemsen, Schoonhoven, Filipovic,
Torring, van Nieuwpoort, van Werkhoven, "A methodology for comparing optimization algorithms for
auto-tuning" (FGCS 159, 2024), sections 3 and 4.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from schedlang.errors import RecordingError, TargetError
from schedlang.lab.recorded_space import RecordedSpace
from schedlang.lab.recording import RecordedProgram
from schedlang.measurement.clock import Clock
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS, interleave
from schedlang.measurement.measurement import Candidate, Measurement, Status
from schedlang.measurement.measurer import REFERENCE_ID, Measurer
from schedlang.workloads.workload import Workload

# A sample of finals lasts at least so long: short programs run several times in it.
_SAMPLE_SECONDS = 5e-4


class SimulatedClock(Clock):
    """Real time, plus the time that measuring would have taken."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        return super().now() + self._ahead

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
    recorded. Records name the recording and the seed as their machine: no look-up and no other run
    takes them for measurements.

    Parameters
    ----------
    recorded: a recorded space, as ``survey`` and ``load_survey`` return it.
    seed: of the samples: equal seeds give a program equal latencies, whatever else was measured.
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

    @property
    def machine_key(self) -> str:  # type: ignore[override]
        return f"simulated/{self.recorded.digest}/seed={self._seed}/{self.recorded.target_key}"

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
            ran = max(ran, _build(built, program)) + program.run_seconds
            if ran > self.deadline:
                self.clock.reach(self.deadline)
                return
            # Runs wait for builds, and builds go on meanwhile.
            waited = max(ran - self.clock.now(), 0.0)
            self.clock.reach(ran)
            self.seconds["run"] += min(program.run_seconds, waited)
            self.seconds["build"] += max(waited - program.run_seconds, 0.0)
            yield self._measurement(candidate, program)

    def _program(self, candidate: Candidate) -> RecordedProgram:
        if candidate.id == REFERENCE_ID:
            return RecordedProgram("unscheduled", Status.OK, self.recorded.reference)
        return self.recorded.program(candidate.program_key)

    def _measurement(self, candidate: Candidate, program: RecordedProgram) -> Measurement:
        samples = program.samples
        if samples:
            samples = tuple(self._rng(program.key).choices(samples, k=len(samples)))
        return replace(
            self._as_found(candidate.id, program, samples),
            build_seconds=program.build_seconds,
            run_seconds=program.run_seconds,
        )

    def _as_found(
        self, number: int, program: RecordedProgram, samples: tuple[float, ...]
    ) -> Measurement:
        return Measurement(number, program.status, samples, program.message, verified=bool(samples))

    def _rng(self, what: str) -> random.Random:
        """Return a generator that depends on how often it was asked for."""
        self._times[what] += 1
        return random.Random(f"{self._seed} {what} {self._times[what]}")

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Draw a sample of each candidate for each round."""
        programs = {candidate.id: self._program(candidate) for candidate in candidates}
        rngs = {number: self._rng(f"{one.key} again") for number, one in programs.items()}
        built = [self.clock.now()] * self._builders
        for program in programs.values():
            _build(built, program)
        self.clock.reach(min(max(built), self.deadline))

        def take_round(order: Sequence[int]) -> Iterator[Measurement]:
            for number in order:
                program = programs[number]
                sample = rngs[number].choice(program.samples) if program.samples else 0.0
                self.clock.sleep(max(sample, _SAMPLE_SECONDS))
                if self.clock.now() >= self.deadline:
                    return
                yield self._as_found(number, program, (sample,) if sample else ())

        ids = list(programs)
        found = interleave(ids, take_round, rounds, budget_seconds, clock=self.clock)
        return self._compared(candidates, found, rounds)

    def _time_reference(self) -> float:
        return statistics.median(self.recorded.reference)


def _build(lanes: list[float], program: RecordedProgram) -> float:
    """Build a program on the lane that is free first; return when that is done."""
    lane = lanes.index(min(lanes))
    lanes[lane] += program.build_seconds
    return lanes[lane]


Curve = NDArray[np.float64]
"""The lowest latency so far, in seconds, after 1, 2, ... trials."""

CUT_OFF = 0.95


@dataclass(frozen=True)
class Baseline:
    """Random search without replacement on a space, as an expectation.

    Attributes
    ----------
    curve: expected lowest latency after each number of trials.
    optimum, median: of the programs that work, in seconds.
    budget: trials after which random search has come ``CUT_OFF`` of the way from the median to the
        optimum.
    """

    curve: Curve
    optimum: float
    median: float
    budget: int


def baseline_of(latencies: Sequence[float], cut_off: float = CUT_OFF) -> Baseline:
    """Compute random search on the programs of a space; failures have an infinite latency.

    Until a program has worked, a run stands at the slowest one that does. RecordingError where
    none works; ValueError for a cut-off outside 0 to 1.
    """
    if not 0 < cut_off < 1:
        raise ValueError(f"cut_off={cut_off}: give a share between 0 and 1")
    known = np.sort(np.asarray(latencies, np.float64))
    working = known[np.isfinite(known)]
    if not len(working):
        raise RecordingError("no program of the space works: there is nothing to score")
    known = np.where(np.isfinite(known), known, working[-1])
    curve = expected_minimum(known)
    optimum, median = float(working[0]), float(np.median(working))
    reached = np.flatnonzero(curve <= median - cut_off * (median - optimum))
    return Baseline(curve, optimum, median, int(reached[0]) + 1 if len(reached) else len(curve))


def expected_minimum(ordered: Curve) -> Curve:
    """Return the expected minimum of 1, 2, ... n values drawn without replacement.

    ``ordered`` is ascending. Of t draws, the k-th smallest value (from 0) is the minimum with
    probability C(n - k - 1, t - 1) / C(n, t).
    """
    count = len(ordered)
    trials = np.arange(1, count + 1)
    # P(the minimum is not among the k smallest) by the next k, for all numbers of trials at once.
    left = np.ones(count)
    found = np.zeros(count)
    for k, value in enumerate(ordered):
        taken = left * trials / (count - k)
        taken = np.minimum(taken, left)
        found += taken * value
        left = left - taken
    return found


def best_so_far(latencies: Sequence[float], slowest: float) -> Curve:
    """Return the lowest latency after each trial; ``slowest`` stands until a program works."""
    return np.minimum.accumulate(np.minimum(np.asarray(latencies, np.float64), slowest))


def score(
    runs: Sequence[Sequence[float]], latencies: Sequence[float], baseline: Baseline | None = None
) -> float:
    """Return the mean over the trials of (random - found) / (random - optimum), up to 1.

    0 is random search, 1 finds the optimum at once, below 0 is worse than random.

    Parameters
    ----------
    runs: of each run, the recorded latencies of what it measured, in order.
    latencies: of all programs of the space; infinite for failures.

    A run that is shorter than the budget stands at its best. ValueError without runs.
    """
    if not runs:
        raise ValueError("no runs to score")
    base = baseline or baseline_of(latencies)
    slowest = max(one for one in latencies if math.isfinite(one))
    curves = [_of_length(best_so_far(run, slowest), base.budget, slowest) for run in runs]
    random, mean = base.curve[: base.budget], np.mean(curves, axis=0)
    gap = random - base.optimum
    counted = gap > 0
    if not counted.any():
        return 0.0
    return float(np.mean((random[counted] - mean[counted]) / gap[counted]))


def _of_length(curve: Curve, length: int, slowest: float) -> Curve:
    last = curve[-1] if len(curve) else slowest
    return np.concatenate([curve[:length], np.full(max(length - len(curve), 0), last)])


def regret(run: Sequence[float], optimum: float, trials: int) -> float:
    """Return how much slower the best of the first trials is than the optimum, as a fraction.

    Infinite where none of them works.
    """
    return min(run[:trials], default=math.inf) / optimum - 1.0
