"""The candidate runner: times and verifies programs of one workload on one backend."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from weakref import WeakSet

from schedlang.measurement import Status
from schedlang.measurement.clock import PhaseLog
from schedlang.measurement.disturbance import Sample
from schedlang.targets.errors import Fault, faults
from schedlang.targets.measure.backend import Backend, Dataset, LoadedProgram
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.calls import Caller
from schedlang.targets.measure.draws import InputDraw
from schedlang.targets.measure.learning import (
    cover,
    given_mismatch,
    learn,
    part_mismatch,
    unreached_by,
)
from schedlang.targets.measure.reference import Reference, learn_draw, learn_reference
from schedlang.targets.measure.right_results import Results, WideProgram
from schedlang.targets.measure.steady import Steadiness
from schedlang.targets.measure.timing import ProgramTiming, TimingPolicy, warm_up
from schedlang.targets.measure.verification import REPEATS, Repeats, Verifier

# A core that was busy until now only needs the program's code and data in its caches.
_CACHES_SECONDS = 0.001


class CandidateRunner:
    """Times programs on one workload's data, and compares their results.

    Parameters
    ----------
    backend: where programs run.
    binding: the workload.
    reference: the right results, as another runner on the same machine learned them; by default
        the binding's. None where nothing is verified, or ``learn`` is called.

    Attributes
    ----------
    stopwatch: how long each part of verification took.
    """

    def __init__(
        self, backend: Backend, binding: Binding, reference: Reference | None = None
    ) -> None:
        self._backend = backend
        self._binding = binding
        known = reference or binding.reference
        self._data = Dataset(
            backend, binding.inputs, None if known is None else known.results[0].draw
        )
        if reference is None and known is not None:
            known = known.kept_with(self._data)
        self._caller = Caller(backend, self._data)
        self._verifier = Verifier(backend, binding, self._caller, known)
        self.stopwatch = self._caller.stopwatch
        self._unreached: tuple[str, ...] | None = None
        # Programs that gave right results again while they were timed.
        self._confirmed: WeakSet[LoadedProgram] = WeakSet()

    @property
    def unreached(self) -> tuple[str, ...]:
        """The sides of the program's branches that no inputs take, as text."""
        if self._unreached is None:
            known = self.reference if self._binding.verifies else None
            self._unreached = () if known is None else unreached_by(known, self._binding)
        return self._unreached

    @property
    def reference(self) -> Reference | None:
        """The right results; None where they are not known."""
        return self._verifier.reference

    @reference.setter
    def reference(self, reference: Reference) -> None:
        self._verifier.reference = reference

    def learn(
        self,
        unscheduled: LoadedProgram,
        wide: LoadedProgram | None = None,
        threads: LoadedProgram | None = None,
    ) -> Reference:
        """Run the unscheduled program and keep its results as the right ones.

        ``wide`` is the same program with wider numbers, as ``Binding.widened`` has it. ``threads``
        is the same with several threads: it runs on all draws but the first. Raises ``Fault`` when
        the program fails, writes where it must not, gives no numbers, or races.
        """
        if unscheduled.determinism.race is not None:
            raise Fault(Status.WRONG_RESULT, unscheduled.determinism.race)
        self._verifier.unscheduled = lambda: unscheduled
        self._backend.poison_workspaces(self._data.fill)
        binding = self._binding
        with self.stopwatch.timing("references"):
            reference, self._unreached = learn(
                lambda: self._caller.call(unscheduled),
                self._data,
                binding,
                None if wide is None else WideProgram(self._backend, wide, binding.args),
                None if threads is None else lambda: self._caller.call(threads),
            )
        self.reference = reference
        return reference

    def recall(self, unscheduled: Callable[[], LoadedProgram]) -> None:
        """Say what makes the program that gave the right results, which was not run here."""
        self._verifier.unscheduled = unscheduled

    def learn_from(self, schedule: LoadedProgram, part: LoadedProgram) -> Reference:
        """Run a schedule, and keep its results if those of ``part`` of the program agree.

        There is one draw of inputs, and one more where that takes other sides of branches. Raises
        ``Fault`` as ``learn`` does, and when they do not agree.
        """
        if schedule.determinism.race is not None:
            raise Fault(Status.WRONG_RESULT, schedule.determinism.race)
        binding, data = self._binding, self._data

        def call() -> None:
            self._caller.call(schedule)

        def check(found: Reference) -> str | None:
            return part_mismatch(lambda: self._caller.call(part), data, found, binding)

        def attempt(draw: InputDraw) -> Results | None:
            results = learn_draw(call, data, draw, steady)
            if results is None or check(Reference((results,))) is not None:
                return None
            return results

        steady = Steadiness(
            call, data, binding.numerics, binding.tolerances, None, polynomial=binding.is_polynomial
        )
        with self._backend.running():
            self._backend.poison_workspaces(self._data.fill)
            found = learn_reference(call, data)
            if (reason := data.changed_input() or check(found)) is not None:
                raise Fault(Status.WRONG_RESULT, reason)
            found, self._unreached = cover(found, data, binding, attempt)
        data.select(found.results[0].draw)
        self.reference = found
        return found

    def given_mismatch(self, unscheduled: LoadedProgram, *, part: bool = False) -> str | None:
        """Say in one line how the unscheduled program differs from a user's results, if it does.

        ``part`` says that ``unscheduled`` is a part of it. Raises ``Fault`` when it fails.
        """
        assert self.reference is not None
        with self.stopwatch.timing("references"), self._backend.running():
            self._backend.poison_workspaces(self._data.fill)
            return given_mismatch(
                lambda: self._caller.call(unscheduled),
                self._data,
                self.reference,
                self._binding,
                part=part,
            )

    def run(
        self,
        program: LoadedProgram,
        policy: TimingPolicy,
        best: float | None,
        verify_factor: float | None,
        repeats: Repeats = REPEATS,
        log: PhaseLog | None = None,
    ) -> ProgramTiming:
        """Time a program.

        Its results are verified when its median latency is at most ``verify_factor * best``, or
        when ``best`` is None; never when ``verify_factor`` is None. Raises ``Fault``; wrong
        results are reported even when the time is impossible as well.

        Its first call has inputs of another draw than the last call of any program here, and
        workspaces without results of earlier calls: a program that reads an intermediate result
        before it computes it finds no right one. So it is with the first call on each other
        draw, where workspaces and outputs are filled with something else. What these calls write is
        compared when the program is verified, ``repeats`` in all. Times are those of the first
        draw. ``log`` is told when it runs, and when it is verified.
        """
        log = log or PhaseLog()
        log.enter("run")
        first, slowest = 0, -math.inf
        if verify_factor is not None:
            first, slowest = self._unlike_last(), math.inf if best is None else verify_factor * best
        self._caller.put(self._verifier.draws[first])
        self._data.call_number = len(self._verifier.draws) if repeats.again else 0
        cold = self._caller.call_first(program, poison=verify_factor is not None)
        self._use_first_draw()
        timing = self._caller.time(program, policy, best, cold)
        self._caller.check_bounds()
        latency = statistics.median(timing.samples)
        if latency <= slowest:
            log.enter("verify")
            with self.stopwatch.timing("compare"):
                self._verifier.verify(program, first, repeats, latency)
            timing = replace(timing, verified=True)
        self._check_samples(timing.samples, policy, self._binding.shortest_time)
        return timing

    def sample(
        self,
        program: LoadedProgram,
        calls: int,
        policy: TimingPolicy,
        *,
        verify: bool = False,
        busy: bool = False,
    ) -> Sample:
        """Time calls in a row, when it is warm; again where that is disturbed.

        Where the machine was ``busy`` with another program until now, it takes less to be warm.

        With ``verify`` the results of a first call are compared, and those of the last one unless
        earlier ones changed what it reads. The program must have been verified before. One that
        gives the same results in every call is compared until it was right once.
        """
        verify = verify and program not in self._confirmed
        if verify:
            self._caller.put(self._verifier.draws[0])
            self._data.call_number = 0
            with self.stopwatch.timing("fill"):
                self._data.restore()
        else:
            self._use_first_draw()
        with faults(Status.RUN_ERROR), self._backend.running():
            first = self._caller.sample(program, 1)
        if verify:
            self._verifier.verify_again(calls=1)
        elif busy:
            policy = replace(policy, warm_seconds=min(policy.warm_seconds, _CACHES_SECONDS))
        # While results are compared, and before the first program of a round, the machine is idle.
        with faults(Status.RUN_ERROR), self._backend.running():
            warm_up(lambda calls: self._caller.sample(program, calls), first, policy)
            sample = self._caller.sample_quietly(program, calls, flush_cache=policy.flush_cache)
        if verify:
            self._verifier.verify_again(calls)
            self._caller.vouch()
            if program.determinism.proven:
                self._confirmed.add(program)
        self._check_samples((sample.seconds,), policy, self._binding.shortest_time)
        return sample

    def time_reference(self, unscheduled: LoadedProgram, policy: TimingPolicy) -> tuple[float, ...]:
        """Return samples of the unscheduled program, in seconds; any positive time is believed."""
        self._use_first_draw()
        samples = self._caller.time(unscheduled, policy).samples
        self._check_samples(samples, policy, shortest_time=0.0)
        return samples

    def _unlike_last(self) -> int:
        """Return the place of a draw that the last call did not have, if there is another."""
        draws = enumerate(self._verifier.draws)
        return next((place for place, draw in draws if draw != self._caller.last), 0)

    def _use_first_draw(self) -> None:
        first = self._verifier.draws[0]
        if self._data.draw != first:
            self._caller.put(first)

    def _check_samples(
        self, samples: tuple[float, ...], policy: TimingPolicy, shortest_time: float
    ) -> None:
        """Raise Fault(SUSPICIOUS_TIME) for times that cannot be, or that the clock cannot tell."""
        lowest = min(samples)
        reason = None
        if not (lowest > 0 and all(map(math.isfinite, samples))):
            reason = f"a call took {lowest:g} s by {self._backend.clock}"
        elif lowest < shortest_time:
            reason = (
                f"a call took {lowest:.3g} s, and its arithmetic takes {self._backend.machine} "
                f"more than {shortest_time:.3g} s; if it is right, give the target "
                "peak_flops=math.inf"
            )
        elif policy.flush_cache and lowest < (least := self._backend.shortest_call()):
            reason = (
                f"a call took {lowest:.3g} s, and the clock can time single calls from "
                f"{least:.3g} s on: do without flush_cache"
            )
        if reason is not None:
            raise Fault(Status.SUSPICIOUS_TIME, reason, samples=samples)
