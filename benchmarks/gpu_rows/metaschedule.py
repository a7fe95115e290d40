"""MetaSchedule's space, search and cost model, with schedlang's measuring of candidates.

Its own builder and runner would build otherwise and time with a warm L2 cache; so both sides are
built with the same options (``PASS_CONTEXT``), verified and timed alike, and their numbers compare.
"""

from __future__ import annotations

import itertools
import logging
import math
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.measurement import Measurer
from schedlang.tvm.schedule.intrinsics import register_all

PASS_CONTEXT = (
    "tirx.use_async_copy from sm_80 on; tirx.merge_static_smem for programs that TVM does "
    "not compile without it"
)
_LOGGER = "tvm.s_tir.meta_schedule"
# It learns between rounds; its default of 64 would measure all trials at random.
_ROUNDS = 4


@dataclass
class Found:
    """What its search measured.

    Attributes
    ----------
    latencies: seconds and program of each candidate that works, in order.
    failures: number of other candidates by status.
    seconds: wall time.
    error: what ended it early; empty if nothing did.
    """

    latencies: list[tuple[float, Any]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    error: str = ""

    @property
    def trials(self) -> int:
        """Number of candidates."""
        return len(self.latencies) + self.failures.total()

    def fastest(self, count: int) -> list[Any]:
        """Return the fastest programs."""
        ordered = sorted(self.latencies, key=lambda item: item[0])
        return [module for _, module in ordered[:count]]


class _OutOfTime(Exception):
    """The row's time is over."""


def tune(
    workload: sl.Workload,
    target: sl.Target,
    measurer: Measurer,
    trials: int,
    seed: int,
    seconds: float,
    strategy: str = "evolutionary",
) -> Found:
    """Search with MetaSchedule's defaults for the target; stop after ``seconds``.

    Another ``strategy``, ``"replay-trace"``, draws at random.
    """
    register_all()  # MetaSchedule imports all intrinsics, which takes minutes otherwise
    from tvm.s_tir import meta_schedule as ms

    logging.getLogger(_LOGGER).setLevel(logging.ERROR)
    found = Found()
    started = time.monotonic()
    measurer.bind(workload)
    measurer.deadline = started + seconds
    with tempfile.TemporaryDirectory() as work_dir:
        builder, runner = _adapters(measurer, found, Path(work_dir))
        try:
            ms.tune_tir(
                mod=workload.mod,
                target=target.tvm_target(),
                work_dir=work_dir,
                max_trials_global=trials,
                num_trials_per_iter=max(-(-trials // _ROUNDS), 1),
                builder=builder,
                runner=runner,
                seed=seed,
                strategy=strategy,
            )
        except Exception as error:
            late = "_OutOfTime" in str(error) or isinstance(error, _OutOfTime)
            lines = str(error).strip().splitlines() or [""]
            found.error = "out of time" if late else f"{type(error).__name__}: {lines[-1]}"
        finally:
            measurer.deadline = math.inf
    found.seconds = time.monotonic() - started
    return found


def _adapters(measurer: Measurer, found: Found, work_dir: Path) -> tuple[Any, Any]:
    """Return a builder that measures its programs, and a runner that returns what it measured.

    MetaSchedule removes the folder of what was built once it has run: each program gets one.
    """
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder
    from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerResult

    numbers = itertools.count()
    samples: dict[str, tuple[float, ...]] = {}

    @derived_object
    class Builder(PyBuilder):
        def build(self, build_inputs: list[Any]) -> list[Any]:
            if time.monotonic() > measurer.deadline:
                raise _OutOfTime("_OutOfTime")
            modules = {next(numbers): given.mod for given in build_inputs}
            results = {}
            for one in measurer.measure([sl.Candidate(*item) for item in modules.items()]):
                if one.ok:
                    found.latencies.append((one.latency, modules[one.id]))
                    artifact = Path(tempfile.mkdtemp(dir=work_dir)) / "program"
                    samples[str(artifact)] = one.samples
                    results[one.id] = BuilderResult(str(artifact), None)
                else:
                    found.failures[str(one.status)] += 1
                    results[one.id] = BuilderResult(None, f"{one.status}: {one.message}")
            late = BuilderResult(None, "not measured in time")
            return [results.get(number, late) for number in modules]

    @derived_object
    class Future(PyRunnerFuture):
        def __init__(self, times: tuple[float, ...]) -> None:
            super().__init__()
            self.times = times

        def done(self) -> bool:
            return True

        def result(self) -> Any:
            return RunnerResult(list(self.times), None)

    @derived_object
    class Runner(PyRunner):
        def run(self, runner_inputs: list[Any]) -> list[Any]:
            return [Future(samples[str(given.artifact_path)]) for given in runner_inputs]

    return Builder(), Runner()
