"""The errors of building programs, and of the libraries they are written to."""

from __future__ import annotations

from schedlang.errors import SchedlangError


class BuildError(SchedlangError):
    """TVM could not compile a program; the message is its reason in one line."""


class LibraryError(BuildError, ValueError):
    """A path where no library can be written, or a file that is no library for this process."""
