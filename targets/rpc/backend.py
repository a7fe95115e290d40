"""A session on a server as a backend: the server's memory, uploaded libraries, two clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from schedlang.measurement import Status
from schedlang.measurement.problem import Fill
from schedlang.targets.measure.backend import Calls, Waits
from schedlang.targets.measure.calls import PackedProgram, PackingPlan
from schedlang.targets.measure.numerics import Array
from schedlang.targets.worker.fault import Fault
from schedlang.tvm.analysis.races import UNKNOWN
from schedlang.tvm.codegen.runtime import RemoteLibrary, RemoteSession

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import DeviceArray

_TRIES = 3
# A call this long is timed by our own clock: the way to the server does not count, and TVM's
# evaluator would run it twice.
_LONG_SECONDS = 1.0
_SLACK_SECONDS = 0.005
# More than the last-level cache of most servers, which do not say how large theirs is.
_FLUSH_BYTES = 128 << 20


class RPCMemory:
    """A tensor in a server's memory; writes outside it are not detected."""

    def __init__(self, tensor: DeviceArray) -> None:
        self.tensor = tensor

    def fill(self, value: Array) -> None:
        """Send ``value`` to the server."""
        self.tensor.copyfrom(value)

    def read(self) -> Array:
        """Fetch the tensor's values."""
        found: Array = self.tensor.numpy()
        return found

    look = read

    def read_only(self) -> AbstractContextManager[None]:
        """Do nothing: programs may write to the tensor."""
        return nullcontext()

    def overrun(self) -> None:
        """Return ``None``: writes outside the tensor are not detected."""


class RPCBackend:
    """One session on a server."""

    clock = "the server's clock"
    machine = "the target"
    waits: Waits | None = None

    def __init__(self, session: RemoteSession) -> None:
        self._session = session

    def allocate(self, shape: Sequence[int], dtype: str) -> RPCMemory:
        """Make an uninitialised tensor on the server."""
        return RPCMemory(self._session.empty_tensor(shape, dtype))

    def load(self, library: Path) -> RPCProgram:
        """Upload a library."""
        return RPCProgram(self._session.load(library), self._session.round_trip)

    def load_packed(self, library: Path, plan: PackingPlan) -> PackedProgram:
        """Upload a library whose weights are packed ahead of its calls."""
        loaded = self._session.load(library)
        functions = [loaded.function(one.function) for one in plan.packed]
        main = RPCProgram(loaded, self._session.round_trip)
        return PackedProgram(main, functions, plan, self, UNKNOWN)

    def running(self) -> AbstractContextManager[None]:
        """This process needs no preparation."""
        return nullcontext()

    def shortest_call(self) -> float:
        """The server's clock is held against ours whatever the length of a call."""
        return 0.0

    def poison_workspaces(self, fill: Fill) -> None:
        """Do nothing: a session is a process of its own, whose first call finds no results."""


class RPCProgram:
    """A library on a server, and loops around it by the number of calls they make."""

    determinism = UNKNOWN

    def __init__(self, library: RemoteLibrary, round_trip: float) -> None:
        self.entry = library.entry
        self._library = library
        # Time between our clock's readings that the calls do not take.
        self._slack = _SLACK_SECONDS + 10 * round_trip
        self._loops: dict[int, Callable[..., float]] = {}
        self._called = False

    def seconds_per_call(self, calls: Calls) -> float:
        """Time consecutive calls by the server's clock, after one warm-up call.

        Raises ``Fault`` when our clock contradicts it.
        """
        calls.restore()
        if not self._called:
            self._called = True
            start = time.perf_counter()
            self.entry(*calls.tensors)
            wall = time.perf_counter() - start
            if wall >= _LONG_SECONDS:
                return wall
            calls.restore()
        count, flush_cache = calls.count, calls.flush_cache
        if count not in self._loops:
            self._loops[count] = self._library.timer(count, _FLUSH_BYTES if flush_cache else 0)
        loop = self._loops[count]
        for _ in range(_TRIES):
            start = time.perf_counter()
            seconds = loop(*calls.tensors)
            wall = time.perf_counter() - start
            if self._plausible(seconds, wall, count, flush_cache=flush_cache):
                return seconds
        raise Fault(
            Status.SUSPICIOUS_TIME,
            f"{count} calls took {seconds * count:.3g} s by the server's clock, but "
            f"{wall:.3g} s by ours, communication included",
            samples=(seconds,),
        )

    def _plausible(self, seconds: float, wall: float, calls: int, *, flush_cache: bool) -> bool:
        """Whether the server's clock, which may be stepped, agrees with our monotonic one."""
        if seconds * calls > wall:
            return False
        return flush_cache or seconds >= 0.25 * (wall - self._slack) / (calls + 1)
