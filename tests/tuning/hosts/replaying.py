"""Hosts whose measurements depend on the program's structure only."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from tvm import relax

import schedlang as sl
from schedlang.workloads.workload import Workload
from tests.crash.tuner import Replayed

WORKLOAD = sl.workloads.get("GMM", n=32, m=32, k=32)


class OfAny(Replayed):
    """Measures any workload."""

    def bind(self, workload: Workload) -> None:
        """Measure another workload."""


def replayed(target: sl.Target) -> Replayed:
    """Return the measurer of a host."""
    return OfAny()


def tune(hosts: Any, **options: Any) -> sl.TuneResult:
    """Tune with measurements of ``replayed`` on hosts; None for this process, without hosts."""
    call: dict[str, Any] = {"trials": 24, "search": "random", "progress": False}
    call |= {"measurer": replayed, "hosts": hosts} if hosts else {"measurer": Replayed()}
    return sl.tune(WORKLOAD, **call | options)


@cache
def one_task() -> sl.Network:
    """Return a network of a single task."""
    x = relax.Var("x", relax.TensorType((32, 32), "float32"))
    weight = np.random.default_rng(0).standard_normal((32, 32)).astype("float32")
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(relax.op.matmul(x, relax.const(weight)))
        builder.emit_func_output(output)
    return sl.import_network(builder.get(), name="one task")


def tune_slices(hosts: Any, **options: Any) -> sl.TuneResult:
    """Tune a task of which hosts search slices, with measurements of ``replayed``."""
    call: dict[str, Any] = {"trials": 24, "search": "random", "progress": False}
    call |= {"measurer": replayed, "hosts": hosts}
    [task] = sl.tune_network(one_task(), **call | options).tasks
    if task.result is None:
        raise sl.WorkloadError(task.failed)
    return task.result


def threads(count: int = 1) -> ThreadPoolExecutor:
    """Return an executor of this process: its hosts take turns."""
    return ThreadPoolExecutor(count)
