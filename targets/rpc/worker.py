"""The program of ``RPC``'s workers: builds libraries, and holds one session on a server at a time.

Started as ``python -m schedlang.targets.rpc.worker``, because a call to a server may never return:
then this process is killed. No candidate's code runs in it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schedlang.codec import decode, encode
from schedlang.measurement import Status
from schedlang.targets.errors import describe
from schedlang.targets.kinds import code_generator
from schedlang.targets.measure.backend import LoadedProgram
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.calls import PackingPlan, split_program
from schedlang.targets.measure.learning import unreached_by
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.runner import CandidateRunner
from schedlang.targets.pooled.work import read_run_header
from schedlang.targets.rpc.backend import RPCBackend
from schedlang.targets.rpc.servers import LOST, STALE, UNREACHABLE
from schedlang.targets.worker.fault import Fault, faults
from schedlang.targets.worker.protocol import Dispatcher, Request, refusal, serve
from schedlang.tvm import codegen, rpc
from schedlang.tvm.analysis.races import determinism
from schedlang.tvm.program import from_json


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
