"""How much memory measuring a workload takes."""

from __future__ import annotations

import math

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy)
import numpy as np

from schedlang.errors import WorkloadError
from schedlang.targets import host
from schedlang.targets.measure.draws import draw_count, further_draws
from schedlang.tvm.analysis.branches import branches_of
from schedlang.tvm.analysis.partial_results import count_steps
from schedlang.tvm.packing import weight_positions
from schedlang.tvm.program import intermediate_sizes
from schedlang.workloads.workload import Workload

# Python, TVM, LLVM and the code of candidates.
_WORKER_BYTES = 512 << 20
MEMORY_PART = 0.8
"""Part of the free memory that all workers together may use."""
_LEAST_BYTES = 2 << 30
# Random numbers are drawn as float64, one tensor after the other.
_DRAWN_BYTES = 8
# While results are compared: two copies, and three arrays of float64.
_COMPARED_BYTES = 24


def worker_bytes(workload: Workload) -> int:
    """Estimate the bytes that a worker needs to run and verify programs of a workload."""
    sizes = {arg: argument_bytes(arg.shape, arg.dtype) for arg in workload.args}
    elements = {arg: math.prod(arg.shape) for arg in workload.args}
    # Each tensor has its memory and, for each draw, a copy of its initial values or of the right
    # results; what is written has memory for a first call, and copies of two kinds of poison.
    draws = draw_count(workload)
    if branches_of(workload.mod):
        draws += further_draws(workload.args, count_steps(workload.mod))
    kept = (1 + draws) * sum(sizes.values()) + 3 * sum(
        size for arg, size in sizes.items() if arg.role != "input"
    )
    kept += sum(intermediate_sizes(workload.func))
    # Weights are packed into memory of their own, which is poisoned first.
    packed = weight_positions(workload.func)
    kept += 2 * sum(sizes[workload.args[position]] for position in packed)
    read = [elements[arg] for arg in workload.args if arg.role != "output"]
    drawn = _DRAWN_BYTES * max(read, default=0)
    compared = max(
        _COMPARED_BYTES * elements[arg] + 2 * sizes[arg]
        for arg in workload.args
        if arg.role != "input"
    )
    return _WORKER_BYTES + kept + max(drawn, compared)


def fitting_workers(workload: Workload, wanted: int, free: int | None) -> int:
    """Return how many of the ``wanted`` workers have room for the tensors of a workload.

    ``free`` is the memory in bytes; None where it is unknown. Raises WorkloadError where one worker
    has no room.
    """
    if free is None:
        return wanted
    needed = worker_bytes(workload)
    if needed - _WORKER_BYTES > MEMORY_PART * free:
        raise WorkloadError(_describe(workload, needed, free))
    return max(min(wanted, int(MEMORY_PART * free / (needed - _WORKER_BYTES))), 1)


def share_of_memory(workers: int) -> int | None:
    """Return the bytes that each of some workers may use; None where the free memory is unknown."""
    free = host.available_memory()
    return None if free is None else max(int(MEMORY_PART * free / workers), _LEAST_BYTES)


def _describe(workload: Workload, needed: int, free: int) -> str:
    parts = ", ".join(
        f"{arg.name} {_gigabytes(argument_bytes(arg.shape, arg.dtype))}" for arg in workload.args
    )
    inner = sum(intermediate_sizes(workload.func))
    parts += f", intermediate results {_gigabytes(inner)}" if inner else ""
    return (
        f"{workload.name} is too large for this machine: a worker needs about "
        f"{_gigabytes(needed)} to run and verify it, and {_gigabytes(free)} are free (one copy of "
        f"its tensors: {parts}); tune a smaller workload"
    )


def argument_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes of a tensor."""
    return math.prod(shape) * np.dtype(dtype).itemsize


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
