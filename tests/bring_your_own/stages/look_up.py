"""In a process that tuned nothing: find, apply, run and export each program.

Not only the best program is written as TVM Python: all that were measured are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

import schedlang as sl
from schedlang.tvm.codegen.pipeline import written_for_tvm
from tests.bring_your_own.catalogue import PROGRAMS
from tests.bring_your_own.stages.child import attempt

_SEED = 11


@contextmanager
def opened(folder: Path) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Yield what looks a program up by name in the database of ``folder``."""

    def look_up(name: str) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        given, database = PROGRAMS[name], folder / "tune.db"
        made = given.make()
        workload = sl.workloads.as_workload(made)
        call = given.call(workload.args, _SEED)
        call.save(folder / f"{name}.call")
        match = sl.best(made, "cpu", database, similar=False)
        if match is None:
            return {"found": "sl.best found nothing"}
        columns["found"] = ""

        def right() -> str:
            tensors = [value.copy() for value in call.before]
            match.build()(*tensors)
            return call.mismatch(tensors)

        def applied() -> str:
            with warnings.catch_warnings():
                warnings.simplefilter("error", sl.UntunedWarning)
                mod = sl.apply(made, database)
            again = sl.workloads.from_module(mod).mod
            expected = written_for_tvm(match.mod)
            same = tvm_ffi.structural_equal(again, expected)
            return "" if same else "sl.apply makes another program than sl.best"

        def written() -> None:
            schedules = [match.schedule]
            with sl.open_database(database) as opened:
                for record in opened.query(match.record.workload_key):
                    if record.ok and record.id != match.record.id:
                        schedules.append(sl.Trace.from_json(record.trace_json).replay(workload))
            for number, schedule in enumerate(schedules):
                text = schedule.trace.as_tvm_python()
                (folder / f"{name}.{number}.tvm.py").write_text(text, encoding="utf-8")
                stored = tvm.ir.save_json(written_for_tvm(schedule.mod))
                (folder / f"{name}.{number}.mod.json").write_text(stored, encoding="utf-8")

        attempt(columns, "right", right)
        attempt(columns, "applied", applied)
        attempt(columns, "exported", lambda: match.export_library(folder / f"{name}.so") and None)
        attempt(columns, "written", written)
        return columns

    yield look_up
