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

_STANDARD_ERROR = 2


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


def open_missing() -> None:
    """Open outputs that whoever started the process has closed, as ``>&-`` does: to nowhere.

    Else the next file that is opened, such as a database, would be written to as an output.
    """
    number = os.open(os.devnull, os.O_RDWR)
    while number <= _STANDARD_ERROR:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the process


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
