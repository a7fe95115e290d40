"""The machine as measuring sees it, a ``Backend``, and the tensors of a workload in its memory."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from schedlang.measurement.problem import Fill, content, fills_for
from schedlang.targets.measure import inputs
from schedlang.targets.measure.draws import InputDraw, plain_draw
from schedlang.targets.measure.inputs import InputSource
from schedlang.targets.measure.numerics import Array
from schedlang.tvm.analysis.races import Determinism
from schedlang.tvm.values import is_floating

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import DeviceArray
    from schedlang.tvm.program import TensorProgram


# -- The interface between measuring and the kind of machine that runs programs -------------------


class TensorMemory(Protocol):
    """The memory of one tensor."""

    @property
    def tensor(self) -> DeviceArray:
        """The tensor, to pass to a program."""
        ...

    def fill(self, value: Array) -> None:
        """Copy ``value``, of the tensor's shape and type, into it."""
        ...

    def read(self) -> Array:
        """Return a copy of its values."""
        ...

    def read_only(self) -> AbstractContextManager[None]:
        """End this process where a program writes to the tensor, for the ``with`` block.

        Its exit status is ``errors.WRITE_FAULT``. Does nothing where the backend cannot.
        """
        ...

    def look(self) -> Array:
        """Return its values: a view of them where that is possible, else a copy."""
        ...

    def overrun(self) -> str | None:
        """Return where a program has written outside the tensor since the previous call.

        ``"before"`` or ``"after"``; ``None`` if it did not, or if the backend does not detect it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls in a row that are timed together.

    Attributes
    ----------
    tensors: the arguments.
    count: number of calls.
    restore: puts back what calls overwrite; it is called before them, outside the measured time.
    flush_cache: the machine's caches hold nothing of the tensors at the start.
    begin: called right before the clock is read.
    """

    tensors: Sequence[DeviceArray]
    count: int
    restore: Callable[[], None]
    flush_cache: bool
    begin: Callable[[], None]

    def seconds(self, entry: Callable[..., Any]) -> float:
        """Call ``entry`` in a loop; return the seconds of a call by the monotonic clock."""
        self.begin()
        start = time.perf_counter()
        for _ in range(self.count):
            entry(*self.tensors)
        return (time.perf_counter() - start) / self.count


class LoadedProgram(Protocol):
    """Code that is ready to run."""

    @property
    def determinism(self) -> Determinism:
        """What is known about whether its calls give the same results."""
        ...

    @property
    def entry(self) -> Callable[..., Any]:
        """The function to call with the tensors."""
        ...

    def seconds_per_call(self, calls: Calls) -> float:
        """Time calls in a row, in seconds per call.

        Raises ``Fault`` when the clock contradicts itself.
        """
        ...


class Waits(Protocol):
    """Counts how long the threads of programs wait for a core."""

    def look_for_threads(self) -> None:
        """Find the threads that programs use by now."""
        ...

    def begin(self) -> None:
        """Count from here."""
        ...

    def waited(self, seconds: float) -> float | None:
        """Return how long all threads together have waited since ``begin``, in seconds.

        ``seconds`` is how long a program has run since. None where nobody knows.
        """
        ...


