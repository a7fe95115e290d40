from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlang import host
from schedlang.targets.worker import fork_server

# Without this, a failing contract would not show the values.
pytest.register_assert_rewrite("tests.targets.pooled_contract")


def _worker_pids(parent: int) -> set[int]:
    """Return a process's workers: it has fork servers, these have guards, and each of them one."""
    found = {parent}
    for name in (fork_server.SERVER_NAME, fork_server.GUARD_NAME, fork_server.WORKER):
        below = {child for pid in found for child in host.children_of(pid)}
        found = {pid for pid in below if _alive(pid) and _name(pid) == name}
    return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip()
    except OSError:
        return ""


def _wait_until_gone(pids: set[int], seconds: float = 20.0) -> set[int]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pids = {pid for pid in pids if _alive(pid)}
        if not pids:
            break
        time.sleep(0.02)
    for pid in pids:  # the test fails, and must not leave them to the next one
        os.kill(pid, signal.SIGKILL)
    return pids


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="session")
def worker_pids() -> Callable[[int], set[int]]:
    """Return the process ids of a process's workers."""
    return _worker_pids


def _group(leader: int) -> set[int]:
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                state, _, pgid = (process / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(pgid) == leader and state != "Z":
                found.add(int(process.name))
    return found


@pytest.fixture(scope="session")
def group() -> Callable[[int], set[int]]:
    """Return the living processes of a process group."""
    return _group


@pytest.fixture(scope="session")
def survivors() -> Callable[[set[int]], set[int]]:
    """Wait for processes to end; kill and return the ones that do not."""
    return _wait_until_gone


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """For a script: nothing is set for TVM's threads."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("TVM_", "OMP_"))}
