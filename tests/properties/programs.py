"""The workloads of MetaSchedule's appendix A.2, small; the CPU space; running a program."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import tvm

from schedlang import workloads
from schedlang.modules import (
    auto_inline,
    multi_level_tiling,
    parallel_vectorize_unroll,
    random_compute_location,
)
from schedlang.spaces.space import Space
from schedlang.targets.measure.inputs import poison, random_inputs
from schedlang.tvm.analysis.partial_results import output_flows
from schedlang.workloads.workload import Workload

Array = np.ndarray[Any, Any]

# Small enough that the largest unrolling compiles in a fifth of a second; odd extents, borders,
# strides and several channels stay.
SMALL: dict[str, tuple[int, ...]] = {
    "C1D": (12, 4, 16, 3, 2, 1),
    "C2D": (6, 6, 2, 8, 3, 1, 1),
    "C3D": (3, 4, 4, 2, 8, 2, 1, 1),
    "DEP": (6, 6, 16, 3, 1, 1),
    "DIL": (8, 8, 2, 8, 3, 1, 2, 2),
    "GMM": (9, 12, 16),
    "GRP": (4, 4, 8, 8, 3, 1, 1, 2),
    "T2D": (3, 3, 4, 4, 4, 2, 1),
    "CAP": (3, 3, 2, 2, 2, 1, 0),
    "NRM": (15, 24),
    "SFM": (12, 32),
    "CBR": (6, 6, 2, 8, 3, 2, 1),
    "TBG": (8, 3, 8),
}
SPACE = Space(
    [
        auto_inline,
        multi_level_tiling(vector_lanes=16),
        random_compute_location,
        parallel_vectorize_unroll(cores=2),
    ]
)


@functools.cache
def small(name: str) -> Workload:
    """The operator with a shape that runs in microseconds."""
    workload: Workload = getattr(workloads, name)(*SMALL[name])
    return workload


@functools.cache
def inputs(workload: Workload) -> list[Array | None]:
    """Values for each argument, None for one that is only written; not to be changed."""
    return random_inputs(workload.args, seed=0)


@functools.cache
def expected(workload: Workload) -> list[Array]:
    """Return the outputs of the unscheduled program."""
    return run(workload.mod, workload)


def run(mod: Any, workload: Workload) -> list[Array]:
    """Return the outputs of a program on ``inputs(workload)``; they hold NaN before the run."""
    tensors = [
        tvm.runtime.tensor(poison(arg.shape, arg.dtype) if value is None else value)
        for arg, value in zip(workload.args, inputs(workload), strict=True)
    ]
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        tvm.compile(mod, target="llvm")["main"](*tensors)
    pairs = zip(workload.args, tensors, strict=True)
    return [tensor.numpy() for arg, tensor in pairs if arg.role != "input"]


def assert_same_numbers(mod: Any, workload: Workload, what: object) -> None:
    """Assert that the program computes the unscheduled results; ``what`` names it in messages."""
    flows = output_flows(workload.mod).values()
    tolerance = 1e-6 * math.sqrt(max(output.flow.reduction_length for output in flows))
    for got, want in zip(run(mod, workload), expected(workload), strict=True):
        size = float(np.sqrt(np.mean(np.square(want))))
        np.testing.assert_allclose(
            got, want, rtol=tolerance, atol=tolerance * size, err_msg=str(what)
        )
