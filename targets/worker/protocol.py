"""What a measurer and its worker say to each other, and how the worker answers.

A message is a JSON header and raw bytes, length-prefixed. A request has a serial, which nobody can
guess, and its reply has the same one: a reply with another was not written by the worker about this
request. Reading a message runs no code: there is no pickle and no eval.

A worker is a program of its own, because a candidate may do anything to the process that runs it.
It is started as ``python -m``; its ``Dispatcher`` answers requests on standard input, one reply for
each.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, BinaryIO

from schedlang.errors import SchedlangError
from schedlang.measurement import Status
from schedlang.measurement.clock import Phase, PhaseLog
from schedlang.targets.errors import Fault, describe
from schedlang.targets.measure import floating_point

# -- Requests and replies -------------------------------------------------------------------------

START_TIMEOUT = 300.0
"""Seconds for work done once with the unscheduled program, which may be very slow."""

ACTIVITIES: Mapping[str, str] = MappingProxyType({"build": "build", "run": "run"})
"""What a worker does for a candidate that is asked for this, as its phases name it."""


@dataclass(frozen=True, slots=True)
class Request:
    """A question to a worker.

    Attributes
    ----------
    header, blobs: plain JSON values and bytes, which are sent; the rest is for who asks.
    timeout: seconds after which to give up and kill the worker.
    executes: it runs a candidate's code, which may damage the worker for the next one.
    """

    header: dict[str, Any]
    blobs: tuple[bytes, ...] = ()
    timeout: float = 60.0
    executes: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a request.

    Attributes
    ----------
    header: the worker's reply; ``status`` and ``message`` in it say what failed.
    lost: whether the worker was lost, with everything that it held.
    retry: the worker may have been damaged before this request: a fresh one should be asked too.
    stderr: the tail of its standard error.
    seconds: wall time.
    blobs: bytes that came with it.
    phases: what the worker did for a candidate and when, with the worker's number.
    """

    header: dict[str, Any]
    lost: bool = False
    retry: bool = False
    stderr: str = ""
    seconds: float = 0.0
    blobs: tuple[bytes, ...] = ()
    phases: tuple[Phase, ...] = ()

    @classmethod
    def refusal(cls, status: str, message: str) -> Reply:
        """Make the reply to a request that no worker was asked."""
        return cls({"ok": False, "status": status, "message": message})

    @property
    def ok(self) -> bool:
        """Whether the request was done."""
        return bool(self.header["ok"])

    @property
    def timed_out(self) -> bool:
        """Whether there was no answer within the request's time."""
        return not self.ok and not self.header["status"]

    @property
    def status(self) -> str:
        """How it failed, as the worker calls it; empty if it timed out."""
        return str(self.header["status"])

    def message(self, timeout: float) -> str:
        """Say in one line why it failed; ``timeout`` is the request's, in seconds."""
        return f"not done within {timeout:g} s" if self.timed_out else str(self.header["message"])

    def failed_as(self, status: Status, message: str) -> Reply:
        """The same reply with another reason."""
        header = {"ok": False, "status": status, "message": message}
        return replace(self, header=header, retry=False)


# -- Requests and replies as bytes ----------------------------------------------------------------

_PREFIX = struct.Struct("!4sIQ")
_MAGIC = b"SLW1"
_HEADER_LIMIT = 1 << 24


class ProtocolError(SchedlangError):
    """The bytes from the pipe are not a message."""


def new_serial() -> str:
    """Return the serial of a request."""
    return secrets.token_hex(8)


def encode(header: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """Return the bytes of one message."""
    text = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}).encode()
    return b"".join((_PREFIX.pack(_MAGIC, len(text), sum(map(len, blobs))), text, *blobs))


class Decoder:
    """Puts replies together from pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Reply]:
        """Return the replies that ``data`` completes; ProtocolError if it is no part of one."""
        self._buffer += data
        replies = []
        while (reply := self._take()) is not None:
            replies.append(reply)
        return replies

    def _take(self) -> Reply | None:
        if len(self._buffer) < _PREFIX.size:
            return None
        header_bytes, payload_bytes = _unpack_prefix(bytes(self._buffer[: _PREFIX.size]))
        end = _PREFIX.size + header_bytes + payload_bytes
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_PREFIX.size : end])
        del self._buffer[:end]
        header, blobs = _decode(body[:header_bytes], body[header_bytes:])
        return Reply(header, blobs=blobs)


def read_request(stream: BinaryIO) -> Request | None:
    """Return the next request of a blocking stream; None at its end."""
    prefix = stream.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        return None
    header_bytes, payload_bytes = _unpack_prefix(prefix)
    header, payload = stream.read(header_bytes), stream.read(payload_bytes)
    if len(header) < header_bytes or len(payload) < payload_bytes:
        return None
    return Request(*_decode(header, payload))


def _unpack_prefix(prefix: bytes) -> tuple[int, int]:
    magic, header_bytes, payload_bytes = _PREFIX.unpack(prefix)
    if magic != _MAGIC or header_bytes > _HEADER_LIMIT:
        raise ProtocolError(f"expected a message, found the bytes {prefix!r}")
    return header_bytes, payload_bytes


def _decode(text: bytes, payload: bytes) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    try:
        header = json.loads(text)
        blobs, start = [], 0
        for length in header.pop("blobs"):
            blobs.append(payload[start : start + length])
            start += length
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"not the header of a message: {text[:80]!r}") from error
    return header, tuple(blobs)


# -- The worker's side ----------------------------------------------------------------------------


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
