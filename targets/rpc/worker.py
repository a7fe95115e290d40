"""A worker of ``targets.RPC``: builds libraries, and holds one session on a server at a time.

Started as ``python -m schedlang.targets.rpc.worker``, because a call to a server may never return:
then this process is killed. No generated code runs in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schedlang.measurement import Status
from schedlang.targets.kinds import code_generator
from schedlang.targets.measure.fault import Fault, describe, faults
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.rpc.runner import RemoteBench
from schedlang.targets.worker.dispatcher import Worker, die_with_parent, serve
from schedlang.targets.worker.protocol import Message
from schedlang.targets.worker.start import read_arguments
from schedlang.tvm import codegen, rpc
from schedlang.tvm.program import from_json

# Besides ``Status``: the server is at fault, not the candidate.
UNREACHABLE = "unreachable"
LOST = "lost"
STALE = "stale"


class RPCWorker(Worker):
    """Answers the requests of ``targets.RPC``; raises what ``Worker.answer`` expects."""

    def __init__(self) -> None:
        super().__init__()
        self._remote: RemoteBench | None = None
        self._reservation: rpc.Reservation | None = None
        self._session: rpc.RemoteSession | None = None
        self._session_seconds = 0.0

    def _on_start(self, request: Message) -> dict[str, Any]:
        header = request.header
        self._tracker: tuple[str, int] = tuple(header["tracker"])
        self._key: str = header["key"]
        self._verifies: bool = header["reference"]
        self._scratch = Path(header["scratch"])
        self._target = code_generator(header["code"]).target
        self._remote = RemoteBench(
            request.blobs[0].decode(),
            read_arguments(header),
            header["seed"],
            header["shortest_time"],
        )
        return {}

    def _on_build(self, request: Message) -> dict[str, Any]:
        """Compile a program into a library."""
        library = self._scratch / (request.header["name"] + rpc.library_suffix())
        with faults(Status.BUILD_ERROR):
            executable = codegen.compile_program(
                from_json(request.blobs[0].decode()), self._target, check_arguments=False
            )
            codegen.write_library(executable, library)
        return {"library": str(library)}

    def _on_reserve(self, request: Message) -> dict[str, Any]:
        """Wait for a free server."""
        try:
            self._reservation = rpc.reserve(self._tracker, self._key, request.header["wait"])
        except rpc.TrackerError as error:
            return _refusal_by(UNREACHABLE, str(error))
        return {"server": self._reservation.server}

    def _on_connect(self, request: Message) -> dict[str, Any]:
        """Open a session; ``known`` if the server's reference is, or if none is needed."""
        assert self._reservation is not None
        server = self._reservation.server
        known = not self._verifies or self._bench_there.knows(server)
        timeouts = request.header["timeouts"]
        self._session_seconds = timeouts["run" if known else "reference"]
        try:
            self._session = rpc.RemoteSession(self._reservation, self._session_seconds)
            threads = self._session.threads()
        except Exception as error:
            self._close()
            return _refusal_by(UNREACHABLE, f"{server}: {describe(error)}")
        return {"known": known, "threads": threads}

    def _on_reference(self, request: Message) -> dict[str, Any]:
        """Run the unscheduled program there, and remember its results."""
        library = Path(request.header["library"])

        def learn(session: rpc.RemoteSession, server: str) -> dict[str, Any]:
            self._bench_there.learn(session, server, library)
            return {}

        return self._in_session(learn)

    def _on_run(self, request: Message) -> dict[str, Any]:
        """Time a library there, compare its results, and end the session."""
        header = request.header

        def run(session: rpc.RemoteSession, server: str) -> dict[str, Any]:
            outcome = self._bench_there.run(
                session,
                server,
                Path(header["library"]),
                TimingPolicy(**header["policy"]),
                header["best"],
                header["verify_factor"],
            )
            return {"samples": list(outcome.samples), "verified": outcome.verified}

        return self._in_session(run)

    def _in_session(
        self, work: Callable[[rpc.RemoteSession, str], dict[str, Any]]
    ) -> dict[str, Any]:
        assert self._session is not None and self._reservation is not None
        start = time.perf_counter()
        try:
            return work(self._session, self._reservation.server)
        except Exception as error:
            reply = self._explain(error, time.perf_counter() - start)
        finally:
            self._close()
        return reply

    def _explain(self, error: Exception, seconds: float) -> dict[str, Any]:
        """Whose fault it was: the candidate's, or the server's."""
        assert self._session is not None
        cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
        if rpc.is_expired(cause):
            # Unless the session had to wait for us.
            late = seconds >= 0.9 * self._session_seconds
            status: str = Status.RUN_TIMEOUT if late else STALE
            return _refusal_by(status, f"not done within {self._session_seconds:g} s")
        if not self._session.alive():
            return _refusal_by(LOST, describe(cause))
        if isinstance(error, Fault):
            return {**_refusal_by(error.status, str(error)), "samples": list(error.samples)}
        return _refusal_by(Status.RUN_ERROR, describe(error))

    def _close(self) -> None:
        self._session = None

    @property
    def _bench_there(self) -> RemoteBench:
        if self._remote is None:
            raise RuntimeError("the first request must be 'start'")
        return self._remote


def _refusal_by(status: str, message: str) -> dict[str, Any]:
    return {"ok": False, "status": str(status), "message": message}


def main() -> None:
    """Answer requests until standard input ends."""
    die_with_parent()
    serve(RPCWorker().answer)


if __name__ == "__main__":
    main()
