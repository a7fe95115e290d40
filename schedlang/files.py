"""Files that are whole or not there, and JSON documents that say what they are.

A file is written beside its place, then renamed. A full disk, a process that is killed, or an
error in what is written leaves the earlier file, or none.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlang.codec import CodecError, wrong
from schedlang.errors import FileError

_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "check the permissions"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "make its folder"),
}


def as_path(given: object) -> Path:
    """Return the path that a user gives; raise TypeError for another type."""
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"a path is text or a pathlib.Path, not {given!r} ({type(given).__name__})")
    return Path(given)


@contextmanager
def replacing(path: str | os.PathLike[str], what: str = "the file") -> Iterator[Path]:
    """Give a path to write to, whose file takes the place of ``path`` when the block ends.

    It has the same name, in a folder of its own beside ``path``, which is removed in any case. A
    device or a pipe is written itself. ``FileError`` replaces an OSError of the block, and says
    that ``what`` cannot be written.
    """
    try:
        place = Path(os.path.realpath(path))
        if place.exists() and not place.is_file():
            yield place
            return
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=place.parent) as folder:
            written = Path(folder) / place.name
            yield written
            with written.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(written, place)
    except FileError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = _REMEDIES.get(error.errno or 0, "check the disk")
        raise FileError(error.errno, reason, os.fspath(path), what, remedy) from error


def write_text(
    path: str | os.PathLike[str], text: str, what: str = "the file", *, errors: str = "strict"
) -> None:
    """Write a text in UTF-8, see ``replacing``; a file that was there keeps its permissions."""
    with replacing(path, what) as written:
        if not written.exists() and os.path.exists(path):
            with open(path, "ab"):  # PermissionError for a file that is read-only
                written.touch()
                shutil.copymode(path, written)
        written.write_text(text, encoding="utf-8", errors=errors, newline="\n")


# -- JSON as text ---------------------------------------------------------------------------------

_INT64 = 1 << 63
# Half of a character, which is no text in UTF-8.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(text: str) -> Any:
    """Return the value of a JSON text from elsewhere.

    ValueError for what SQLite could not store: a number beyond 64 bits, NaN, a text that is no
    Unicode; and for values that are nested too deeply.
    """
    try:
        found = _READER.decode(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    if _SURROGATE.search(text):
        json.dumps(found, ensure_ascii=False).encode()
    return found


def _whole_number(text: str) -> int:
    if len(text) > 20 or not -_INT64 <= (number := int(text)) < _INT64:
        raise ValueError(f"the integer {text[:24]} is beyond 64 bits")
    return number


def _real_number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"the number {text[:24]} is not finite")
    return number


_READER = json.JSONDecoder(
    parse_int=_whole_number, parse_float=_real_number, parse_constant=_real_number
)


# -- Files and texts that say what they are -------------------------------------------------------


@dataclass(frozen=True)
class Document:
    """A kind of JSON object that says what it is, which version it has, and whether it is whole.

    Attributes
    ----------
    kind: name and value of the field that says what it is; None without such a field.
    version: name and value of the field that says its version; None without.
    checksum: whether it has the SHA-256 of all else, as ``checksum``.
    damaged, other, newer, changed: what ``read`` says of a text that is no JSON object (``error``
        tells why), that is something else, that has another version (``found``), and whose
        checksum is another one.
    """

    kind: tuple[str, str] | None = None
    version: tuple[str, int] | None = None
    checksum: bool = False
    damaged: str = "it is damaged: {error}"
    other: str = "it is something else"
    newer: str = "its version is {found!r}, and this schedlang reads {known}"
    changed: str = "it was changed after it was written: its checksum is another one"

    def write(self, content: Mapping[str, Any], indent: int | None = None) -> str:
        """Return the text of a document."""
        found = {**dict(one for one in (self.kind, self.version) if one is not None), **content}
        if self.checksum:
            found["checksum"] = _digest(found)
        return json.dumps(found, indent=indent)

    def read(self, text: str | bytes) -> dict[str, Any]:
        """Return the content of a document; CodecError, with a text above, for any other text."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CodecError(self.damaged.format(error=error)) from None
        return self.check(found)

    def check(self, found: Any) -> dict[str, Any]:
        """Return the content of a document that was read; CodecError for any other value."""
        if not isinstance(found, dict):
            text = self.other if self.kind else self.damaged
            raise CodecError(text.format(error=wrong("an object", found)))
        if self.checksum:
            whole = {name: value for name, value in found.items() if name != "checksum"}
        content = dict(found)
        if self.kind is not None and content.pop(self.kind[0], None) != self.kind[1]:
            raise CodecError(self.other)
        if self.version is not None:
            name, known = self.version
            if name not in content:
                raise CodecError(self.damaged.format(error=CodecError("it is missing", name)))
            if type(version := content.pop(name)) is not int or version != known:
                raise CodecError(self.newer.format(found=version, known=known))
        if self.checksum and content.pop("checksum", None) != _digest(whole):
            raise CodecError(self.changed)
        return content


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
