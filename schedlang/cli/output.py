"""Standard output and standard error: what goes where, and in which characters."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import unicodedata
from collections.abc import Iterator
from typing import TextIO

import typer


def note(message: str) -> None:
    """Tell the user something that is not part of the answer, on standard error."""
    typer.echo(f"schedlang: {printable(message)}", err=True)


def printable(text: str) -> str:
    """Return a text whose control characters are escapes: a database may hold any name."""
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) != "Cc":
        return character
    return character.encode("unicode_escape").decode("ascii")


@contextlib.contextmanager
def only_answers() -> Iterator[None]:
    """Send what others print to standard error: standard output is for the answer alone.

    That holds for ``print`` in a user's file, and for C++ where the output is a real file.
    """
    with _moved(sys.stdout, sys.stderr), contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def _moved(output: TextIO, place: TextIO) -> Iterator[None]:
    """Send what is written to a file descriptor to another one."""
    try:
        number, other = output.fileno(), place.fileno()
    except (OSError, ValueError):  # closed, or of a test
        yield
        return
    kept = os.dup(number)
    os.dup2(other, number)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)  # what C++ wrote is in a buffer of its own
        os.dup2(kept, number)
        os.close(kept)
