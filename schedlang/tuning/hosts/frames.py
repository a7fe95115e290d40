"""What travels between a driver and its hosts: a JSON object, and bytes that belong to it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.errors import HostError
from schedlang.files import read_json

_MAGIC = b"schedlang-hosts-1\n"
LONGEST = 1 << 28
"""Maximum number of bytes of a message, and of a text in it."""
_LONGEST_HEADER = 1 << 24


def pack(header: Mapping[str, Any], frames: Sequence[bytes] = ()) -> bytes:
    """Return a message."""
    text = json.dumps({**header, "frames": [*map(len, frames)]}).encode()
    return b"".join((_MAGIC, str(len(text)).encode(), b"\n", text, *frames))


def unpack(message: object) -> tuple[dict[str, Any], list[bytes]]:
    """Return header and frames of a message; HostError for anything else."""
    if not isinstance(message, bytes):
        raise HostError(f"expected bytes, got {type(message).__name__}")
    if len(message) > LONGEST:
        raise HostError(f"a message of {len(message):,} bytes; at most {LONGEST:,} are read")
    if not message.startswith(_MAGIC):
        raise HostError("this is no message of this version of schedlang")
    begin = message.find(b"\n", len(_MAGIC), len(_MAGIC) + 12) + 1
    number = message[len(_MAGIC) : begin - 1]
    if not begin or not number.isdigit() or int(number) > _LONGEST_HEADER:
        raise HostError("a message without a length")
    end = begin + int(number)
    try:
        header = read_json(message[begin:end].decode())
    except ValueError as error:
        raise HostError(f"a message whose header is no JSON: {error}") from None
    lengths = header.pop("frames", None) if isinstance(header, dict) else None
    if not isinstance(lengths, list) or not all(type(n) is int and n >= 0 for n in lengths):
        raise HostError("a message whose header does not tell its parts")
    if end + sum(lengths) != len(message):
        raise HostError("a message that is cut off, or too long")
    frames = []
    for length in lengths:
        frames.append(message[end : end + length])
        end += length
    return header, frames


def deflate(text: str) -> bytes:
    """Return a text as a frame."""
    return zlib.compress(text.encode(), 1)


def printable(text: str, marks: str = "[]") -> str:
    """Return a text of one line without ``marks``, and what else terminals or tables read."""
    return "".join(one if one.isprintable() and one not in marks else "?" for one in text)


def inflate(frame: bytes, most: int = LONGEST) -> str:
    """Return the text of a frame; HostError where it is damaged, or longer than ``most`` bytes."""
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(frame, most)
        if not reader.eof:
            raise HostError("a part of a message is cut off, or too long")
        return content.decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise HostError(f"a part of a message is damaged: {error}") from None
