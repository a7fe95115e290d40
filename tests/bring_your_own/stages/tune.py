"""Tune the programs, one after another, into one database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.measurement.problem import Problem
from schedlang.targets import LocalCPU
from schedlang.targets.measure.timing import TimingPolicy
from tests.bring_your_own.catalogue import PROGRAMS
from tests.bring_your_own.stages.child import attempt

_ROUGH = TimingPolicy(min_sample_seconds=1e-5, min_repeats=1, max_repeats=2, min_seconds=0.0)


@contextmanager
def opened(
    folder: Path, trials: int, finals: int, share: bool, rough: bool
) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Yield what tunes a program by name.

    With ``share`` all programs are measured by the same workers, and with ``rough``, too, in as
    little time as possible: latencies then mean nothing.
    """
    measurer = None
    if share or rough:
        # Each worker learns the right results of each program: where time means nothing, one does.
        timing, workers = (_ROUGH, 1) if rough else (None, None)
        measurer = LocalCPU(
            sl.workloads.matmul(8, 8, 8), "cpu", workers=workers, verify="all", timing=timing
        )

    def tune(name: str) -> dict[str, Any]:
        columns: dict[str, Any] = {}

        def run() -> str | None:
            program = PROGRAMS[name]
            workload = sl.workloads.as_workload(program.make())
            said = program.given()
            if measurer is not None:
                # A measurer that is given keeps its own: those of this program from now on.
                measurer.problem, said = Problem(**said), {}
            result = sl.tune(
                program.make(),
                "cpu",
                trials=trials,
                finals=finals,
                database=folder / "tune.db",
                measurer=measurer,
                progress=False,
                **said,
            )
            best = result.best
            columns.update(
                seconds=result.seconds,
                unscheduled=result.reference_latency,
                latency=best.latency,
                speedup=result.speedup,
                verified="" if best.record.verified else "the winner is not verified",
            )
            # A space that has nothing for a program has tuned it when it says so.
            others = [r for r in result.records if r.ok and r.program_key != workload.key]
            columns["candidates"] = len(others)
            failed = sum(result.rejected.values()) - result.rejected["duplicate"]
            return result.describe_rejections() if failed and not others else None

        attempt(columns, "tuned", run)
        return columns

    try:
        yield tune
    finally:
        if measurer is not None:
            measurer.close()
