"""Which process works at a run: two of them would measure the same candidates."""

from __future__ import annotations

import os
from pathlib import Path


def this_process() -> str:
    """A text for this process that no other one has, on this machine, not even a later one."""
    return f"{os.getpid()}:{_started(os.getpid())}"


def is_alive(owner: str) -> bool:
    """Whether the process that ``this_process`` named still runs."""
    number, _, started = owner.partition(":")
    if not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is another user's
    return _started(int(number)) == started


def _started(number: int) -> str:
    """When a process started, as its system counts; ``""`` where that cannot be read."""
    try:
        # The name in parentheses may hold anything; the state is the first field after it, the
        # start time the 20th.
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return "over" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return ""
