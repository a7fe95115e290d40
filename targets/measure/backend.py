"""The interface between measuring and the kind of machine that runs programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from schedlang.measurement.problem import Fill
from schedlang.targets.measure.numerics import Array
from schedlang.tvm.analysis.races import Determinism

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import DeviceArray
    from schedlang.tvm.program import TensorProgram


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
