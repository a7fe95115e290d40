"""Outputs that are read after they were written, in the worker's own process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schedlang.measurement import Status
from schedlang.measurement.problem import Problem
from schedlang.targets import as_target
from schedlang.targets.cpu.backend import CPUBackend
from schedlang.targets.errors import Fault
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.problem_values import check_problem
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.worker.executor import run_header
from schedlang.targets.worker.in_process import InProcessWorker
from schedlang.targets.worker.process_state import FILES, THREADS
from schedlang.targets.worker.protocol import Request
from schedlang.tvm.codegen import CodeGenerator
from schedlang.tvm.program import to_json
from schedlang.workloads import from_script
from schedlang.workloads.workload import Workload
from tests.workloads.test_outputs import INTERLEAVED, SCAN, VALUES

TARGET = as_target("cpu")
QUICK = TimingPolicy(min_sample_seconds=1e-5, min_repeats=1, max_repeats=2)
HALF = INTERLEAVED.replace("B[vi * 2 + 1] = A[vi * 2 + 1]", "B[vi * 2] = A[vi * 2 + 1]")


class Bench(InProcessWorker):
    """The worker of ``LocalCPU`` in this process."""

    unwatched = (FILES, THREADS)

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self.set_up({})
        self.bind(Binding(workload.mod, workload.args, seed=0, verifies=True))

    def set_up(self, header: dict[str, Any]) -> None:
        self._backend = CPUBackend(CodeGenerator(TARGET.tvm_target()), TARGET.cpus)


@pytest.mark.parametrize(("text", "names"), [(SCAN, []), (INTERLEAVED, ["B"])])
def test_outputs_that_are_read_are_verified(text: str, names: list[str]) -> None:
    workload = from_script(text, outputs=names)
    bench = Bench(workload)
    request = {"id": 1, "discard": False, "most_size": None}
    bench.on_build(Request(request, (to_json(workload.mod).encode(),)))
    assert bench.on_run(Request({"id": 1, "keep": False, **run_header(QUICK, None, 1.2)}))[
        "verified"
    ]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_wrong_statement_is_found(dtype: str) -> None:
    """Elements that nobody wrote have other values in the second call."""
    workload = from_script(HALF.replace("float32", dtype), outputs=["B"])
    with pytest.raises(
        Fault, match="argument 1 is stated to be an output, and the program"
    ) as caught:
        Bench(workload)
    assert caught.value.status is Status.WRONG_RESULT


def test_the_inputs_of_a_scan_are_those_that_it_reads_first() -> None:
    scan = from_script(SCAN)
    check_problem(Problem(inputs=[VALUES], reference=np.cumsum), scan.args)
    with pytest.raises(ValueError, match="inputs"):
        check_problem(Problem(inputs=[VALUES, VALUES]), scan.args)
