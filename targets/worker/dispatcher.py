"""The worker's side: answers requests on standard input, one reply for each.

A worker is a program of its own, because a candidate may do anything to the process that runs it.
``schedlang.targets.worker.process`` starts it as ``python -m``.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedlang.measurement import Status
from schedlang.measurement.phase import PhaseLog
from schedlang.targets.errors import describe
from schedlang.targets.worker import floating_point
from schedlang.targets.worker.fault import Fault
from schedlang.targets.worker.protocol import encode, read_request
from schedlang.targets.worker.request import ACTIVITIES, Request


class Dispatcher(ABC):
    """Answers requests; a subclass has one method ``on_<name>`` for each kind of request.

    Every worker answers ``start``, once and first, and ``bind``, which points it to another
    workload. ``on_<name>`` returns the reply's header, and raises ``Fault`` when the request fails.
    The header's ``blobs``, if any, are sent as bytes.

    Attributes
    ----------
    activities: what it does for a candidate, by the kind of request; replies tell when it did.
    log: notes what it does now.
    """

    activities: Mapping[str, str] = ACTIVITIES

    def __init__(self) -> None:
        self.log = PhaseLog()

    def answer(self, request: Request) -> dict[str, Any]:
        """Return the header of the reply."""
        kind = request.header["request"]
        handler = getattr(self, f"on_{kind}")
        self.log.enter(self.activities.get(kind, ""))
        start = time.perf_counter()
        try:
            reply: dict[str, Any] = {"ok": True, **handler(request)}
        except Fault as fault:
            reply = refusal(fault.status, str(fault), fault.samples, corrupt=fault.corrupt)
        except MemoryError as error:
            reply = refusal(Status.OUT_OF_MEMORY, describe(error))
        except Exception as error:
            # No candidate may end the worker; after an unknown fault the worker is not trusted.
            reply = refusal(Status.CRASHED, f"worker: {describe(error)}", corrupt=True)
        seconds = time.perf_counter() - start
        return {**reply, "seconds": seconds, "phases": self.log.take()}

    def on_start(self, request: Request) -> dict[str, Any]:
        """Set the process up, and bind it to its first workload."""
        self.set_up(request.header)
        return self.on_bind(request)

    @abstractmethod
    def set_up(self, header: dict[str, Any]) -> None:
        """Set the process up, as the header of the request ``start`` says."""

    @abstractmethod
    def on_bind(self, request: Request) -> dict[str, Any]:
        """Forget the present workload and work for another one."""


def refusal(
    status: str, message: str, samples: Sequence[float] = (), *, corrupt: bool = False
) -> dict[str, Any]:
    """Make the header of a reply to a request that failed."""
    return {
        "ok": False,
        "status": str(status),
        "message": message,
        "samples": list(samples),
        "corrupt": corrupt,
    }


def serve(answer: Callable[[Request], dict[str, Any]]) -> None:
    """Answer the requests on standard input on standard output until the input ends.

    A reply repeats the serial of its request. A copy of this process, which a candidate can make,
    has the same pipes: it ends here before it writes or reads.
    """
    own = os.getpid()
    # A library that was loaded with Python may have changed it.
    floating_point.use_default()
    # What generated code and TVM print must not mix with replies: both ends of the protocol move
    # away, and descriptor 1 becomes standard error.
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    while (request := read_request(requests)) is not None:
        serial = request.header.pop("serial")
        reply = answer(request)
        if os.getpid() != own:
            os._exit(1)
        blobs = reply.pop("blobs", ())
        data = memoryview(encode({**reply, "serial": serial, "pid": own}, blobs))
        while data:
            data = data[os.write(replies, data) :]
