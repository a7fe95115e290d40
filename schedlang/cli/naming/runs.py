"""Runs that a command line names: ``tune.db`` for the newest, ``tune.db#2``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedlang.cli.naming.stored import named
from schedlang.cli.verb import NothingFound, UsageError
from schedlang.errors import DatabaseError

if TYPE_CHECKING:
    from schedlang.database import RunHistory


def history_of(text: str) -> RunHistory:
    """Return the run that is named."""
    from schedlang.database import history

    found = named(text)
    if found.record is not None:
        raise UsageError(f"{text!r} is a record; a run is named as {found.path}#1")
    try:
        return history(found.path, found.run)
    except DatabaseError as error:
        raise NothingFound(str(error)) from error


def histories_of(texts: Sequence[str]) -> dict[str, RunHistory]:
    """Return runs by the names that they were given."""
    if len(set(texts)) < len(texts):
        raise UsageError("the same run is named twice")
    return {text: history_of(text) for text in texts}
