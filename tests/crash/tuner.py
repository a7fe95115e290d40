"""A tuning run in a process of its own that can be killed: measurements come from a table."""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.database import Database, Record
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.clock import Phase
from schedlang.tuning.result import TuneResult
from schedlang.tvm.program import structural_key

# A server that has imported everything forks the processes: they start in no time.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.crash.tuner"])


class Replayed:
    """Measures deterministically: the result depends on the program's structure only."""

    reference_latency = 1.0

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for candidate in candidates:
            begin = time.time()
            time.sleep(self._seconds)
            phases = (Phase("run", begin, max(time.time(), begin)),)
            yield replace(measured(candidate), worker=0, phases=phases)

    def remeasure(
        self, candidates: Sequence[Candidate], rounds: int = 30, budget_seconds: float = 5.0
    ) -> list[Measurement]:
        return [measured(candidate) for candidate in candidates]

    def close(self) -> None:
        pass


def measured(candidate: Candidate) -> Measurement:
    """About one in eight fails; latencies spread over a factor of ten."""
    digest = hashlib.sha256(structural_key(candidate.module).encode()).digest()
    if digest[0] < 32:
        return Measurement(candidate.id, Status.RUN_ERROR, message=f"it failed: {digest[1]}")
    latency = 1e-5 * math.exp(2.3 * digest[1] / 255)
    samples = tuple(latency * (1 + digest[k] / 25_500) for k in (2, 3, 4, 5))
    return Measurement(candidate.id, Status.OK, samples, verified=True)


class Acknowledged(Database):
    """Writes the id of each record to a pipe, once it is stored."""

    def __init__(self, path: Path, pipe: int) -> None:
        super().__init__(path)
        self._pipe = pipe

    def append(self, records: Iterable[Record]) -> list[Record]:
        stored = super().append(records)
        for record in stored:
            os.write(self._pipe, f"{record.id}\n".encode())
        return stored


def tune_here(database: Database, call: dict[str, Any], seconds: float = 0.0) -> TuneResult:
    """The call of a test: ``workload`` is the name and the extents of an operator."""
    name, extents = call["workload"]
    return sl.tune(
        sl.workloads.get(name, **extents),
        database=database,
        measurer=Replayed(seconds),
        progress=False,
        **{key: value for key, value in call.items() if key != "workload"},
    )


def tune_for(
    path: Path, call: dict[str, Any], seconds: float, candidate_seconds: float = 0.0
) -> None:
    """Run after run into one file until time is over, with seeds from ``call["seed"]`` on."""
    until = time.monotonic() + seconds
    seed = call.get("seed", 0)
    while True:
        with Database(path) as database:
            tune_here(database, call | {"seed": seed}, candidate_seconds)
        seed += 1
        if time.monotonic() >= until:
            return


def _work(path: Path, call: dict[str, Any], pipe: Any, seconds: float, started: Event) -> None:
    started.set()
    with Acknowledged(path, pipe.fileno()) as database:
        tune_here(database, call, seconds)


class Process:
    """A tuning run in another process.

    Attributes
    ----------
    process: to wait for or to kill.
    """

    def __init__(self, path: Path, call: dict[str, Any], seconds: float = 0.0) -> None:
        self._receiver, sender = CONTEXT.Pipe(duplex=False)
        started = CONTEXT.Event()
        self.process: ForkServerProcess = CONTEXT.Process(
            target=_work, args=(path, call, sender, seconds, started)
        )
        self.process.start()
        sender.close()
        assert started.wait(60), "the process did not start"

    def acknowledged(self) -> set[int]:
        """Return the ids of the stored records, after the process has ended."""
        self.process.join()
        with os.fdopen(os.dup(self._receiver.fileno())) as stream:
            lines = stream.readlines()
        self._receiver.close()
        return {int(line) for line in lines if line.endswith("\n")}
