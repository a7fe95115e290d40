"""What happens inside a worker: one workload's data, and the programs built and run on them."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from schedlang.measurement import Status
from schedlang.targets.cpu.cache import CacheFlusher
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.fault import Fault, faults
from schedlang.targets.measure.inputs import TensorSpec
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.timing import Timing, TimingPolicy, collect, shortest_call
from schedlang.targets.measure.verify import Numerics, instability, is_floating
from schedlang.tvm import codegen
from schedlang.tvm.codegen import runtime
from schedlang.tvm.program import MAIN, from_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tvm.target import Target as TVMTarget

_CLOCK_TRIES = 3
# A longer unscheduled program is not run a second time: the candidate's time would run out.
_LONGEST_SECOND_OPINION = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one run: samples in seconds, and whether the outputs were compared and agree."""

    samples: tuple[float, ...]
    verified: bool


@dataclass(frozen=True, slots=True)
class _Program:
    """Code, and loops around it by the number of calls they make."""

    module: Any
    entry: Callable[..., Any]
    timers: dict[int, Callable[..., float]] = field(default_factory=dict)


class Workbench:
    """One workload on one target.

    Parameters
    ----------
    program: the unscheduled program, as TVM's JSON.
    args: the tensors of one call.
    target: what to compile for.
    cpus: logical CPUs, one a thread; while a program runs, the calling thread stays on the first.
    seed: of the random inputs.
    reference: run the unscheduled program, so that results can be verified.
    shortest_time: seconds below which no call is to be believed.

    Attributes
    ----------
    reference_seconds: what the last call for the ``reference`` took; None without one.

    Raises ``Fault`` when the unscheduled program does not build, run, or give numbers.
    """

    def __init__(
        self,
        program: str,
        args: Sequence[TensorSpec],
        target: TVMTarget,
        cpus: Sequence[int],
        seed: int,
        *,
        reference: bool,
        shortest_time: float = 0.0,
    ) -> None:
        self._target = target
        self._cpus = tuple(cpus)
        self._shortest_time = shortest_time
        self._mask = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
        self._built: dict[int, _Program] = {}
        self._data = Dataset(args, seed)
        self._clean = True
        self._flusher: CacheFlusher | None = None
        self._unscheduled = from_json(program)
        self._unscheduled_code: _Program | None = None
        self._reference: Reference | None = None
        self._reference_repeats = False
        self.reference_seconds: float | None = None
        if reference:
            code = self._unscheduled_program()
            self._reference = Reference(
                lambda: self._run_reference(code), self._data, numerics(self._unscheduled)
            )
        self._data.restore()

    def _run_reference(self, program: _Program) -> None:
        self.reference_seconds = self._time_one(program)

    def build(self, identity: int, program: str) -> None:
        """Compile a program and generate its machine code; Fault(BUILD_ERROR) if that fails."""
        with faults(Status.BUILD_ERROR):
            self._built[identity] = self._compile(from_json(program))

    def discard(self) -> None:
        """Forget every program that was built and not run."""
        self._built.clear()

    def run(
        self,
        identity: int,
        policy: TimingPolicy,
        best: float | None,
        verify_factor: float | None,
        *,
        keep: bool = False,
    ) -> Outcome:
        """Time a built program, and forget it unless told to ``keep`` it for ``sample``.

        Verified when its median is at most ``verify_factor * best``, or there is no best; with None
        never. Raises Fault. A program that is wrong is told so even when its time is impossible.
        """
        program = self._built[identity] if keep else self._built.pop(identity)
        if not self._clean:
            # The last program was not verified: it may have changed what this one would read.
            self._data.restore()
        self._clean = False
        timing = self._time(program, policy, best)
        self._check_bounds()
        verified = False
        if verify_factor is not None and (
            best is None or statistics.median(timing.samples) <= verify_factor * best
        ):
            self._verify(program)
            verified = self._clean = True
        _check_samples(timing.samples, policy, self._shortest_time)
        return Outcome(timing.samples, verified)

    def sample(self, identity: int, calls: int, policy: TimingPolicy) -> float:
        """Seconds per call of a program that was kept, after one call that is not counted."""
        program = self._built[identity]
        with faults(Status.RUN_ERROR), self._pinned():
            self._timed(program, 1, replace(policy, flush_cache=False))
            seconds = self._timed(program, calls, policy)
        self._clean = False
        _check_samples((seconds,), policy, self._shortest_time)
        return seconds

    def time_reference(self, policy: TimingPolicy) -> tuple[float, ...]:
        """Samples of the unscheduled program, in seconds; they are believed, however short."""
        samples = self._time(self._unscheduled_program(), policy).samples
        self._clean = False
        _check_samples(samples, policy, shortest_time=0.0)
        return samples

    def _time(self, program: _Program, policy: TimingPolicy, best: float | None = None) -> Timing:
        """Latency of a program on this workload's data."""
        with faults(Status.RUN_ERROR), self._pinned():
            return collect(lambda calls: self._timed(program, calls, policy), policy, best)

    def _timed(self, program: _Program, calls: int, policy: TimingPolicy) -> float:
        """Seconds per call, of ``calls`` in a row."""
        if self._data.in_place:
            self._data.restore()
        if policy.flush_cache:
            if self._flusher is None:
                self._flusher = CacheFlusher(self._cpus, self._target)
            self._flusher.flush()
        if calls == 1:
            return self._time_one(program)
        if calls not in program.timers:
            program.timers[calls] = runtime.batch_timer(program.module, MAIN, calls)
        return self._time_batch(program, program.timers[calls], calls)

    def _time_one(self, program: _Program) -> float:
        start = time.perf_counter()
        program.entry(*self._data.tensors)
        return time.perf_counter() - start

    def _time_batch(self, program: _Program, timer: Callable[..., float], calls: int) -> float:
        for _ in range(_CLOCK_TRIES):
            start = time.perf_counter()
            seconds = timer(*self._data.tensors)
            wall = time.perf_counter() - start
            # The loop's clock may be stepped while it runs; a result that the monotonic clock
            # contradicts is taken again.
            if 0.25 * wall / (calls + 1) <= seconds <= wall / calls:
                return seconds
        start = time.perf_counter()
        for _ in range(calls):
            program.entry(*self._data.tensors)
        return (time.perf_counter() - start) / calls

    def _verify(self, program: _Program) -> None:
        reference = self._reference
        if reference is None:
            raise RuntimeError("the workbench was made without a reference")
        self._call_afresh(program)
        reason = self._data.changed_input() or reference.mismatch()
        if reason is None:
            return
        if reference.damaged:
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)
        reason += instability(lambda: self._call_afresh(program), self._data.outputs)
        self._seek_second_opinion(reference, reason)
        raise Fault(Status.WRONG_RESULT, reason)

    def _call_afresh(self, program: _Program) -> None:
        self._data.restore()
        with faults(Status.RUN_ERROR), self._pinned():
            program.entry(*self._data.tensors)
        self._check_bounds()

    def _seek_second_opinion(self, reference: Reference, reason: str) -> None:
        """Fault(corrupt) when the unscheduled program does not give its own results again.

        It is asked until it does once.
        """
        seconds = self.reference_seconds
        if self._reference_repeats or seconds is None or seconds > _LONGEST_SECOND_OPINION:
            return
        self._reference_repeats = reference.repeats()
        if not self._reference_repeats:
            reason += "; nor does the unscheduled program give its own results again"
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)

    def _check_bounds(self) -> None:
        if (reason := self._data.overrun()) is not None:
            # What lies beyond the guard may be damaged too.
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)

    def _compile(self, mod: Any) -> _Program:
        executable = codegen.compile_program(mod, self._target, check_arguments=False)
        return _Program(executable.jit(), codegen.load_code(executable))

    def _unscheduled_program(self) -> _Program:
        if self._unscheduled_code is None:
            with faults(Status.BUILD_ERROR):
                self._unscheduled_code = self._compile(self._unscheduled)
        return self._unscheduled_code

    @contextmanager
    def _pinned(self) -> Iterator[None]:
        """Keep the calling thread on the first CPU; the pool's threads are on the others."""
        if self._mask is None:
            yield
            return
        os.sched_setaffinity(0, {self._cpus[0]})
        try:
            yield
        finally:
            os.sched_setaffinity(0, self._mask)


def numerics(mod: Any) -> Numerics:
    """How exactly the results of a program are defined."""
    read, written = codegen.accessed_types(mod)
    return Numerics(
        codegen.reduction_length(mod),
        frozenset(filter(is_floating, written)),
        any(map(is_floating, read | written)),
    )


def _check_samples(samples: tuple[float, ...], policy: TimingPolicy, shortest_time: float) -> None:
    """Fault(SUSPICIOUS_TIME) for times that cannot be, or that the clock cannot tell."""
    lowest = min(samples)
    reason = None
    if not (lowest > 0 and all(map(math.isfinite, samples))):
        reason = f"a call took {lowest:g} s by the clock"
    elif lowest < shortest_time:
        reason = (
            f"a call took {lowest:.3g} s, and its arithmetic takes this machine more than "
            f"{shortest_time:.3g} s; if it is right, give the target peak_flops=math.inf"
        )
    elif policy.flush_cache and lowest < (least := shortest_call()):
        reason = (
            f"a call took {lowest:.3g} s, and the clock can time single calls from {least:.3g} s "
            "on: do without flush_cache"
        )
    if reason is not None:
        raise Fault(Status.SUSPICIOUS_TIME, reason, samples=samples)
