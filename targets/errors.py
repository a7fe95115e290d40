"""The errors of building programs, and of the libraries they are written to."""

from __future__ import annotations

from schedlang.errors import SchedlangError
from schedlang.tvm.errors import meaning_of

_LINE = 400


class BuildError(SchedlangError):
    """TVM could not compile a program; the message is its reason in one line."""


class LibraryError(BuildError, ValueError):
    """A path where no library can be written, or a file that is no library for this process."""


def describe(error: BaseException) -> str:
    """Describe an error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else ""
    return ": ".join(filter(None, (type(error).__name__, meaning_of(said) or said)))[:_LINE]
