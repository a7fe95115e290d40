"""Messages between a measurer and its worker: a JSON header and raw bytes, length-prefixed.

A request has a serial, which nobody can guess, and its reply has the same one: a reply with
another was not written by the worker about this request. Reading a message runs no code: there is
no pickle and no eval.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO

from schedlang.errors import SchedlangError
from schedlang.targets.worker.request import Reply, Request

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
