from __future__ import annotations

import io
import struct

import pytest

from schedlang.targets.worker.protocol import Decoder, ProtocolError, Request, encode, read_request

REQUESTS = [
    Request({"request": "build", "id": 1, "text": "ünï"}, (b"", b"\x00\xff" * 300)),
    Request({"samples": [1e-6, 2.5]}),
]
BYTES = b"".join(encode(request.header, request.blobs) for request in REQUESTS)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_pieces_of_any_size_make_the_messages(size: int) -> None:
    decoder, found = Decoder(), []
    for start in range(0, len(BYTES), size):
        found += decoder.feed(BYTES[start : start + size])
    assert [Request(reply.header, reply.blobs) for reply in found] == REQUESTS


def test_a_stream_is_read_to_its_end() -> None:
    stream = io.BytesIO(BYTES)
    assert [read_request(stream), read_request(stream), read_request(stream)] == [*REQUESTS, None]


def test_a_torn_message_is_the_end() -> None:
    assert read_request(io.BytesIO(BYTES[:-1][: len(encode(REQUESTS[0].header))])) is None


@pytest.mark.parametrize(
    "header", [b"[]", b"{}", b"{", b"\xff", b'{"blobs": 1}', b'{"blobs": ["1"]}', b"[" * 10**5]
)
def test_headers_of_other_kinds_are_refused(header: bytes) -> None:
    with pytest.raises(ProtocolError, match="not the header of a message"):
        Decoder().feed(struct.pack("!4sIQ", b"SLW1", len(header), 0) + header)


@pytest.mark.parametrize("data", [b"hello, this is not a message", b"XXXX" + BYTES[4:]])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=data[:4].decode()):
        Decoder().feed(data)
