"""Which process works on a run: two of them would measure the same candidates."""

from __future__ import annotations

import os
from pathlib import Path


def this_process() -> str:
    """Return a text that names this process; no other one of this machine ever has it."""
    return f"{os.getpid()}:{_started(os.getpid())}"


def is_alive(owner: str) -> bool:
    """Whether the process that ``this_process`` named is still running."""
    number, _, started = owner.partition(":")
    if not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OverflowError:
        return False  # no process has such a number
    except OSError:
        pass  # it is another user's
    return _started(int(number)) == started


def _started(number: int) -> str:
    """Return when a process started, in the system's ticks; ``""`` where that is unknown."""
    try:
        # The name in parentheses may hold anything; the state is the first field after it, the
        # start time the 20th.
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return "over" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return ""
