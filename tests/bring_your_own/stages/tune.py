"""Tune the programs, one after another, into one database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.targets import LocalCPU
from tests.bring_your_own.catalogue import PROGRAMS
from tests.bring_your_own.stages.child import attempt

COLUMNS = ("tuned", "verified")


@contextmanager
def opened(
    folder: Path, trials: int, finals: int, share: bool
) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Yield what tunes a program by name; with ``share`` all are measured by the same workers."""
    measurer = LocalCPU(sl.workloads.matmul(8, 8, 8), "cpu", verify="all") if share else None

    def tune(name: str) -> dict[str, Any]:
        columns: dict[str, Any] = {}

        def run() -> str | None:
            given = PROGRAMS[name]
            result = sl.tune(
                given.make(),
                "cpu",
                trials=trials,
                finals=finals,
                database=folder / "tune.db",
                measurer=measurer,
                progress=False,
                **({} if given.inputs is None else {"inputs": given.inputs}),
            )
            best = result.best
            columns.update(
                seconds=result.seconds,
                unscheduled=result.reference_latency,
                latency=best.latency,
                speedup=result.speedup,
                verified="" if best.record.verified else "the winner is not verified",
            )
            measured = [record for record in result.records[1:] if record.ok]
            return None if measured else f"no candidate succeeded: {result.describe_rejections()}"

        attempt(columns, "tuned", run)
        return columns

    try:
        yield tune
    finally:
        if measurer is not None:
            measurer.close()
