"""MetaSchedule's own tuning run: its space, evolutionary search, cost model, builder and runner."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from _race import Run, Trial

import schedlang as sl

TRIALS_A_ROUND = 64
LOGGER = "tvm.s_tir.meta_schedule"


def tune_metaschedule(workload: sl.Workload, target: sl.Target, trials: int, seed: int) -> Run:
    """Run ``tune_tir`` with its defaults, 64 trials per round.

    An exception in its search or a candidate ends the run; earlier measurements are kept.
    Its runner's processes inherit TVM_NUM_THREADS, which is set to the number of cores here: unless
    told, TVM takes half of the hardware threads.
    Wall time starts once the builder exists and this process has parsed the tensor intrinsics,
    which takes seconds. It includes parsing them in the builder's processes in each round.
    """
    import tvm.s_tir.tensor_intrin  # noqa: F401
    from tvm.s_tir import meta_schedule as ms

    # It warns about every log level except the two most verbose.
    logging.getLogger(LOGGER).setLevel(logging.ERROR)
    os.environ["TVM_NUM_THREADS"] = str(target.cores)
    measured: list[Trial] = []
    error = ""
    builder = local_builder()
    started = time.time()
    with tempfile.TemporaryDirectory() as work_dir, ms.Profiler() as profiler:
        callback, runner = _observers(measured, started)
        try:
            ms.tune_tir(
                mod=workload.mod,
                target=target.tvm_target(),
                work_dir=work_dir,
                max_trials_global=trials,
                num_trials_per_iter=min(TRIALS_A_ROUND, trials),
                builder=builder,
                runner=runner,
                measure_callbacks=[*ms.MeasureCallback.create("default"), callback],
                seed=seed,
            )
        except Exception as raised:
            lines = str(raised).strip().splitlines() or [""]
            error = f"{type(raised).__name__}: {lines[-1]}"
        seconds = time.time() - started
        split = _split(profiler.get(), seconds)
        close_logs()
    if not error and len(measured) < trials:
        error = "it ended early"
    return Run(measured, seconds, split=split, error=error)


def local_builder() -> Any:
    """Return the local builder of ``tune_tasks``, with a time-out that starts later.

    It starts new processes in each round. By default, the time-out of a process's first candidate
    includes parsing the tensor intrinsics, and expires on a busy machine; here they parse before.
    """
    from tvm.s_tir.meta_schedule.builder import LocalBuilder
    from tvm.s_tir.meta_schedule.utils import cpu_count

    def parse_intrinsics() -> None:
        import tvm.s_tir.tensor_intrin  # noqa: F401

    return LocalBuilder(max_workers=cpu_count(logical=False), initializer=parse_intrinsics)


def _observers(measured: list[Trial], started: float) -> tuple[Any, Any]:
    """Return a callback that collects each round's measurements, and a runner that times them.

    The runner is MetaSchedule's local one, which always runs one candidate after the other.
    """
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback
    from tvm.s_tir.meta_schedule.runner import LocalRunner, PyRunner

    ends: list[float] = []

    @derived_object
    class ClockedRunner(PyRunner):
        def __init__(self) -> None:
            super().__init__()
            self.local = LocalRunner()

        def run(self, runner_inputs: Any) -> list[Any]:
            futures = []
            for one in runner_inputs:
                futures += self.local.run([one])
                ends.append(time.time() - started)
            return futures

    @derived_object
    class Recorder(PyMeasureCallback):
        def apply(
            self,
            task_scheduler: Any,
            task_id: int,
            measure_candidates: Any,
            builder_results: Any,
            runner_results: Any,
        ) -> None:
            round_end = time.time() - started
            times = iter(ends)
            for candidate, built, ran in zip(
                measure_candidates, builder_results, runner_results, strict=True
            ):
                end = round_end if built.artifact_path is None else next(times)
                measured.append(_trial(candidate, built, ran, end))
            ends.clear()

    return Recorder(), ClockedRunner()


def _trial(candidate: Any, built: Any, ran: Any, end: float) -> Trial:
    module = candidate.sch.mod
    if built.artifact_path is None:
        return Trial(end, None, _failure("build", built.error_msg), lambda: module)
    if ran.run_secs is None or not len(ran.run_secs):
        return Trial(end, None, _failure("run", ran.error_msg), lambda: module)
    seconds = [float(value) for value in ran.run_secs]
    # Its database ranks by the mean; there is one repeat by default.
    return Trial(end, sum(seconds) / len(seconds), "ok", lambda: module)


def _failure(step: str, message: Any) -> str:
    return f"{step}_{'timeout' if 'Timeout' in str(message) else 'error'}"


def _split(profile: Mapping[str, Any], seconds: float) -> dict[str, float]:
    """Return wall seconds by part; ``other`` is outside its profiler's parts, mostly start-up."""
    parts = dict.fromkeys(("search", "build", "run", "model"), 0.0)
    for name, spent in profile.items():
        if part := _part(name):
            parts[part] += float(spent)
    return {**parts, "other": seconds - sum(parts.values())}


def _part(name: str) -> str | None:
    if name in ("EvoSearch/Evolve/PredictNormalizedScore", "MeasureCallback/UpdateCostModel"):
        return "model"
    # Deeper names are parts of these.
    if name.startswith("EvoSearch/") and not name.startswith("EvoSearch/Evolve/Misc/"):
        return "search"
    return {"SendToBuilder": "build", "SendToRunner": "run", "JoinRunnerFutures": "run"}.get(name)


def close_logs() -> None:
    """Close its log files, which are in a temporary directory."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.startswith(LOGGER) and isinstance(logger, logging.Logger):
            for handler in list(logger.handlers):
                logger.removeHandler(handler)
                handler.close()
