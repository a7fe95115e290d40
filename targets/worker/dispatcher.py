"""A worker: its own program that builds and runs candidates, because a candidate may do anything.

``schedlang.targets.worker.process`` starts it as ``python -m``. Requests
come in on standard input and replies leave on what was standard output, one for each request.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from schedlang.measurement import Status
from schedlang.targets.kinds import code_generator
from schedlang.targets.measure.fault import Fault, describe
from schedlang.targets.measure.runner import Workbench
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.worker.protocol import Message, encode, read_message
from schedlang.targets.worker.start import read_arguments
from schedlang.tvm.codegen import runtime

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SET_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_QUIET_SECONDS = 0.5


class Worker:
    """Answers requests; its state is one workbench."""

    def __init__(self) -> None:
        self._bench: Workbench | None = None

    def answer(self, request: Message) -> dict[str, Any]:
        """The header of the reply."""
        handler = getattr(self, "_on_" + request.header["request"])
        start = time.perf_counter()
        try:
            reply: dict[str, Any] = {"ok": True, **handler(request)}
        except Fault as fault:
            reply = _refusal(fault.status, str(fault), fault.samples, corrupt=fault.corrupt)
        except MemoryError as error:
            reply = _refusal(Status.OUT_OF_MEMORY, describe(error))
        except Exception as error:
            # Nothing that a candidate does may end the worker; an unknown fault distrusts it.
            reply = _refusal(Status.CRASHED, f"worker: {describe(error)}", corrupt=True)
        return {**reply, "seconds": time.perf_counter() - start}

    def _on_start(self, request: Message) -> dict[str, Any]:
        header = request.header
        if header["memory_bytes"] is not None:
            _limit_memory(header["memory_bytes"])
        threads = runtime.configure_threads(header["cpus"])
        self._bench = Workbench(
            request.blobs[0].decode(),
            read_arguments(header),
            code_generator(header["code"]).target,
            header["cpus"],
            header["seed"],
            reference=header["reference"],
            shortest_time=header["shortest_time"],
        )
        return {"threads": threads, "reference_seconds": self._bench.reference_seconds}

    def _on_build(self, request: Message) -> dict[str, Any]:
        if request.header["discard"]:
            self._workbench.discard()
        self._workbench.build(request.header["id"], request.blobs[0].decode())
        return {}

    def _on_run(self, request: Message) -> dict[str, Any]:
        header = request.header
        outcome = self._workbench.run(
            header["id"],
            TimingPolicy(**header["policy"]),
            header["best"],
            header["verify_factor"],
            keep=header["keep"],
        )
        return {"samples": list(outcome.samples), "verified": outcome.verified}

    def _on_sample(self, request: Message) -> dict[str, Any]:
        header = request.header
        policy = TimingPolicy(**header["policy"])
        return {"seconds_per_call": self._workbench.sample(header["id"], header["calls"], policy)}

    def _on_time_reference(self, request: Message) -> dict[str, Any]:
        policy = TimingPolicy(**request.header["policy"])
        return {"samples": list(self._workbench.time_reference(policy))}

    def _on_settle(self, request: Message) -> dict[str, Any]:
        """Wait until TVM's threads sleep: after a parallel loop they spin for a while."""
        end = time.perf_counter() + _QUIET_SECONDS
        while time.perf_counter() < end and _other_threads_run():
            time.sleep(0.0005)
        return {}

    @property
    def _workbench(self) -> Workbench:
        if self._bench is None:
            raise RuntimeError("the first request must be 'start'")
        return self._bench


def _refusal(
    status: Status, message: str, samples: Sequence[float] = (), *, corrupt: bool = False
) -> dict[str, Any]:
    return {
        "ok": False,
        "status": str(status),
        "message": message,
        "samples": list(samples),
        "corrupt": corrupt,
    }


def _limit_memory(limit: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _be_killed_first() -> None:
    """When the system runs out of memory, it shall end this process, not the one that tunes."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass


def _other_threads_run() -> bool:
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        return False
    main = str(os.getpid())
    for task in tasks.iterdir():
        if task.name == main:
            continue
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state == "R":
            return True
    return False


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, even while native code hangs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _keep_descendants() -> None:
    """Have what a program leaves behind stay below this process, where the parent finds it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_SUBREAPER, 1)


def serve(answer: Callable[[Message], dict[str, Any]]) -> None:
    """Answer the requests on standard input on standard output until the input ends."""
    # What generated code and TVM print must not mix with replies: both ends of the protocol move
    # away, and descriptor 1 becomes standard error.
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    while (request := read_message(requests)) is not None:
        data = memoryview(encode(answer(request)))
        while data:
            data = data[os.write(replies, data) :]


def main() -> None:
    """Answer requests until standard input ends."""
    die_with_parent()
    _be_killed_first()
    _keep_descendants()
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serve(Worker().answer)


if __name__ == "__main__":
    main()
