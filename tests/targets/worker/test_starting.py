"""A worker that the system does not start."""

from __future__ import annotations

import os
import resource

import pytest

from schedlang.errors import TargetError
from schedlang.targets.worker.process import WorkerProcess


def test_too_many_open_files_are_named() -> None:
    WorkerProcess(1, "this").kill()  # its thread is there from now on
    lowest = os.dup(0)
    os.close(lowest)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, before[1]))
    try:
        with pytest.raises(TargetError, match=r"no worker .*: Too many open files; .*`ulimit -n`"):
            WorkerProcess(1, "schedlang.targets.cpu.worker")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
