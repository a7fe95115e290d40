"""Processes that a test has started: found by their environment, waited for; limits of this one."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlang.targets.worker import fork_server


def marked(name: str, value: object, *, servers: bool = False) -> set[int]:
    """Return the living processes that were started with this value of the variable ``name``.

    It begins with ``SCHEDLANG_``, so that workers are forked from a fork server that has it too;
    ``servers``, which wait for orders, are left out unless asked for.
    """
    assert name.startswith("SCHEDLANG_")
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{name}={value}".encode() not in (process / "environ").read_bytes().split(b"\0"):
                continue
            if servers or (process / "comm").read_text().rstrip() != fork_server.SERVER_NAME:
                found.add(int(process.name))
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait until a condition holds; return whether it does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(0.005)
    return True


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    """Have the system limit this process for a moment."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)
