"""Long texts as SQLite stores them: compressed, and with a checksum."""

from __future__ import annotations

import zlib

from schedlang.database.run import LONGEST_STATE

# Shorter ones are stored as they are.
_SHORT = 256
_LEAST_WINDOW = 9
# Of zlib: traces get a tenth longer than with the usual level, in two thirds of the time. What is
# written often, and replaced, is packed faster still.
_LEVEL, _FAST = 3, 1
# A few bytes can expand to any length: longer texts are refused.
MAX_BYTES = LONGEST_STATE


def pack(text: str, *, replaced: bool = False) -> str | bytes:
    """Return what to store for a text; a trace gets about 5 times shorter.

    One that will be ``replaced`` soon, such as the state of a search, gets less short.
    """
    if len(text) < _SHORT:
        return text
    content = text.encode("utf-8")
    # A window beyond the text costs as long as compressing a trace does.
    window = min(max(len(content).bit_length(), _LEAST_WINDOW), zlib.MAX_WBITS)
    level = _FAST if replaced else _LEVEL
    writer = zlib.compressobj(level, wbits=window)
    return writer.compress(content) + writer.flush()


def unpack(stored: str | bytes) -> str:
    """Return the text of what ``pack`` returned; older files hold the text itself.

    ValueError where a byte has changed, or the text is too long.
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
