"""The candidate runner: times and verifies programs of one workload on one backend."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

from schedlang.measurement import Status
from schedlang.targets.measure.backend import Backend, Program
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.expected.windows import learn_windows
from schedlang.targets.measure.fault import Fault, faults
from schedlang.targets.measure.reference import Reference, learn_reference
from schedlang.targets.measure.timing import Timing, TimingPolicy, collect
from schedlang.targets.measure.verify import instability

# A longer unscheduled program is not run a second time: the candidate's time would run out.
_LONGEST_SECOND_OPINION = 1.0


class CandidateRunner:
    """Times programs on one workload's data, and compares their results.

    Parameters
    ----------
    backend: where programs run.
    binding: the workload.
    reference: the right results, as another runner on the same machine learned them; by default
        the binding's. None where nothing is verified, or ``learn`` is called.
    """

    def __init__(
        self, backend: Backend, binding: Binding, reference: Reference | None = None
    ) -> None:
        self._backend = backend
        self._binding = binding
        self._unscheduled: Program | None = None
        self._reference_repeats = False
        known = reference or binding.reference
        self._data = Dataset(
            backend,
            binding.args,
            binding.seed,
            positive=known is not None and known.positive,
            given=binding.values,
            ranges=binding.uses.ranges,
        )
        if reference is None and known is not None:
            known = known.kept_with(self._data)
        self.reference = known
        self._clean = True

    def learn(self, unscheduled: Program) -> Reference:
        """Run the unscheduled program and keep its results as the right ones.

        Raises ``Fault`` when it fails, writes where it must not, or gives no numbers.
        """
        self._unscheduled = unscheduled
        self.reference = learn_reference(lambda: self._call(unscheduled), self._data)
        return self.reference

    def learn_from(self, schedule: Program, part: Program) -> Reference:
        """Run a schedule, and keep its results if those of ``part`` of the program agree.

        Raises ``Fault`` as ``learn`` does, and when they do not.
        """
        with self._backend.running():
            found = learn_reference(lambda: self._call(schedule), self._data)
            if (reason := self._data.changed_input()) is not None:
                raise Fault(Status.WRONG_RESULT, reason)
            windows = learn_windows(lambda: self._call(part), self._data)
        reason = windows.mismatch(found, self._data, self._binding)
        if reason is not None:
            raise Fault(Status.WRONG_RESULT, reason)
        self._data.refill()
        self.reference = found
        return found

    def run(
        self,
        program: Program,
        policy: TimingPolicy,
        best: float | None,
        verify_factor: float | None,
    ) -> Timing:
        """Time a program.

        Its results are verified when its median latency is at most ``verify_factor * best``, or
        when ``best`` is None; never when ``verify_factor`` is None. Raises ``Fault``; wrong
        results are reported even when the time is impossible as well.
        """
        if not self._clean:
            # The last program was not verified: it may have changed what this one would read.
            self._data.refill()
        self._clean = False
        timing = self._time(program, policy, best)
        self._check_bounds()
        if verify_factor is not None and (
            best is None or statistics.median(timing.samples) <= verify_factor * best
        ):
            self._verify(program)
            self._clean = True
            timing = replace(timing, verified=True)
        self._check_samples(timing.samples, policy, self._binding.shortest_time)
        return timing

    def sample(self, program: Program, calls: int, policy: TimingPolicy) -> float:
        """Return seconds per call, after one call that is not counted."""
        with faults(Status.RUN_ERROR), self._backend.running():
            self._seconds(program, 1)
            seconds = self._seconds(program, calls, flush_cache=policy.flush_cache)
        self._clean = False
        self._check_samples((seconds,), policy, self._binding.shortest_time)
        return seconds

    def time_reference(self, unscheduled: Program, policy: TimingPolicy) -> tuple[float, ...]:
        """Return samples of the unscheduled program, in seconds; any positive time is believed."""
        samples = self._time(unscheduled, policy).samples
        self._clean = False
        self._check_samples(samples, policy, shortest_time=0.0)
        return samples

    def _time(self, program: Program, policy: TimingPolicy, best: float | None = None) -> Timing:
        def run(calls: int) -> float:
            return self._seconds(program, calls, flush_cache=policy.flush_cache)

        with faults(Status.RUN_ERROR), self._backend.running():
            return collect(run, policy, best)

    def _seconds(self, program: Program, calls: int, *, flush_cache: bool = False) -> float:
        restore = self._data.restore if self._data.in_place else _nothing
        return program.seconds_per_call(
            self._data.tensors, calls, restore=restore, flush_cache=flush_cache
        )

    def _verify(self, program: Program) -> None:
        reference = self.reference
        if reference is None:
            raise RuntimeError("there is no reference to verify with")
        self._call_afresh(program)
        numerics = self._binding.numerics
        reason = self._data.changed_input() or reference.mismatch(
            self._data, numerics, self._binding.tolerances
        )
        if reason is None:
            return
        if reference.damaged(self._data):
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)
        reason += instability(lambda: self._call_afresh(program), self._data.outputs)
        self._seek_second_opinion(reference, reason)
        raise Fault(Status.WRONG_RESULT, reason)

    def _seek_second_opinion(self, reference: Reference, reason: str) -> None:
        """Raise Fault(corrupt) when the unscheduled program does not repeat its own results.

        It is asked until it does once. Only a runner that learned the reference can ask.
        """
        if self._unscheduled is None or self._reference_repeats:
            return
        if reference.seconds > _LONGEST_SECOND_OPINION:
            return
        self._data.refill()
        self._call(self._unscheduled)
        self._reference_repeats = (
            reference.mismatch(self._data, self._binding.numerics, self._binding.tolerances) is None
        )
        if not self._reference_repeats:
            reason += "; nor does the unscheduled program give its own results again"
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)

    def _call_afresh(self, program: Program) -> None:
        self._data.restore()
        with faults(Status.RUN_ERROR), self._backend.running():
            self._call(program)
        self._check_bounds()

    def _call(self, program: Program) -> None:
        program.entry(*self._data.tensors)

    def _check_bounds(self) -> None:
        if (reason := self._data.overrun()) is not None:
            # Memory beyond the guard may be damaged too.
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)

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


def _nothing() -> None:
    """Do nothing: calls overwrite no tensor that they read."""
