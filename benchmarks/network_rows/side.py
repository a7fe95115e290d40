"""A side of the comparison: a network, compiled in one way, in a process of its own.

Torch and TVM keep threads that wait for work and may bind them to cores, so no two sides share a
process. While one is timed, the others sleep.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from schedlang.targets.worker.fork_server import end_with

CONTEXT = multiprocessing.get_context("spawn")
WARM_UP_SECONDS = 0.3
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")
_MESSAGE_LINES = 2
_END_SECONDS = 10.0


@dataclass(frozen=True)
class Spec:
    """What a side is to make.

    Attributes
    ----------
    network: its name.
    threads: that a call may use.
    options: other values that the side needs.
    """

    network: str
    threads: int
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Side:
    """What a side's function returns, in the side's process.

    Attributes
    ----------
    call: runs the network once and returns its result.
    arrays: gives the arrays of a result.
    facts: what is worth a line in the figures.
    choose: takes what the next calls run with, where they may run with several things.
    """

    call: Callable[[], Any]
    arrays: Callable[[Any], list[Any]]
    facts: dict[str, Any] = field(default_factory=dict)
    choose: Callable[[Any], None] = lambda _: None


@dataclass(frozen=True)
class Chosen:
    """What a side's next calls run with."""

    what: Any


class SideError(Exception):
    """A side failed, or took too long."""


class SideProcess:
    """A side as the benchmark sees it.

    Parameters
    ----------
    name: of the side.
    make: a function of a module, which makes it in the process.
    spec: its argument.

    Attributes
    ----------
    outputs: arrays of a first call.
    facts: what the side tells.
    first_seconds: wall time of the first call.
    """

    def __init__(self, name: str, make: Callable[[Spec], Side], spec: Spec) -> None:
        self.name = name
        self.outputs: list[Any] = []
        self.facts: dict[str, Any] = {}
        self.first_seconds = 0.0
        self._connection, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(
            target=_serve, args=(theirs, os.getpid(), make, spec), daemon=False
        )
        with _environment(dict.fromkeys(_THREADS, str(spec.threads))):
            self._process.start()
        theirs.close()

    def wait(self, seconds: float) -> None:
        """Wait until it is ready. SideError if it fails, or is not ready in time."""
        self.outputs, self.facts, self.first_seconds = self._receive(seconds)

    def choose(self, what: Any, limit: float) -> None:
        """Have the next calls run with something else; ``outputs`` and ``first_seconds`` follow.

        SideError after ``limit`` seconds.
        """
        self._connection.send(Chosen(what))
        self.outputs, _, self.first_seconds = self._receive(limit)

    def samples(self, seconds: float, limit: float) -> list[float]:
        """Return the seconds of each call in about so many seconds; at least one call.

        SideError after ``limit`` seconds.
        """
        self._connection.send(seconds)
        samples: list[float] = self._receive(limit)
        return samples

    def _receive(self, seconds: float) -> Any:
        if not self._connection.poll(seconds):
            raise SideError(f"no answer in {seconds:.0f} s")
        try:
            kind, value = self._connection.recv()
        except EOFError as error:
            self._process.join()
            code = self._process.exitcode
            raise SideError(f"its process ended with {code}") from error
        if kind == "error":
            raise SideError(value)
        return value

    def close(self) -> None:
        """End the process: it ends by itself where it waits."""
        self._connection.close()
        self._process.join(_END_SECONDS)
        self._process.kill()
        self._process.join()


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(connection: Connection, parent: int, make: Callable[[Spec], Side], spec: Spec) -> None:
    """Make a side and time it, each time that a number of seconds comes; end with ``parent``."""
    end_with(parent, signal.SIGKILL)
    try:
        side = make(spec)
        first = _first_call(side, connection)
        while True:
            asked = connection.recv()
            if isinstance(asked, Chosen):
                side.choose(asked.what)
                first = _first_call(side, connection)
            else:
                connection.send(("samples", _samples(side.call, asked, first)))
    except (EOFError, ConnectionError):  # closed
        pass
    except BaseException as error:
        traceback.print_exc()
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        text = " | ".join(lines[:_MESSAGE_LINES])
        connection.send(("error", f"{type(error).__name__}: {text}"))


def _first_call(side: Side, connection: Connection) -> float:
    started = time.perf_counter()
    result = side.call()
    first = time.perf_counter() - started
    connection.send(("ready", (side.arrays(result), side.facts, first)))
    return first


def _samples(call: Callable[[], Any], seconds: float, first: float) -> list[float]:
    end = time.perf_counter() + WARM_UP_SECONDS
    while first < seconds:  # a slow one needs no warm-up
        call()
        if time.perf_counter() >= end:
            break
    samples = []
    end = time.perf_counter() + seconds
    while not samples or time.perf_counter() < end:
        started = time.perf_counter()
        call()
        samples.append(time.perf_counter() - started)
    return samples
