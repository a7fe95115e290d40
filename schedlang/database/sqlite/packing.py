"""Long texts as SQLite stores them: compressed, and with a checksum."""

from __future__ import annotations

import zlib

# Shorter ones are stored as they are.
_SHORT = 256
# A few bytes may stand for any length: longer texts are not unpacked.
MAX_BYTES = 256 << 20


def pack(text: str) -> str | bytes:
    """What to store for a text: some 7 times shorter for a trace."""
    if len(text) < _SHORT:
        return text
    return zlib.compress(text.encode("utf-8"))


def unpack(stored: str | bytes) -> str:
    """The text of what ``pack`` gave, or of older files, which hold the text itself.

    ValueError when a byte of it has changed, or for what is too long.
    """
    if isinstance(stored, str):
        return stored
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(stored, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"a compressed text is damaged: {error}") from None
    if not reader.eof:
        raise ValueError("a compressed text is cut off, or too long")
    return content.decode("utf-8")
