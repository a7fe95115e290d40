"""What a cost model sees of a program: TVM's feature extractor (Ansor, section 5.2, appendix B).

The extractor lowers a program before it looks at it. Two of the passes on this way take half to
five sixths of the time: they simplify expressions, and shrink intermediate buffers to what is used
of them. Without them models rank nearly as well (pairs in the right order: 0.775 instead of 0.780,
after 128 of 192 random programs of six workloads), so they are left out. With them, counts of index
arithmetic, strides of padded accesses and sizes of intermediate buffers would be more exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm.ir.transform import PassContext
from tvm.target import Target as TVMTarget

from schedlang.tvm.schedule import TVMSchedule

COLUMNS = 164
"""Features of one statement."""

_BUFFERS = 5
_CURVE_SAMPLES = 10
_CACHE_LINE_BYTES = 64
# Each of the buffers that a statement accesses has 18 columns, after the 57 of its computation.
_ACCESSES = slice(57, 57 + 18 * _BUFFERS)
_BYTES, _LINES = 3, 5

SKIPPED_PASSES = ("s_tir.StmtSimplify", "s_tir.CompactBufferAllocation")

Features = NDArray[np.float32]
Table = NDArray[np.float64]


def statement_features(schedules: Sequence[TVMSchedule], threads: int = 1) -> list[Features | None]:
    """For each program one row of 164 features for each buffer that its statements compute.

    Counts, lengths and bytes are log2(1 + x); categories are one-hot. A statement that stores a
    constant has no row, so a program may have none: (0, 164). None stands for a program that TVM
    cannot lower, or with a feature that is not finite.

    Parameters
    ----------
    schedules: TVM's schedules, as in ``Schedule.raw``; they stay as they are.
    threads: how many programs to work on at a time; the interpreter lock is released.
    """
    if threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    tables = _extract_in_threads(schedules, threads)
    found = [table for table in tables if table is not None]
    if not found:
        return [None] * len(tables)
    rows = _in_order(np.concatenate(found)).astype(np.float32)
    finite = np.isfinite(rows)
    features: list[Features | None] = []
    end = 0
    for table in tables:
        if table is None:
            features.append(None)
            continue
        start, end = end, end + len(table)
        features.append(rows[start:end] if finite[start:end].all() else None)
    return features


def _extract_in_threads(schedules: Sequence[TVMSchedule], threads: int) -> list[Table | None]:
    """TVM's tables, in order; None for the programs that it fails at."""
    if threads == 1:
        return _extract_in_this_thread(schedules)
    # Not with threads of TVM's own: what passes to skip is known in the thread that says so only.
    tables: list[Table | None] = [None] * len(schedules)
    with ThreadPoolExecutor(threads) as pool:
        parts = [schedules[number::threads] for number in range(threads)]
        for number, part in enumerate(pool.map(_extract_in_this_thread, parts)):
            tables[number::threads] = part
    return tables


def _extract_in_this_thread(schedules: Sequence[TVMSchedule]) -> list[Table | None]:
    with PassContext(disabled_pass=list(SKIPPED_PASSES)):
        return _extract(schedules)


def _extract(schedules: Sequence[TVMSchedule]) -> list[Table | None]:
    """One call of TVM's extractor; as a program that it fails at ends it, more calls if need be."""
    if not schedules:
        return []
    candidate = _function("MeasureCandidate")
    extract = _function("FeatureExtractorExtractFrom")
    try:
        tables = extract(_extractor(), _context(), [candidate(sch, []) for sch in schedules])
    except RuntimeError:
        if len(schedules) == 1:
            return [None]
        half = len(schedules) // 2
        return _extract(schedules[:half]) + _extract(schedules[half:])
    return [table.numpy() for table in tables]


def _in_order(rows: Table) -> Table:
    """The rows with the buffers of a statement in an order that depends on the features alone.

    TVM puts those with the most cache lines first, then those with the most bytes; of two that are
    equal in both it goes by their names, and by addresses when these are the same too.
    """
    accesses = rows[:, _ACCESSES].reshape(len(rows), _BUFFERS, -1)
    keys = [-accesses[:, :, column] for column in range(accesses.shape[2] - 1, -1, -1)]
    order = np.lexsort((*keys, -accesses[:, :, _BYTES], -accesses[:, :, _LINES]), axis=-1)
    rows = rows.copy()
    rows[:, _ACCESSES] = np.take_along_axis(accesses, order[:, :, None], axis=1).reshape(
        len(rows), -1
    )
    return rows


@cache
def _extractor() -> Any:
    extract_workload = False
    make = _function("FeatureExtractorPerStoreFeature")
    return make(_BUFFERS, _CURVE_SAMPLES, _CACHE_LINE_BYTES, extract_workload)


@cache
def _context() -> Any:
    # The extractor asks the target only whether it has the key "gpu". With it the lengths of GPU
    # threads are filled in, 1 where there are none: right for programs of any kind.
    target = TVMTarget({"kind": "llvm", "keys": ["cpu", "gpu"]})
    return _function("TuneContext")(None, target, None, None, "features", 1, 1, None)


@cache
def _function(name: str) -> Any:
    # Not from tvm.s_tir.meta_schedule: its Python part needs packages that schedlang does not.
    return tvm_ffi.get_global_func(f"s_tir.meta_schedule.{name}")