class Backend(Protocol):
    """A machine's memory, code and clock.

    Attributes
    ----------
    clock, machine: what messages call its clock, and the machine itself.
    waits: what its threads waited for a core; None where the system does not tell.
    """

    clock: str
    machine: str
    waits: Waits | None

    def allocate(self, shape: Sequence[int], dtype: str) -> TensorMemory:
        """Make an uninitialised tensor."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """Prepare this process for running programs, for the ``with`` block."""
        ...

    def shortest_call(self) -> float:
        """Seconds that a single call must last for the clock to time it well."""
        ...

    def poison_workspaces(self, fill: Fill) -> None:
        """Fill the memory that programs get for intermediate results, where it can be reached.

        What an earlier call left there is gone then.
        """
        ...


class CompilingBackend(Backend, Protocol):
    """A backend that compiles programs in this process."""

    def compile(self, mod: TensorProgram) -> LoadedProgram:
        """Compile a program and generate its code."""
        ...


# -- The tensors of one workload, with checks for invalid writes ----------------------------------


class Dataset:
    """Inputs and poisoned outputs in a backend's memory.

    The inputs are drawn in this process, so that they are the same on every machine. There is one
    place for them in the backend's memory; ``select`` says which draw lies there. What a program
    writes has two: one for a candidate's first call, whose results are looked at later, and one for
    all other calls.

    Parameters
    ----------
    backend: where the memory is.
    source: of the inputs.
    draw: the first to put in place; by default the plain one.

    Attributes
    ----------
    args: what is known of them.
    tensors: the arguments of a call.
    first_tensors: the arguments of a first call.
    drawn: whether the inputs are random, and not the user's.
    spreads: characters of the draws that suit the program.
    draw: the draw that is in place.
    in_place: whether the program reads tensors that it overwrites.
    output_types, written_roles: element types and roles of the written tensors.
    call_number: number of the next call that finds memory filled anew, from 0; says with what.
    version: number that changes whenever inputs are put in place.
    """

    def __init__(
        self, backend: Backend, source: InputSource, draw: InputDraw | None = None
    ) -> None:
        self._source = source
        self.args = args = tuple(source.args)
        self._written = [i for i, arg in enumerate(args) if arg.role != "input"]
        self.drawn = source.given is None
        self.spreads = source.spreads
        self._memory = [backend.allocate(arg.shape, arg.dtype) for arg in args]
        self._first = [
            memory if arg.role == "input" else backend.allocate(arg.shape, arg.dtype)
            for memory, arg in zip(self._memory, args, strict=True)
        ]
        self.tensors = [memory.tensor for memory in self._memory]
        self.first_tensors = [memory.tensor for memory in self._first]
        self.in_place = any(arg.role == "inout" for arg in args)
        self.output_types = [args[i].dtype for i in self._written]
        self.written_roles = [args[i].role for i in self._written]
        self._poison = {
            i: inputs.poison(args[i].shape, args[i].dtype)
            for i in self._written
            if args[i].role == "output"
        }
        self._fills = fills_for(arg.dtype for arg in args)
        self._filled: dict[tuple[Fill, int], Array] = {}
        self.call_number = 0
        self.version = 0
        self._values: dict[InputDraw, list[Array | None]] = {}
        self.select(draw or plain_draw(args))

    def select(self, draw: InputDraw) -> None:
        """Put the inputs of a draw in place, and poison in the outputs."""
        self.place(draw)
        self.restore()

    def place(self, draw: InputDraw) -> None:
        """Put the inputs of a draw in place, and leave what programs write as it is."""
        self.draw = draw
        self.version += 1
        self._values[draw] = self.values_of(draw)
        for memory, arg, value in zip(self._memory, self.args, self.values, strict=True):
            if arg.role == "input":
                assert value is not None
                memory.fill(value)

    def perturb(self, relative: float) -> None:
        """Put inputs in place that are off by up to ``relative`` of each, until ``select``."""
        self.version += 1
        rng = np.random.default_rng(0)
        for memory, arg, value in zip(self._memory, self.args, self.values, strict=True):
            if value is not None and is_floating(arg.dtype):
                memory.fill(inputs.perturbed(value, relative, rng))

    def use_magnitudes(self) -> None:
        """Put the magnitudes of the inputs in place, until ``select``."""
        self.version += 1
        for memory, value in zip(self._memory, self.values, strict=True):
            if value is not None:
                memory.fill(np.abs(value))

    def use_zeros(self) -> None:
        """Put zeros in the place of floating-point inputs, until ``select``."""
        self.version += 1
        for memory, arg, value in zip(self._memory, self.args, self.values, strict=True):
            if value is not None and is_floating(arg.dtype):
                memory.fill(np.zeros_like(value))

    def keep(self, draws: Iterable[InputDraw]) -> None:
        """Keep the inputs of these draws, and of no others."""
        kept = self._values
        self._values = {
            draw: kept[draw] if draw in kept else self._source.values(draw) for draw in draws
        }

    def values_of(self, draw: InputDraw) -> list[Array | None]:
        """Return the inputs of a draw; those that a change starts from are not drawn again."""
        before = self._values.get(replace(draw, change=None))
        if draw in self._values:
            return self._values[draw]
        if before is None or draw.change is None:
            return self._source.values(draw)
        return self._source.changed(before, draw)

    @property
    def values(self) -> list[Array | None]:
        """The inputs that are in place, by argument; None for what is only written."""
        return self._values[self.draw]

    def restore(self) -> None:
        """Restore the tensors that a program may write to their values before a call."""
        self._restore(self._memory)

    def restore_first(self) -> None:
        """Do the same for those that a first call may write."""
        self._restore(self._first)

    def _restore(self, memory: list[TensorMemory]) -> None:
        for i, value in zip(self._written, self.contents(), strict=True):
            memory[i].fill(value)

    def contents(self) -> list[Array]:
        """Return what the written tensors hold before a call."""
        values = self.values
        return [self._held(i) if i in self._poison else _present(values[i]) for i in self._written]

    @property
    def fill(self) -> Fill:
        """What memory holds that nobody has written before the call of this number."""
        return self._fills[self.call_number % len(self._fills)]

    def _held(self, place: int) -> Array:
        """Return what an output holds before the call of this number."""
        if self.fill == self._fills[0]:
            return self._poison[place]
        key = self.fill, place
        if key not in self._filled:
            self._filled[key] = content(self.fill, self.args[place].shape, self.args[place].dtype)
        return self._filled[key]

    @contextmanager
    def read_only_inputs(self) -> Iterator[None]:
        """End this process where a program writes to an input, for the ``with`` block."""
        with ExitStack() as stack:
            for memory, arg in zip(self._memory, self.args, strict=True):
                if arg.role == "input":
                    stack.enter_context(memory.read_only())
            yield

    def poison_otherwise(self) -> list[Array]:
        """Restore, with another poison in outputs; return that poison for each written tensor."""
        self.restore()
        args = [self.args[i] for i in self._written]
        others = [inputs.other_poison(arg.shape, arg.dtype) for arg in args]
        for i, other in zip(self._written, others, strict=True):
            if self.args[i].role == "output":
                self._memory[i].fill(other)
        return others

    def outputs(self) -> list[Array]:
        """Return copies of the written tensors."""
        return [self._memory[i].read() for i in self._written]

    def written(self) -> list[Array]:
        """Return the written tensors as they are: views that change with the next call."""
        return [self._memory[i].look() for i in self._written]

    def first_written(self) -> list[Array]:
        """Return what the first call wrote, in the same way."""
        return [self._first[i].look() for i in self._written]

    def changed_input(self) -> str | None:
        """Say why the calls so far were wrong, if one wrote to an input."""
        for position, (arg, value) in enumerate(zip(self.args, self.values, strict=True)):
            if arg.role == "input" and value is not None:
                if not same_bits(self._memory[position].look(), value):
                    return f"argument {position} is an input, and the program changed it"
        return None

    def overrun(self) -> str | None:
        """Say why the calls since the last question were wrong, if one wrote outside a tensor."""
        memories = list(enumerate(self._memory))
        memories += ((i, self._first[i]) for i in self._written)
        return overrun_of("argument", memories)

    def digest(self, draw: InputDraw) -> int | None:
        """Return a checksum of the inputs of a draw, which no program must ever reach.

        None where they are not kept.
        """
        digest = 0
        for value in self._values.get(draw, ()):
            if value is not None:
                digest = zlib.crc32(value.tobytes(), digest)
        return digest if draw in self._values else None


def _present(value: Array | None) -> Array:
    assert value is not None, "what is read and written has a value"
    return value


def overrun_of(kind: str, memories: Iterable[tuple[int, TensorMemory]]) -> str | None:
    """Say why a call was wrong, if one wrote next to a memory; ``kind`` is that of its number."""
    # All are asked, which mends them.
    places = [(memory.overrun(), number) for number, memory in memories]
    for place, number in places:
        if place is not None:
            return f"it writes right {place} the memory of {kind} {number}"
    return None


def same_bits(one: Array, other: Array) -> bool:
    """Whether two arrays of one shape and type have the same bytes."""
    word = np.uint64 if one.nbytes % 8 == 0 else np.uint8
    return np.array_equal(one.reshape(-1).view(word), other.reshape(-1).view(word))
