"""How this process starts workers: forked on Linux, each by itself elsewhere."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, cast

from schedlang import errors
from schedlang.targets.worker.child import Child, kill_group, start_python
from schedlang.targets.worker.forking import THREADS, fork_child

# TVM's threads spin this often before they sleep; its own default of 300000 (about 0.2 s) would
# take a core from whatever another worker runs next. This still spans the pause between two calls.
_SPIN_COUNT = "10000"


def worker_environment(threads: int) -> dict[str, str]:
    """Return the environment of a worker whose parallel loops use ``threads`` threads."""
    environment = dict(os.environ)
    environment[THREADS] = str(threads)
    environment.setdefault("TVM_THREAD_POOL_SPIN_COUNT", _SPIN_COUNT)
    root = str(Path(errors.__file__).resolve().parent.parent)
    if root not in site.getsitepackages():
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = root if not before else os.pathsep.join((root, before))
    return environment


def start_child(program: str, environment: Mapping[str, str]) -> Child:
    """Start a worker that runs the module ``program``; raises OSError where that fails."""
    if sys.platform != "linux":
        return _Alone(program, environment)
    return fork_child(program, environment)


class _Alone(Child):
    """A worker in a process of its own, which ends with its standard input."""

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        self._process = start_python([program], environment, subprocess.PIPE)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        super().__init__(cast("BinaryIO", stream) for stream in streams)

    @property
    def has_ended(self) -> bool:
        self.code = self._process.poll()
        return self.code is not None

    def kill(self) -> None:
        kill_group(self._process)
        self.code = self._process.returncode
