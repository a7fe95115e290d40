"""TVM's MetaSchedule databases: their records, their files, and the base of custom ones."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm.ir import IRModule
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import (
    JSONDatabase,
    PyDatabase,
    TuningRecord,
    Workload as TVMWorkload,
)
from tvm.s_tir.meta_schedule.tune_context import _normalize_mod
from tvm.s_tir.schedule import Trace
from tvm.target import Target as TVMTarget
from tvm.tirx import PrimFunc

from schedlang.errors import WorkloadError
from schedlang.tvm.program import block_realizes, named_functions
from schedlang.tvm.schedule import (
    HeldProgram,
    get_block,
    get_module,
    get_trace,
    new_traced_schedule,
)
from schedlang.tvm.stored_program import read_stored_program

__all__ = ["PyDatabase", "TVMWorkload", "TuningRecord", "derived_object"]

WORKLOADS_FILE = "database_workload.json"
RECORDS_FILE = "database_tuning_record.json"
# TVM's latency, in seconds, of a candidate without a measurement.
NO_TIME = 1e10
# Attributes that affect scheduling; all others only record the function's origin.
_MEANING = ("layout_free_buffers",)
_LENGTH_BYTES = 8


def read_program(text: str) -> IRModule:
    """Read a module from TVM's JSON text; runs no code. ValueError if the program is invalid."""
    try:
        return read_stored_program(text)
    except WorkloadError as error:
        raise ValueError(str(error)) from None


def program_of_line(line: str) -> IRModule:
    """Read the module of one line of a workload file; ValueError if the line is invalid."""
    stored = json.loads(line)
    if not isinstance(stored, list) or len(stored) != 2 or not isinstance(stored[1], str):
        raise ValueError("a workload must be a list of a hash and a program")
    try:
        content = base64.b64decode(stored[1], validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"its program is not base64: {error}") from None
    # TVM prefixes the text with its length.
    text = content[_LENGTH_BYTES:]
    if int.from_bytes(content[:_LENGTH_BYTES], "little") != len(text):
        raise ValueError("its program is truncated")
    return read_program(text.decode("utf-8"))


def only_function(mod: IRModule) -> PrimFunc | None:
    """Return the module's only PrimFunc; None if it has none or several."""
    functions = list(named_functions(mod).values())
    return functions[0] if len(functions) == 1 else None


def read_function(text: str) -> PrimFunc:
    """Return the one function of a program in TVM's JSON text; ValueError where it is none."""
    func = only_function(read_program(text))
    if func is None:
        raise ValueError("it is not one PrimFunc")
    return func


def without_origin(func: PrimFunc) -> PrimFunc:
    """Return the function without attributes that do not affect replaying a trace.

    Relax attaches ``op_pattern`` and others, MetaSchedule ``tirx.noalias``, compilers a name.
    """
    for name in list(func.attrs.keys()) if func.attrs else ():
        if name not in _MEANING:
            func = func.without_attr(name)
    return func


def normalized(func: PrimFunc) -> IRModule:
    """Return the module that MetaSchedule's passes look up for a function."""
    return _normalize_mod(func)


def apply_stored(trace: Sequence[Any], mod: IRModule) -> IRModule:
    """Replay a trace of a JSON database with TVM and return the program.

    TVM's reader does not validate its input: pass only traces that schedlang has read and replayed.
    """
    held = HeldProgram(mod)
    sch = new_traced_schedule(held.mod)
    Trace.apply_json_to_schedule([list(part) for part in trace], sch)
    return get_module(sch)


def apply_trace(trace: Trace, mod: IRModule) -> IRModule:
    """Replay a trace with TVM, as its passes do, and return the program."""
    held = HeldProgram(mod)
    sch = new_traced_schedule(held.mod)
    trace.apply_to_schedule(sch, False)
    return get_module(sch)


def idle_trace(mod: IRModule) -> Trace:
    """Return a trace that only looks up a block; empty if no block's name is unique."""
    func = only_function(mod)
    names = [] if func is None else [str(one.block.name_hint) for one in block_realizes(func)]
    sch = new_traced_schedule(mod)
    unique = next((name for name in names if names.count(name) == 1), None)
    if unique is not None:
        get_block(sch, unique, None)
    return get_trace(sch)


def tuning_record(
    trace: Trace, mod: IRModule, seconds: Sequence[float], target: TVMTarget
) -> TuningRecord:
    """Create a MetaSchedule record; ``seconds`` are measured latencies."""
    return _record(trace, TVMWorkload(mod), seconds, target)


def _record(
    trace: Trace, workload: TVMWorkload, seconds: Sequence[float], target: TVMTarget
) -> TuningRecord:
    arguments = ArgInfo.from_prim_func(only_function(workload.mod))
    return TuningRecord(trace, workload, list(seconds), target, arguments)


class DatabaseWriter:
    """Writes a MetaSchedule JSON database in an empty folder, with TVM's own writer."""

    def __init__(self, folder: Path) -> None:
        self.records = folder / RECORDS_FILE
        self._database = JSONDatabase(work_dir=str(folder))
        self._written = self._last = 0

    def add(
        self, trace: Trace, mod: IRModule, seconds: Sequence[float], target: TVMTarget
    ) -> list[Any]:
        """Append a record; return its trace as stored in the file."""
        workload = self._database.commit_workload(mod)
        self._database.commit_tuning_record(_record(trace, workload, seconds, target))
        with self.records.open(encoding="utf-8") as file:
            self._last = file.seek(self._written)
            stored = json.loads(file.readline())
            self._written = file.tell()
        instructions_and_decisions: list[Any] = stored[1][0]
        return instructions_and_decisions

    def take_back(self) -> None:
        """Remove the last record."""
        os.truncate(self.records, self._last)
        self._written = self._last


def current_target() -> TVMTarget | None:
    """Return the target of the innermost ``with target:``; None outside of any."""
    return TVMTarget.current(allow_none=True)


def kind_of(target: TVMTarget) -> str:
    """Return the kind of a target: ``"llvm"``, ``"cuda"``, ..."""
    return str(target.kind.name)
