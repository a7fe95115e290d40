"""TVM's run time: tensors, threads and timing loops, in this process and by RPC elsewhere."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm import libinfo, rpc
from tvm.error import RPCSessionTimeoutError
from tvm.rpc import base
from tvm.rpc.server import PopenRPCServerState
from tvm.runtime import Device as _Device, Module, Tensor
from tvm.support import cc

from schedlang.errors import SchedlangError
from schedlang.tvm.program import MAIN
from schedlang.tvm.values import tensor_bytes

Device: TypeAlias = _Device
"""Where tensors are and programs run: main memory, or a GPU by its number."""
DeviceArray: TypeAlias = Tensor
"""A tensor in the memory of a device, as compiled programs take it."""

_ONE_CORE_PER_THREAD = -2
# Of TVMFFIObject: a count of references, the type's number, padding and a pointer.
_HEADER_BYTES = 24
_Task = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
ALIGNMENT = 64
"""The tensors that TVM allocates start at a multiple of this many bytes."""


def largest_library() -> Path:
    """Return the file of TVM's compiler, the largest of its code; OSError where there is none."""
    files: list[Path] = [
        one for folder in libinfo.package_lib_paths() for one in folder.glob("libtvm*")
    ]
    if not files:
        raise FileNotFoundError("TVM's libraries are not where its package looks for them")
    return max(files, key=lambda one: one.stat().st_size)


def configure_threads(cpus: Sequence[int]) -> int:
    """Give TVM's thread pool one thread on each of ``cpus``; return the number of threads it got.

    By default TVM uses half of the hardware threads on x86 (it assumes two per core), counts from
    CPU 0, and binds to CPUs outside the affinity mask of the process. A pool that has run does not
    grow: call this before the first parallel loop. Each calling thread has a pool of its own; its
    affinity is kept.
    """
    mask = _affinity()
    tvm_ffi.get_global_func("runtime.config_threadpool")(
        _ONE_CORE_PER_THREAD, len(cpus), [str(cpu) for cpu in cpus]
    )
    if mask is not None:
        os.sched_setaffinity(0, mask)
    return thread_count()


def thread_count() -> int:
    """Return the number of threads of a parallel loop that this thread starts.

    They are started where they do not exist yet; the affinity of this thread is kept.
    """
    mask = _affinity()
    count = int(tvm_ffi.get_global_func("runtime.NumThreads")())
    if mask is not None and mask != _affinity():
        os.sched_setaffinity(0, mask)
    return count


def _affinity() -> set[int] | None:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def in_each_thread(task: Callable[[int], None]) -> bool:
    """Call ``task`` once in each thread of a parallel loop, with the thread's number.

    The calling thread is number 0. No program may be running. ``task`` must not raise: what it
    raises is printed. Returns False, without a call, where TVM's library does not let us.
    """
    launch = _launcher()
    if launch is None:
        return False

    def call(number: int, group: int | None, data: int | None) -> int:
        task(number)
        return 0

    launch(_Task(call), None, 0)
    return True


@cache
def _launcher() -> Any:
    try:
        launch = ctypes.CDLL(None).TVMBackendParallelLaunch
    except (OSError, TypeError, AttributeError):
        return None
    thread_count()  # starts them, and keeps this thread on its CPUs
    launch.argtypes = (_Task, ctypes.c_void_p, ctypes.c_int)
    return launch


def empty_tensor(shape: Sequence[int], dtype: str, device: Device | None = None) -> Tensor:
    """Allocate an uninitialised tensor, aligned as generated code expects.

    ``device`` is where; by default it is main memory.
    """
    return tvm.runtime.empty(tuple(shape), dtype, device)


def tensor_in(memory: np.ndarray[Any, Any], shape: Sequence[int], dtype: str) -> Tensor:
    """Return a tensor that fills an array of bytes, which starts at a multiple of ``ALIGNMENT``."""
    # TVM's own view would count its offset in a field that generated code does not read.
    return tvm.runtime.from_dlpack(memory)._create_view(tuple(shape), dtype)


def aligned_array(shape: Sequence[int], dtype: str | np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Allocate an uninitialised array that starts at a multiple of ``ALIGNMENT``."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    # Not memory.ctypes.data, which takes a microsecond more.
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return np.ndarray(tuple(shape), kind, memory, start)


def is_aligned(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether an array is contiguous and starts at a multiple of ``ALIGNMENT``."""
    return bool(array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0)


borrow = tvm_ffi.from_dlpack
"""Return a tensor that shares the memory of a value with ``__dlpack__``, or raise its error."""


def borrow_array(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor that shares the memory of a contiguous array, which may be read-only.

    Element types that numpy does not know itself, such as bfloat16, are those of ``ml_dtypes``.
    """
    if array.dtype.kind == "V":
        plain = borrow_array(array.view(f"uint{8 * array.dtype.itemsize}"))
        return reinterpreted(plain, array.dtype.name)
    return borrow(array) if array.flags.writeable else borrow_read_only(array)


def borrow_read_only(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor that shares the memory of a read-only array; the caller keeps off writing."""
    try:
        return borrow(array.__dlpack__(max_version=(1, 0)))
    except TypeError:  # numpy 2.0 gives the memory of writeable arrays only
        return borrow(array.copy())


def copy_tensor(tensor: Tensor) -> Tensor:
    """Return a copy on the same device."""
    return tensor.copyto(tensor.device)


def reinterpreted(tensor: Tensor, dtype: str) -> Tensor:
    """Return a contiguous tensor's memory as elements of another type of the same size."""
    return tensor._create_view(tensor.shape, dtype)


def share_memory(one: Tensor, other: Tensor) -> bool:
    """Tell whether two contiguous tensors overlap."""
    start, other_start = one.data_ptr(), other.data_ptr()
    size, other_size = (tensor_bytes(tensor.shape, str(tensor.dtype)) for tensor in (one, other))
    return bool(start < other_start + other_size and other_start < start + size)


def dlpack_address(tensor: Tensor) -> int:
    """Return the address of a tensor's ``DLTensor``, which TVM's ABI puts behind the header."""
    return int(tensor.__chandle__()) + _HEADER_BYTES


def main_memory() -> Device:
    """Return the device whose memory is the process's own."""
    return tvm.cpu()


def first_device(device_type: int) -> Device:
    """Return this machine's first device of a type, which is DLPack's number."""
    return tvm.device(device_type, 0)


def is_main_memory(device: Device) -> bool:
    """Tell whether programs on ``device`` work in main memory."""
    return bool(device == main_memory())


def batch_timer(
    module: Module, name: str, calls: int, device: Device, flush_bytes: int = 0
) -> Callable[..., float]:
    """Return a function that calls ``name`` ``calls`` times in a loop of machine code.

    ``device`` runs the program; the clock stops when the device is done. Before the loop,
    ``flush_bytes`` bytes are written to evict the caches.

    It returns seconds per call, by a clock that the system may step: the caller compares it with a
    monotonic one. One more call comes before the loop, outside the measured time.
    """
    evaluator = module.time_evaluator(
        name, device, number=calls, repeat=1, cache_flush_bytes=flush_bytes
    )

    def run(*tensors: Tensor) -> float:
        return float(evaluator(*tensors).results[0])

    return run


# -- TVM's RPC: its tracker, its servers and sessions ---------------------------------------------
#
# There is no authentication: anyone who can reach a server's port can run any code there.

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
