"""The program of ``RPC``'s workers: builds libraries, and holds one session on a server at a time.

Started as ``python -m schedlang.targets.rpc.worker``, because a call to a server may never return:
then this process is killed. No candidate's code runs in it. ``RPCBackend`` is a session on a server
as a backend: the server's memory, uploaded libraries, two clocks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from schedlang.codec import decode, encode
from schedlang.measurement import Status
from schedlang.measurement.problem import Fill
from schedlang.targets.errors import Fault, describe, faults
from schedlang.targets.kinds import code_generator
from schedlang.targets.measure.backend import Calls, LoadedProgram, Waits
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.calls import PackedProgram, PackingPlan, split_program
from schedlang.targets.measure.learning import unreached_by
from schedlang.targets.measure.numerics import Array
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.runner import CandidateRunner
from schedlang.targets.rpc.servers import LOST, STALE, UNREACHABLE
from schedlang.targets.worker.executor import read_run_header
from schedlang.targets.worker.protocol import Dispatcher, Request, refusal, serve
from schedlang.tvm import codegen
from schedlang.tvm.analysis.races import UNKNOWN, determinism
from schedlang.tvm.codegen import runtime as rpc
from schedlang.tvm.codegen.runtime import DeviceArray, RemoteLibrary, RemoteSession
from schedlang.tvm.program import from_json

# -- A session on a server as a backend -----------------------------------------------------------

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


class RPCWorker(Dispatcher):
    """Answers the requests of ``targets.RPC``."""

    def __init__(self) -> None:
        super().__init__()
        self._reservation: rpc.Reservation | None = None
        self._session: rpc.RemoteSession | None = None
        self._session_seconds = 0.0
        self._running_since = math.inf

    def set_up(self, header: dict[str, Any]) -> None:
        """Remember where the servers are, and where libraries go."""
        self._tracker: tuple[str, int] = tuple(header["tracker"])
        self._key: str = header["key"]
        self._scratch = Path(header["scratch"])
        self._generator = code_generator(header["code"])

    def on_bind(self, request: Request) -> dict[str, Any]:
        """Work for another workload; no server's results are known."""
        binding = self._binding = Binding.unpack(request.header, request.blobs)
        self._references: dict[str, Reference] = {}
        known = binding.reference if binding.verifies else None
        return {"unreached": [] if known is None else list(unreached_by(known, binding))}

    def on_build(self, request: Request) -> dict[str, Any]:
        """Compile a program into a library."""
        library = self._scratch / (request.header["name"] + rpc.library_suffix())
        with faults(Status.BUILD_ERROR):
            mod = from_json(request.blobs[0].decode())
            if self._binding.verifies and (race := determinism(mod).race) is not None:
                raise Fault(Status.WRONG_RESULT, race)
            plan = None
            if request.header.get("packs") and (split := split_program(mod)) is not None:
                mod, plan = split
            executable = self._generator.compile(mod)
            codegen.write_library(executable, library)
        return {"library": str(library), "plan": None if plan is None else encode(plan)}

    def on_reserve(self, request: Request) -> dict[str, Any]:
        """Wait for a free server."""
        try:
            self._reservation = rpc.reserve(self._tracker, self._key, request.header["wait"])
        except rpc.TrackerError as error:
            return refusal(UNREACHABLE, str(error))
        return {"server": self._reservation.server}

    def on_connect(self, request: Request) -> dict[str, Any]:
        """Open a session; ``known`` if the server's reference is, or if none is needed."""
        assert self._reservation is not None
        server = self._reservation.server
        binding = self._binding
        known = not binding.verifies or binding.reference is not None or server in self._references
        timeouts = request.header["timeouts"]
        self._session_seconds = timeouts["run" if known else "reference"]
        try:
            self._session = rpc.RemoteSession(self._reservation, self._session_seconds)
            threads = self._session.threads()
        except Exception as error:
            self._session = None
            return refusal(UNREACHABLE, f"{server}: {describe(error)}")
        return {"known": known, "threads": threads}

    def on_reference(self, request: Request) -> dict[str, Any]:
        """Run the unscheduled program there, and remember its results.

        Where a library for a part of it is given too, the first one is a schedule to check with it.
        The results are sent back where they are asked for.
        """
        part = request.header.get("part")

        def learn(backend: RPCBackend, server: str) -> dict[str, Any]:
            program = backend.load(Path(request.header["library"]))
            runner = CandidateRunner(backend, self._binding)
            if part is None:
                found = runner.learn(program)
            else:
                found = runner.learn_from(program, backend.load(Path(part)))
            self._references[server] = found
            if not request.header.get("reply"):
                return {"unreached": list(runner.unreached)}
            header, blobs = found.pack()
            return {"reference": header, "blobs": blobs}

        return self._in_session(learn)

    def on_compare_given(self, request: Request) -> dict[str, Any]:
        """Compare the unscheduled program there, or a part, with the results of the binding."""

        def compare(backend: RPCBackend, server: str) -> dict[str, Any]:
            runner = CandidateRunner(backend, self._binding)
            program = backend.load(Path(request.header["library"]))
            mismatch = runner.given_mismatch(program, part=request.header["is_part"])
            return {"mismatch": mismatch}

        return self._in_session(compare)

    def on_run(self, request: Request) -> dict[str, Any]:
        """Time a library there, compare its results, and end the session."""

        def run(backend: RPCBackend, server: str) -> dict[str, Any]:
            library, plan = Path(request.header["library"]), request.header["plan"]
            program: LoadedProgram = (
                backend.load(library)
                if plan is None
                else backend.load_packed(library, decode(PackingPlan, plan))
            )
            runner = CandidateRunner(backend, self._binding, self._references.get(server))
            self._running_since = time.perf_counter()
            timing = runner.run(program, *read_run_header(request.header), log=self.log)
            return {
                "samples": list(timing.samples),
                "verified": timing.verified,
                "packed_ahead": plan is not None,
            }

        return self._in_session(run)

    def _in_session(self, work: Callable[[RPCBackend, str], dict[str, Any]]) -> dict[str, Any]:
        assert self._session is not None and self._reservation is not None
        start = time.perf_counter()
        self._running_since = math.inf
        try:
            return work(RPCBackend(self._session), self._reservation.server)
        except Exception as error:
            reply = self._explain(error, time.perf_counter() - start)
        finally:
            self._session = None
        return reply

    def _explain(self, error: Exception, seconds: float) -> dict[str, Any]:
        """Return a reply that blames the candidate or the server."""
        assert self._session is not None
        cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
        if rpc.is_expired(cause):
            # Unless the session had to wait for us.
            late = seconds >= 0.9 * self._session_seconds
            status: str = Status.RUN_TIMEOUT if late else STALE
            message = f"not done within {self._session_seconds:g} s"
            running = time.perf_counter() - self._running_since
            return {**refusal(status, message), "running_seconds": running}
        if not self._session.alive():
            return refusal(LOST, describe(cause))
        if isinstance(error, Fault):
            # No code of the candidate ran in this process: it is as good as before.
            return refusal(error.status, str(error), error.samples)
        return refusal(Status.RUN_ERROR, describe(error))


def main() -> None:
    """Answer requests until standard input ends."""
    serve(RPCWorker().answer)


if __name__ == "__main__":
    main()
