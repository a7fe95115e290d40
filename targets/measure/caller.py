"""Calls of programs on one workload's data, and what the data hold after them."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from schedlang.measurement import Status
from schedlang.measurement.disturbance import Sample
from schedlang.measurement.stopwatch import Stopwatch
from schedlang.targets.measure.backend import Backend, Calls, Program
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.draws import Draw
from schedlang.targets.measure.packed import PackedProgram
from schedlang.targets.measure.timing import Timing, TimingPolicy, collect
from schedlang.targets.worker import floating_point
from schedlang.targets.worker.fault import Fault, faults

# A sample that other work disturbs is taken again so often, for so long.
_TRIES = 6
_TRY_SECONDS = 0.1


class Caller:
    """Calls programs, and keeps account of the inputs.

    Raises ``Fault`` behind each call that has changed how this thread computes with floating-point
    numbers: no other call and no comparison is made in such a state.

    Attributes
    ----------
    data: the tensors.
    last: the draw of the last call, whose results may still be in workspaces; None before any.
    repeated: a program was called again after its first call, so that its results are in the
        tensors of all other calls, too.
    stopwatch: times what calls need besides.
    """

    def __init__(self, backend: Backend, data: Dataset) -> None:
        self._backend = backend
        self.data = data
        self.last: Draw | None = None
        self.repeated = False
        self.stopwatch = Stopwatch()
        # A weak reference: a caller may be kept for long, and packed weights may be large.
        self._packed: Callable[[], PackedProgram | None] = _none
        # Whether the inputs in place are known to be as they were drawn.
        self._clean = True

    def vouch(self) -> None:
        """Take the inputs in place as they are drawn: they were compared after the last call."""
        self._clean = True

    def put(self, draw: Draw) -> None:
        """Put the inputs of a draw in place, unless they are there and as they were drawn."""
        if self.data.draw != draw or not self._clean:
            with self.stopwatch.timing("fill"):
                self.data.place(draw)
            self._clean = True

    def call(self, program: Program) -> None:
        """Call a program once."""
        self._pack(program)
        self._note_call()
        self.repeated = True
        program.entry(*self.data.tensors)
        floating_point.check()

    def call_first(self, program: Program, *, poison: bool = True, protect: bool = False) -> Sample:
        """Call a program and keep what it writes; return how long it took.

        Without ``poison`` workspaces stay as other calls left them. With ``protect`` this process
        ends where the program writes to an input.
        """
        self._pack(program)
        guard = self._read_only(program) if protect else nullcontext()
        with self.stopwatch.timing("fill"):
            self.data.restore_first()
        with faults(Status.RUN_ERROR), self._backend.running():
            self._note_call()
            self.repeated = False
            with guard:
                self._begin()
                start = filled = time.perf_counter()
                if poison:
                    # Right before the call: all that runs between writes to the stack.
                    self._backend.poison_workspaces(self.data.fill)
                    filled = time.perf_counter()
                program.entry(*self.data.first_tensors)
                sample = self._sample(time.perf_counter() - filled)
            floating_point.check()
        if poison:
            self.stopwatch.add("poison", filled - start)
        return sample

    def sample(self, program: Program, calls: int, *, flush_cache: bool = False) -> Sample:
        """Time some calls in a row."""
        restore = self.data.restore if self.data.in_place else _nothing
        self._pack(program)
        self._note_call()
        self.repeated = True
        seconds = program.seconds_per_call(
            Calls(self.data.tensors, calls, restore, flush_cache, self._begin)
        )
        sample = self._sample(seconds, calls)
        floating_point.check()
        return sample

    def sample_quietly(self, program: Program, calls: int, *, flush_cache: bool = False) -> Sample:
        """Time some calls in a row, again while other work disturbs them; return the best of it."""
        taken: list[Sample] = []
        spent = 0.0
        while not taken or (taken[-1].disturbed and len(taken) < _TRIES and spent < _TRY_SECONDS):
            taken.append(self.sample(program, calls, flush_cache=flush_cache))
            spent += taken[-1].seconds * calls
        return min(taken, key=lambda sample: (bool(sample.disturbed), sample.seconds))

    def time(
        self,
        program: Program,
        policy: TimingPolicy,
        best: float | None = None,
        cold: Sample | None = None,
    ) -> Timing:
        """Time a program, see ``collect``."""

        def run(calls: int) -> Sample:
            return self.sample(program, calls, flush_cache=policy.flush_cache)

        with faults(Status.RUN_ERROR), self._backend.running():
            return collect(run, policy, best, cold=cold)

    def check_bounds(self) -> None:
        """Raise ``Fault`` where a program wrote next to a tensor."""
        reason = self.data.overrun()
        if reason is None and (packed := self._packed()) is not None:
            reason = packed.overrun()
        if reason is not None:
            # Memory beyond the guard may be damaged too.
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)

    def _begin(self) -> None:
        if self._backend.waits is not None:
            self._backend.waits.begin()

    def _sample(self, seconds: float, calls: int = 1) -> Sample:
        """Return a sample of these seconds per call, which were counted since ``_begin``."""
        waits = self._backend.waits
        waited = None if waits is None else waits.waited(seconds * calls)
        return Sample(seconds, None if waited is None else waited / calls)

    def _pack(self, program: Program) -> None:
        """Pack the weights in place for a program that reads them so; no time counts as its own."""
        if not isinstance(program, PackedProgram):
            return
        last = self._packed()
        if last is not program and last is not None:
            last.release_large()
        self._packed = weakref.ref(program)
        with self.stopwatch.timing("fill"), faults(Status.RUN_ERROR):
            program.pack(self.data.tensors, self.data.version, self.data.fill)

    @contextmanager
    def _read_only(self, program: Program) -> Iterator[None]:
        packed = program.read_only() if isinstance(program, PackedProgram) else nullcontext()
        with self.data.read_only_inputs(), packed:
            yield

    def _note_call(self) -> None:
        """Remember that a program is called, which may change what is in place."""
        self.last, self._clean = self.data.draw, False


def _none() -> None:
    """No program has packed weights yet."""


def _nothing() -> None:
    """Do nothing: calls overwrite no tensor that they read."""
