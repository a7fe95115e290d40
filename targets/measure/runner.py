"""The candidate runner: times and verifies programs of one workload on one backend."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import NoReturn
from weakref import WeakSet

from schedlang.measurement import Status
from schedlang.measurement.stopwatch import Stopwatch
from schedlang.targets.measure.backend import Backend, Program
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.dataset import Dataset, same_bits
from schedlang.targets.measure.draws import Draw
from schedlang.targets.measure.expected.learning import learn
from schedlang.targets.measure.expected.results import Results
from schedlang.targets.measure.expected.wide import WideProgram
from schedlang.targets.measure.expected.windows import learn_windows
from schedlang.targets.measure.fault import Fault, faults
from schedlang.targets.measure.reference import Reference, learn_reference
from schedlang.targets.measure.repeats import ONCE, REPEATS, Repeats
from schedlang.targets.measure.timing import Timing, TimingPolicy, collect
from schedlang.targets.measure.verify import Array

# A longer unscheduled program is not run a second time: the candidate's time would run out.
_LONGEST_SECOND_OPINION = 1.0
_UNSTABLE = "; run again it gives other results: its threads race, or it reads what it never wrote"


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
    reference: the right results; None where they are not known.
    unreached: after ``learn``, the sides of the program's branches that no inputs take, as text.
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
            backend, binding.inputs, None if known is None else known.results[0].draw
        )
        if reference is None and known is not None:
            known = known.kept_with(self._data)
        self.reference = known
        self.unreached: tuple[str, ...] = ()
        self.stopwatch = Stopwatch()
        # Whether the inputs in place are known to be as they were drawn.
        self._clean = True
        # Programs that gave right results again while they were timed.
        self._confirmed: WeakSet[Program] = WeakSet()
        # The draw of the last call, whose results may still be in workspaces.
        self._last: Draw | None = None

    def learn(self, unscheduled: Program, wide: Program | None = None) -> Reference:
        """Run the unscheduled program and keep its results as the right ones.

        ``wide`` is the same program with wider numbers, as ``Binding.widened`` has it. Raises
        ``Fault`` when the program fails, writes where it must not, gives no numbers, or races.
        """
        if unscheduled.determinism.race is not None:
            raise Fault(Status.WRONG_RESULT, unscheduled.determinism.race)
        self._unscheduled = unscheduled
        self._backend.poison_workspaces()
        binding = self._binding
        with self.stopwatch.timing("references"):
            learned = learn(
                lambda: self._call(unscheduled),
                self._data,
                binding,
                None if wide is None else WideProgram(self._backend, wide, binding.args),
            )
        self.reference, self.unreached = learned
        return self.reference

    def learn_from(self, schedule: Program, part: Program) -> Reference:
        """Run a schedule, and keep its results if those of ``part`` of the program agree.

        There is one draw of inputs. Raises ``Fault`` as ``learn`` does, and when they do not.
        """
        with self._backend.running():
            self._backend.poison_workspaces()
            found = learn_reference(lambda: self._call(schedule), self._data)
            if (reason := self._data.changed_input()) is not None:
                raise Fault(Status.WRONG_RESULT, reason)
            windows = learn_windows(lambda: self._call(part), self._data)
        reason = windows.mismatch(found, self._data, self._binding)
        if reason is not None:
            raise Fault(Status.WRONG_RESULT, reason)
        self._data.select(self._data.draw)
        self.reference = found
        return found

    def run(
        self,
        program: Program,
        policy: TimingPolicy,
        best: float | None,
        verify_factor: float | None,
        repeats: Repeats = REPEATS,
    ) -> Timing:
        """Time a program.

        Its results are verified when its median latency is at most ``verify_factor * best``, or
        when ``best`` is None; never when ``verify_factor`` is None. Raises ``Fault``; wrong
        results are reported even when the time is impossible as well.

        Its first call has inputs of another draw than the last call of any program here, and
        workspaces without results of earlier calls: a program that reads an intermediate result
        before it computes it finds no right one. What that call writes is compared when the
        program is verified, and so are calls on every draw of inputs, ``repeats`` in all. Times are
        those of the first draw.
        """
        first, slowest = 0, -math.inf
        if verify_factor is not None:
            first, slowest = self._unlike_last(), math.inf if best is None else verify_factor * best
        self._put(self._draws[first])
        self._data.otherwise = False
        cold = self._call_first(program, poison=verify_factor is not None)
        self._use_first_draw()
        timing = self._time(program, policy, best, cold)
        self._check_bounds()
        latency = statistics.median(timing.samples)
        if latency <= slowest:
            with self.stopwatch.timing("compare"):
                self._verify(program, first, repeats, latency)
            self._clean = True
            timing = replace(timing, verified=True)
        self._check_samples(timing.samples, policy, self._binding.shortest_time)
        return timing

    def sample(
        self, program: Program, calls: int, policy: TimingPolicy, *, verify: bool = False
    ) -> float:
        """Return seconds per call, after one call that is not counted.

        With ``verify`` the results of that call are compared, and those of the last one unless
        earlier ones changed what it reads. The program must have been verified before. One that
        gives the same results in every call is compared until it was right once.
        """
        verify = verify and program not in self._confirmed
        if verify:
            self._put(self._draws[0])
            self._data.otherwise = False
            with self.stopwatch.timing("fill"):
                self._data.restore()
        else:
            self._use_first_draw()
        with faults(Status.RUN_ERROR), self._backend.running():
            self._seconds(program, 1)
            if verify:
                self._verify_again(calls=1)
            seconds = self._seconds(program, calls, flush_cache=policy.flush_cache)
        if verify:
            self._verify_again(calls)
            self._clean = True
            if program.determinism.proven:
                self._confirmed.add(program)
        self._check_samples((seconds,), policy, self._binding.shortest_time)
        return seconds

    def time_reference(self, unscheduled: Program, policy: TimingPolicy) -> tuple[float, ...]:
        """Return samples of the unscheduled program, in seconds; any positive time is believed."""
        self._use_first_draw()
        samples = self._time(unscheduled, policy).samples
        self._check_samples(samples, policy, shortest_time=0.0)
        return samples

    def _unlike_last(self) -> int:
        """Return the place of a draw that the last call did not have, if there is another."""
        return next((place for place, draw in enumerate(self._draws) if draw != self._last), 0)

    def _call_first(self, program: Program, *, poison: bool = True, protect: bool = False) -> float:
        """Call a program and keep what it writes; return the seconds.

        Without ``poison`` workspaces stay as other calls left them. With ``protect`` this process
        ends where the program writes to an input.
        """
        guard = self._data.read_only_inputs() if protect else nullcontext()
        with self.stopwatch.timing("fill"):
            self._data.restore_first()
        with faults(Status.RUN_ERROR), self._backend.running():
            if poison:
                with self.stopwatch.timing("poison"):
                    self._backend.poison_workspaces()
            self._note_call()
            with guard:
                start = time.perf_counter()
                program.entry(*self._data.first_tensors)
                return time.perf_counter() - start

    @property
    def _draws(self) -> list[Draw]:
        if self.reference is None:
            return [self._data.draw]
        return [results.draw for results in self.reference.results]

    def _use_first_draw(self) -> None:
        if self._data.draw != self._draws[0]:
            self._put(self._draws[0])

    def _put(self, draw: Draw) -> None:
        """Put the inputs of a draw in place, unless they are there and as they were drawn."""
        if self._data.draw != draw or not self._clean:
            with self.stopwatch.timing("fill"):
                self._data.place(draw)
            self._clean = True

    def _time(
        self,
        program: Program,
        policy: TimingPolicy,
        best: float | None = None,
        cold: float | None = None,
    ) -> Timing:
        def run(calls: int) -> float:
            return self._seconds(program, calls, flush_cache=policy.flush_cache)

        with faults(Status.RUN_ERROR), self._backend.running():
            return collect(run, policy, best, cold=cold)

    def _seconds(self, program: Program, calls: int, *, flush_cache: bool = False) -> float:
        restore = self._data.restore if self._data.in_place else _nothing
        self._note_call()
        return program.seconds_per_call(
            self._data.tensors, calls, restore=restore, flush_cache=flush_cache
        )

    def _verify(self, program: Program, first: int, repeats: Repeats, latency: float) -> None:
        """Compare results on every draw; those on the ``first`` are there already.

        A call takes ``latency`` seconds. One that gives the same results in every call is called
        once more, on the first; others as often on each as ``repeats`` says.
        """
        if program.determinism.race is not None:
            raise Fault(Status.WRONG_RESULT, program.determinism.race)
        results, proven = self._known.results, program.determinism.proven
        repeats = ONCE if proven else repeats
        calls: Callable[[], Iterator[None]] = partial(repeats.calls, len(results), latency)
        # Once for all calls, as it takes a while to move a thread to another CPU.
        with self._backend.running():
            # The others overwrite what the first left.
            for right in (results[first], *results[:first], *results[first + 1 :]):
                # Programs that compute only over what an output held the first time are found out.
                self._data.otherwise = right is not results[first]
                with self.stopwatch.timing("fill"):
                    if self._data.draw != right.draw:
                        self._data.place(right.draw)
                reason = self._compare(program, right, calls, called=right is results[first])
                if reason is not None:
                    self._refuse(right, reason)
                if proven:
                    calls = _no_calls

    def _verify_again(self, calls: int) -> None:
        """Compare the results of the last of some calls on the first draw, where they are right."""
        right, data = self._known.results[0], self._data
        with self.stopwatch.timing("compare"):
            reason = data.changed_input()
            if reason is None and (calls == 1 or not data.in_place):
                reason = self._mismatch(right, data.written())
            if reason is not None:
                self._refuse(right, reason + _UNSTABLE)

    @property
    def _known(self) -> Reference:
        if self.reference is None:
            raise RuntimeError("there is no reference to verify with")
        return self.reference

    def _refuse(self, right: Results, reason: str) -> NoReturn:
        if self._known.damaged(self._data):
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)
        self._seek_second_opinion(right, reason)
        raise Fault(Status.WRONG_RESULT, reason)

    def _compare(
        self,
        program: Program,
        right: Results,
        calls: Callable[[], Iterator[None]],
        *,
        called: bool,
    ) -> str | None:
        """Say why results on the draw in place are not right, in any of several calls."""
        data, again, unstable = self._data, None, False
        if not called:
            with self.stopwatch.timing("other draws"):
                self._call_first(program, poison=False, protect=True)
        got = data.first_written()
        with faults(Status.RUN_ERROR), self._backend.running():
            for _ in calls():
                with self.stopwatch.timing("repeats"):
                    data.restore()
                    self._call(program)
                    outputs = data.written()
                    same = all(map(same_bits, got, outputs))
                if not same:
                    unstable = True
                    again = self._mismatch(right, outputs)
                    if again is not None:
                        break
        self._check_bounds()
        reason = data.changed_input() or self._mismatch(right, got) or again
        return reason + _UNSTABLE if reason is not None and unstable else reason

    def _mismatch(self, right: Results, outputs: Sequence[Array]) -> str | None:
        binding = self._binding
        return right.mismatch(
            outputs,
            self._data.output_types,
            binding.numerics,
            binding.tolerances,
            self._data.values,
            self._data.contents(),
        )

    def _seek_second_opinion(self, right: Results, reason: str) -> None:
        """Raise Fault(corrupt) when the unscheduled program does not repeat its own results.

        It is asked until it does once. Only a runner that learned the reference can ask.
        """
        if self._unscheduled is None or self._reference_repeats:
            return
        if self._known.seconds > _LONGEST_SECOND_OPINION:
            return
        self._data.select(right.draw)
        self._call(self._unscheduled)
        self._reference_repeats = self._mismatch(right, self._data.written()) is None
        if not self._reference_repeats:
            reason += "; nor does the unscheduled program give its own results again"
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)

    def _note_call(self) -> None:
        """Remember that a program is called, which may change what is in place."""
        self._last, self._clean = self._data.draw, False

    def _call(self, program: Program) -> None:
        self._note_call()
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


def _no_calls() -> Iterator[None]:
    return iter(())


def _nothing() -> None:
    """Do nothing: calls overwrite no tensor that they read."""
