"""MetaSchedule's side: JSON databases as its tuning writes them, without measuring anything.

The records are drawn from MetaSchedule's default space of a target, post-processing included, and
TVM's own writer writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule import _ffi_api
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord
from tvm.s_tir.meta_schedule.space_generator import PostOrderApply
from tvm.s_tir.meta_schedule.tune_context import TuneContext
from tvm.s_tir.schedule import Trace
from tvm.target import Target

import schedlang as sl
from schedlang.tvm.schedule.intrinsics import register_all

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
# AVX2 alone: the rules for later instruction sets need tensor intrinsics, which take seconds.
CPU = Target({"kind": "llvm", "num-cores": 4, "mcpu": "x86-64-v3"})
_GPU = {
    "kind": "cuda",
    "max_shared_memory_per_block": 49152,
    "max_threads_per_block": 1024,
    "thread_warp_size": 32,
    "registers_per_block": 65536,
}
CUDA = Target({**_GPU, "arch": "sm_70"})
TENSOR_CORES = Target({**_GPU, "arch": "sm_80"})


class Machine:
    """What schedlang needs to know of a machine that it has no target for."""

    def __init__(self, key: str, target: Target) -> None:
        self.key = key
        self._target = target

    def tvm_target(self) -> Target:
        return self._target


def drawn(workload: sl.Workload, target: Target, each: int = 1) -> Iterator[Schedule]:
    """Schedules of every sketch of MetaSchedule's, ``each`` of one, as its candidates are."""
    pytest.importorskip("psutil", reason="MetaSchedule does not run without psutil")
    if target is TENSOR_CORES:
        register_all()
    generator = PostOrderApply()
    context = TuneContext.__new__(TuneContext)
    # What TuneContext() does, but for an import of 17 s that registers tensor intrinsics.
    context.__init_handle_by_constructor__(
        _ffi_api.TuneContext, workload.mod, target, generator, None, "main", 1, 1, None
    )
    _ffi_api.TuneContextInitialize(context)
    steps = tuple(generator.postprocs)
    for number, sketch in enumerate(generator.generate_design_space(workload.mod)):
        found = 0
        for seed in range(1 + 100 * number, 31 + 100 * number):
            made = _draw(workload, sketch.trace, steps, seed)
            if made is not None and found < each:
                found += 1
                yield made


def _draw(workload: sl.Workload, sketch: Trace, steps: Sequence[Any], seed: int) -> Any:
    sch = Schedule(workload.mod, seed=seed)
    try:
        Trace(sketch.insts, {}).apply_to_schedule(sch, True)
        sch.enter_postproc()
        return sch if all(step.apply(sch) for step in steps) else None
    except RuntimeError:  # a ScheduleError: MetaSchedule drops such a candidate, too
        return None


def write_database(
    folder: Path, workloads: Sequence[sl.Workload], target: Target, each: int = 1
) -> list[Schedule]:
    """A JSON database of MetaSchedule's; the schedules of its records, in order."""
    database = JSONDatabase(work_dir=str(folder))
    schedules: list[Schedule] = []
    for workload in workloads:
        for sch in drawn(workload, target, each):
            schedules.append(sch)
            commit(database, workload, sch.trace, [1e-6 * len(schedules)], target)
    return schedules


def commit(
    database: JSONDatabase, workload: sl.Workload, trace: Trace, seconds: Any, target: Target
) -> None:
    """Append one record as MetaSchedule does."""
    arguments = ArgInfo.from_prim_func(workload.func)
    stored = database.commit_workload(workload.mod)
    database.commit_tuning_record(TuningRecord(trace, stored, seconds, target, arguments))
