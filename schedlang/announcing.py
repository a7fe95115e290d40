"""Steps that may take long are announced: in the log, and on a terminal for as long as they take.

A run of ``tune`` has a view of its own, in which such a step is a phase.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger("schedlang")
"""Gets each long step, and the lines of every run, with the level INFO; new bests with DEBUG."""


@contextmanager
def announced(step: str) -> Iterator[None]:
    """Tell what is done inside ``with``, such as ``"nvcc compiles 2 kernels"``."""
    LOGGER.info("%s", step)
    if not _is_terminal():
        yield
        return
    from rich.console import Console  # most programs announce nothing

    with Console(stderr=True).status(step):
        yield


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False
