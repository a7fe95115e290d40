"""Small Relax modules, and records for their functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

import schedlang as sl
from schedlang.database import Database, Record
from schedlang.database.programs import put_program
from schedlang.networks import Task
from schedlang.tuning.records import blank_record, unscheduled_record

OP = relax.op
TARGET = sl.Target("cpu")


def tensor(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def module(
    inputs: Sequence[tuple[str, tuple[int, ...], str]],
    compute: Callable[..., Sequence[relax.Expr]],
) -> tvm.IRModule:
    """A module of operators: ``compute`` gets the inputs and returns the outputs."""
    builder = relax.BlockBuilder()
    variables = [relax.Var(name, relax.TensorType(shape, dtype)) for name, shape, dtype in inputs]
    with builder.function("main", variables):
        with builder.dataflow():
            outputs = compute(*variables)
            output = builder.emit_output(
                outputs[0] if len(outputs) == 1 else relax.Tuple(list(outputs))
            )
        builder.emit_func_output(output)
    return builder.get()


def layers(size: int = 16) -> tvm.IRModule:
    """Two dense layers of one shape, one of another, and a transposition."""

    def compute(x: relax.Expr) -> Sequence[relax.Expr]:
        for seed in (1, 2):
            x = OP.nn.relu(OP.matmul(x, relax.const(tensor(size, size, seed=seed))))
        return [OP.permute_dims(OP.matmul(x, relax.const(tensor(size, 4, seed=3))))]

    return module([("x", (8, size), "float32")], compute)


def parallel(task: Task, axis: int = 0) -> sl.Schedule:
    """The function of a task with a parallel loop around its first block."""
    sch = sl.Schedule(task.workload)
    sch.parallel(sch.get_loops(first_block(sch))[axis])
    return sch


def first_block(sch: sl.Schedule) -> sl.BlockRV:
    return sch.get_child_blocks(sch.get_block("root"))[0]


def store(
    database: Database,
    task: Task,
    latency: float,
    schedule: sl.Schedule | None = None,
    **changes: Any,
) -> Record:
    """Append a record of a schedule, or of the unscheduled function."""
    blank = blank_record(task.workload, TARGET, "test", 0)
    put_program(database, task.workload)
    record = unscheduled_record(blank, task.workload, latency)
    if schedule is not None:
        made = {"search": "test", "trace_json": schedule.trace.to_json(), "program_key": ""}
        record = replace(record, **made)
    [stored] = database.append([replace(record, **changes)])
    return stored


def compiled_layers() -> sl.networks.CompiledNetwork:
    """``layers()``, compiled with a parallel loop in each function."""
    network = sl.import_network(layers())
    with Database() as database:
        for task in network.tasks:
            store(database, task, 1e-4, parallel(task))
        return sl.compile_network(network, database)
