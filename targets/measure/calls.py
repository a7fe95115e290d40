"""Calls of programs on one workload's data, and what the data hold after them.

``Caller`` times and makes the calls. Where weights are packed ahead of the calls, outside of what
is timed, ``split_program`` cuts the packing off and ``PackedProgram`` runs the rest.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from schedlang.codec import Stored
from schedlang.measurement import Status
from schedlang.measurement.clock import Stopwatch
from schedlang.measurement.disturbance import Sample
from schedlang.measurement.problem import Fill, content
from schedlang.targets.errors import Fault, faults
from schedlang.targets.measure import floating_point
from schedlang.targets.measure.backend import (
    Backend,
    Calls,
    Dataset,
    LoadedProgram,
    TensorMemory,
    overrun_of,
)
from schedlang.targets.measure.draws import InputDraw
from schedlang.targets.measure.timing import ProgramTiming, TimingPolicy, collect
from schedlang.tvm.analysis.races import Determinism
from schedlang.tvm.packing import packing_name, split_packing
from schedlang.tvm.program import MAIN, TensorProgram

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import DeviceArray


# -- Calls ----------------------------------------------------------------------------------------

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
        self.last: InputDraw | None = None
        self.repeated = False
        self.stopwatch = Stopwatch()
        # A weak reference: a caller may be kept for long, and packed weights may be large.
        self._packed: Callable[[], PackedProgram | None] = _none
        # Whether the inputs in place are known to be as they were drawn.
        self._clean = True

    def vouch(self) -> None:
        """Take the inputs in place as they are drawn: they were compared after the last call."""
        self._clean = True

    def put(self, draw: InputDraw) -> None:
        """Put the inputs of a draw in place, unless they are there and as they were drawn."""
        if self.data.draw != draw or not self._clean:
            with self.stopwatch.timing("fill"):
                self.data.place(draw)
            self._clean = True

    def call(self, program: LoadedProgram) -> None:
        """Call a program once."""
        self._pack(program)
        self._note_call()
        self.repeated = True
        program.entry(*self.data.tensors)
        floating_point.check()

    def call_first(
        self, program: LoadedProgram, *, poison: bool = True, protect: bool = False
    ) -> Sample:
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

    def sample(self, program: LoadedProgram, calls: int, *, flush_cache: bool = False) -> Sample:
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

    def sample_quietly(
        self, program: LoadedProgram, calls: int, *, flush_cache: bool = False
    ) -> Sample:
        """Time some calls in a row, again while other work disturbs them; return the best of it."""
        taken: list[Sample] = []
        spent = 0.0
        while not taken or (taken[-1].disturbed and len(taken) < _TRIES and spent < _TRY_SECONDS):
            taken.append(self.sample(program, calls, flush_cache=flush_cache))
            spent += taken[-1].seconds * calls
        return min(taken, key=lambda sample: (bool(sample.disturbed), sample.seconds))

    def time(
        self,
        program: LoadedProgram,
        policy: TimingPolicy,
        best: float | None = None,
        cold: Sample | None = None,
    ) -> ProgramTiming:
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

    def _pack(self, program: LoadedProgram) -> None:
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
    def _read_only(self, program: LoadedProgram) -> Iterator[None]:
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


# -- Programs whose weights are packed ahead of their calls ---------------------------------------

# Of programs with larger packed tensors, only the last one keeps them.
_KEPT_ELEMENTS = 8 << 20


@Stored(row=True)
@dataclass(frozen=True)
class PackedTensor:
    """A tensor that is computed ahead: by which function, from which arguments, and what it is."""

    function: str
    weights: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str


@Stored(row=True)
@dataclass(frozen=True)
class PackingPlan:
    """How to call a program that was split by ``tvm.packing.split_packing``.

    Attributes
    ----------
    packed: the tensors that are computed ahead.
    sources: for each parameter of ``main`` its argument: below ``count`` one of the workload's,
        else a packed tensor.
    count: number of the workload's arguments.
    """

    packed: tuple[PackedTensor, ...]
    sources: tuple[int, ...]
    count: int


def split_program(mod: TensorProgram) -> tuple[TensorProgram, PackingPlan] | None:
    """Split what depends on weights only off a program; None where there is nothing.

    The functions of the module are ``main`` and one for each tensor that is computed ahead.
    """
    split = split_packing(mod[MAIN])
    if split is None:
        return None
    packed = tuple(
        PackedTensor(packing_name(number), one.weights, one.shape, one.dtype)
        for number, one in enumerate(split.packings)
    )
    return split.module(), PackingPlan(packed, split.sources, split.count)


class PackedProgram:
    """A program that is called with the workload's arguments, after ``pack`` has seen them.

    Parameters
    ----------
    main: runs in each call.
    functions: compute the packed tensors, in the plan's order.
    determinism: of the program before it was split.
    """

    def __init__(
        self,
        main: LoadedProgram,
        functions: Sequence[Callable[..., Any]],
        plan: PackingPlan,
        backend: Backend,
        determinism: Determinism,
    ) -> None:
        self.determinism = determinism
        self._main = main
        self._functions = tuple(functions)
        self._plan = plan
        self._backend = backend
        self._memory: list[TensorMemory] = []
        self._packed: int | None = None

    def pack(self, tensors: Sequence[DeviceArray], version: int, fill: Fill) -> None:
        """Compute the packed tensors, unless they were for the same ``version`` of the inputs.

        What is not written of them holds ``fill``.
        """
        if self._packed == version:
            return
        self._packed = None
        if not self._memory:
            self._memory = [
                self._backend.allocate(one.shape, one.dtype) for one in self._plan.packed
            ]
        for function, memory, one in zip(
            self._functions, self._memory, self._plan.packed, strict=True
        ):
            memory.fill(content(fill, one.shape, one.dtype))
            function(*(tensors[place] for place in one.weights), memory.tensor)
        self._packed = version

    def release_large(self) -> None:
        """Give the memory of packed tensors back if it is much; ``pack`` computes them again."""
        sizes = (math.prod(one.shape) for one in self._plan.packed)
        if sum(sizes) > _KEPT_ELEMENTS:
            self._memory, self._packed = [], None

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """End this process where the program writes to a packed tensor, for the ``with`` block."""
        with ExitStack() as stack:
            for memory in self._memory:
                stack.enter_context(memory.read_only())
            yield

    def overrun(self) -> str | None:
        """Say why the calls so far were wrong, if one wrote next to a packed tensor."""
        return overrun_of("packed tensor", enumerate(self._memory))

    @property
    def entry(self) -> Callable[..., Any]:
        """The function to call with the workload's tensors."""
        return self._call

    def seconds_per_call(self, calls: Calls) -> float:
        """Time calls in a row, without packing, as ``LoadedProgram`` says."""
        return self._main.seconds_per_call(replace(calls, tensors=self._arguments(calls.tensors)))

    def _call(self, *tensors: DeviceArray) -> None:
        self._main.entry(*self._arguments(tensors))

    def _arguments(self, tensors: Sequence[DeviceArray]) -> list[DeviceArray]:
        if self._packed is None:
            raise RuntimeError("its weights were not packed; call pack first")
        every = [*tensors, *(memory.tensor for memory in self._memory)]
        return [every[source] for source in self._plan.sources]
