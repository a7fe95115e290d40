"""Statement features, the input of cost models: TVM's extractor (Ansor, 5.2 and appendix B).

The extractor lowers a program first. Two of its passes take half to five sixths of the time: they
simplify expressions, and shrink intermediate buffers to the parts that are used. Models rank nearly
as well without them (0.775 of the pairs in the right order instead of 0.780, after 128 of 192
random programs of six workloads), so they are skipped. With them, counts of index arithmetic,
strides of padded accesses and sizes of intermediate buffers would be more exact.
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
"""Number of features of one statement."""

_BUFFERS = 5
_CURVE_SAMPLES = 10
_CACHE_LINE_BYTES = 64
# Each of the buffers that a statement accesses has 18 columns, after the 57 of its computation.
_COLUMNS_OF_BUFFER = 18
_ACCESSES = slice(57, 57 + _COLUMNS_OF_BUFFER * _BUFFERS)
_BYTES, _LINES = 3, 5

SKIPPED_PASSES = ("s_tir.StmtSimplify", "s_tir.CompactBufferAllocation")

Features = NDArray[np.float32]
Table = NDArray[np.float64]


def statement_features(schedules: Sequence[TVMSchedule], threads: int = 1) -> list[Features | None]:
    """Extract a table per program: a row of 164 features for each statement that stores a buffer.

    Counts, lengths and bytes are log2(1 + x); categories are one-hot. A statement that stores a
    constant has no row, so a table may be empty: (0, 164). The result is None for a program that
    TVM cannot lower, or that has a feature that is not finite.

    Parameters
    ----------
    schedules: TVM's schedules, as in ``Schedule.raw``; they are not changed.
    threads: number of programs to work on at the same time; the interpreter lock is released.
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
    """Return TVM's tables, in order; None for programs that it cannot lower."""
    if threads == 1 or len(schedules) < 2:  # starting threads takes longer than nothing does
        return _extract_in_this_thread(schedules)
    # TVM's own threads would run the skipped passes: a PassContext holds for its thread only.
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
    """Call TVM's extractor. One bad program fails the call, so halves are tried again then."""
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
    """Sort the buffers of each statement in an order that depends on the features alone.

    TVM sorts by cache lines, then bytes, both descending; it breaks ties by name, and then by
    address, which differs from run to run.
    """
    accesses = rows[:, _ACCESSES].reshape(len(rows), _BUFFERS, _COLUMNS_OF_BUFFER)
    keys = [-accesses[:, :, column] for column in range(accesses.shape[2] - 1, -1, -1)]
    order = np.lexsort((*keys, -accesses[:, :, _BYTES], -accesses[:, :, _LINES]), axis=-1)
    rows = rows.copy()
    sorted_accesses = np.take_along_axis(accesses, order[:, :, None], axis=1)
    rows[:, _ACCESSES] = sorted_accesses.reshape(len(rows), _COLUMNS_OF_BUFFER * _BUFFERS)
    return rows


@cache
def _extractor() -> Any:
    extract_workload = False
    make = _function("FeatureExtractorPerStoreFeature")
    return make(_BUFFERS, _CURVE_SAMPLES, _CACHE_LINE_BYTES, extract_workload)


@cache
def _context() -> Any:
    # The extractor only tests whether the target has the key "gpu". With it, the features include
    # the lengths of GPU threads, 1 for programs without them: right for programs of any kind.
    target = TVMTarget({"kind": "llvm", "keys": ["cpu", "gpu"]})
    return _function("TuneContext")(None, target, None, None, "features", 1, 1, None)


@cache
def _function(name: str) -> Any:
    # tvm.s_tir.meta_schedule cannot be imported: it needs packages that schedlang does not require.
    return tvm_ffi.get_global_func(f"s_tir.meta_schedule.{name}")
