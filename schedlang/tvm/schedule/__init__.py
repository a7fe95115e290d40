"""TVM's ``s_tir.Schedule`` and its primitives."""

from schedlang.tvm.schedule.ffi import (
    ScheduleError,
    TVMSchedule,
    block_exists,
    constant_extent,
    copy_schedule,
    get_block,
    get_consumers,
    get_loops,
    get_module,
    get_statement,
    get_trace,
    loop_extent,
    new_schedule,
    new_traced_schedule,
    primitive,
)
from schedlang.tvm.schedule.held import HeldProgram

__all__ = [
    "HeldProgram",
    "ScheduleError",
    "TVMSchedule",
    "block_exists",
    "constant_extent",
    "copy_schedule",
    "get_block",
    "get_consumers",
    "get_loops",
    "get_module",
    "get_statement",
    "get_trace",
    "loop_extent",
    "new_schedule",
    "new_traced_schedule",
    "primitive",
]
