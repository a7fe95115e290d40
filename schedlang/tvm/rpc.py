"""TVM's RPC: its tracker, its servers and sessions.

There is no authentication: anyone who can reach a server's port can run any code there.
"""

from __future__ import annotations

import importlib.util
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm import rpc
from tvm.error import RPCSessionTimeoutError
from tvm.rpc import base
from tvm.rpc.server import PopenRPCServerState
from tvm.runtime import Tensor
from tvm.support import cc

from schedlang.errors import SchedlangError
from schedlang.tvm.codegen.runtime import batch_timer, empty_tensor
from schedlang.tvm.program import MAIN

_PINGS = 3
_TRACKER_PACKAGE = "tornado"

Address = tuple[str, int]


class TrackerError(SchedlangError):
    """The tracker does not answer, is not a tracker, or has no free server in time."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A server reserved at the tracker; ``key`` opens one session on it."""

    host: str
    port: int
    key: str

    @property
    def server(self) -> str:
        """Name of the server: ``host:port``."""
        return f"{self.host}:{self.port}"


def registered(tracker: Address, timeout: float) -> dict[str, list[Address]]:
    """Return the servers that the tracker knows, free or busy, by key; raises TrackerError."""
    value = _ask(tracker, [base.TrackerCode.SUMMARY], timeout)
    found: dict[str, list[Address]] = {}
    for info in value["server_info"]:
        host, port = info["addr"]
        found.setdefault(info["key"].removeprefix("server:"), []).append((str(host), int(port)))
    return found


def reserve(tracker: Address, key: str, timeout: float) -> Reservation:
    """Wait at most ``timeout`` seconds for a free server of ``key``; raises TrackerError."""
    host, port, match = _ask(tracker, [base.TrackerCode.REQUEST, key, "", 1], timeout)
    return Reservation(str(host), int(port), str(match))


def _ask(tracker: Address, message: list[Any], timeout: float) -> Any:
    """Send one request to the tracker. TVM's own client has no timeout."""
    name = f"the tracker at {tracker[0]}:{tracker[1]}"
    try:
        with socket.create_connection(tracker, timeout) as connection:
            # Both sides write a message in two pieces. With Nagle's algorithm the second waits for
            # the acknowledgement of the first, which takes 40 ms.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
            if struct.unpack("<i", base.recvall(connection, 4))[0] != base.RPC_TRACKER_MAGIC:
                raise TrackerError(f"{name} is not a TVM RPC tracker")
            base.sendjson(connection, message)
            if hasattr(socket, "TCP_QUICKACK"):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            code, value = base.recvjson(connection)
    except TimeoutError as error:
        raise TrackerError(f"{name} gave no answer within {timeout:g} s") from error
    except (OSError, ValueError, TypeError) as error:
        raise TrackerError(f"{name} does not answer: {error}") from error
    if code != base.TrackerCode.SUCCESS:
        raise TrackerError(f"{name} refused the request: code {code}")
    return value


class RemoteLibrary:
    """A library loaded on a server."""

    def __init__(self, module: Any, device: Any) -> None:
        self._module = module
        self._device = device
        self.entry: Callable[..., Any] = module[MAIN]

    def function(self, name: str) -> Callable[..., Any]:
        """Return another function of the library."""
        found: Callable[..., Any] = self._module[name]
        return found

    def timer(self, calls: int, flush_bytes: int = 0) -> Callable[..., float]:
        """Return a function that calls ``main`` ``calls`` times in a loop on the server.

        It returns seconds per call by the server's clock, which may be stepped. One warm-up call
        precedes the loop; then ``flush_bytes`` bytes are written to evict the caches. Neither is in
        the measured time.
        """
        return batch_timer(self._module, MAIN, calls, self._device, flush_bytes)


class RemoteSession:
    """One session on a server, which runs it in a separate process.

    The server kills it ``timeout`` seconds after its start; from then on every method raises an
    error that ``is_expired`` recognises. A method blocks until the server answers.
    """

    def __init__(self, reservation: Reservation, timeout: float) -> None:
        self._session = rpc.connect(
            reservation.host, reservation.port, reservation.key, session_timeout=timeout
        )
        self._device = self._session.cpu()
        self.round_trip = max(self._ping() for _ in range(_PINGS))

    def threads(self) -> int:
        """Return the number of threads of a parallel loop on the server."""
        return int(self._session.get_function("runtime.NumThreads")())

    def alive(self) -> bool:
        """Return whether the session still answers."""
        try:
            self._ping()
        except Exception:
            return False
        return True

    def empty_tensor(self, shape: Sequence[int], dtype: str) -> Tensor:
        """Allocate an uninitialised tensor in the server's memory."""
        return empty_tensor(shape, dtype, self._device)

    def load(self, library: Path) -> RemoteLibrary:
        """Upload a library and load it on the server, which links a ``.tar`` itself."""
        self._session.upload(str(library), library.name)
        return RemoteLibrary(self._session.load_module(library.name), self._device)

    def _ping(self) -> float:
        start = time.perf_counter()
        self._session.get_function("tvm.rpc.server.workpath")
        return time.perf_counter() - start


def is_expired(error: BaseException | None) -> bool:
    """Return whether the server ended the session because of its timeout."""
    return isinstance(error, RPCSessionTimeoutError)


def library_suffix() -> str:
    """Return ``".so"``, or ``".tar"`` if no C compiler is installed to link object files."""
    return ".so" if cc.get_cc() else ".tar"


def missing_package() -> str | None:
    """Return the package that TVM's tracker needs if it is missing, else None."""
    return _TRACKER_PACKAGE if importlib.util.find_spec(_TRACKER_PACKAGE) is None else None


def run_tracker(host: str, port: int) -> None:
    """Run TVM's tracker; returns only if it fails."""
    from tvm.rpc.tracker import PopenTrackerServerState  # needs tornado

    _join(PopenTrackerServerState(host, port, port + 1, silent=True).thread)


def run_server(host: str, port: int, tracker: Address, key: str) -> None:
    """Run one of TVM's servers; returns only if it fails.

    It fails after every session that crashes: TVM's server then stops listening.
    """
    server = PopenRPCServerState(
        host, port, port + 1, tracker_addr=tracker, key=key, custom_addr=None, silent=True
    )
    _join(server.thread)


def _join(thread: threading.Thread) -> None:
    thread.join()
