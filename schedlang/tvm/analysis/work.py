"""How much a program computes: work of its loops, operations of a call, widths of its numbers.

And statement features, the input of cost models, as TVM's own extractor computes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import prod
from typing import Any

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad
from tvm.ir.transform import PassContext
from tvm.s_tir import SBlockRealize
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.target import Target as TVMTarget
from tvm_ffi import structural_map

from schedlang.tvm.analysis.blocks import reuses_data
from schedlang.tvm.program import MAIN, as_main
from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.statements import bindings_of, nests_of, parts_of, reduces, table_of
from schedlang.tvm.values import (
    IF_THEN_ELSE,
    called,
    choice_of,
    constant,
    dtype_of,
    element_bits,
    extent_of,
    found_in,
    mentions,
    operands_of,
)

# In units of one arithmetic operation or one access to an element.
_FUNCTION_CALL = 16  # exp, tanh, sqrt
_INTEGER_DIVISION = 8
_UNKNOWN_EXTENT = 8
# A product keeps its operands in registers: it does this many times as much at the same time.
_REGISTER_REUSE = 8

_DIVISIONS = (tirx.Mod, tirx.FloorDiv, tirx.FloorMod)


def program_work(func: tirx.PrimFunc) -> list[int]:
    """Return the work of each statement directly in the root block: of each loop nest."""
    return [_work(part) for part in nests_of(func)]


def loop_work(sch: TVMSchedule, loop: Any) -> int:
    """Return the work of a loop, all its iterations together."""
    return _work(get_statement(sch, loop))


def _work(stmt: Any, repeats: int = 1) -> int:
    """Count operations and accesses to elements; calls count more, products less.

    ``repeats``: how often the loops around repeat it.
    """
    if isinstance(stmt, tirx.For):
        extent = constant(stmt.extent)
        extent = _guessed_extent(stmt, repeats) if extent is None else extent
        return extent * _work(stmt.body, repeats * max(extent, 1))
    if isinstance(stmt, tirx.While):
        return _UNKNOWN_EXTENT * (_cost(stmt.condition) + _work(stmt.body, repeats))
    if isinstance(stmt, SBlockRealize):
        work, block = _work(stmt.block.body, repeats), stmt.block
        return max(work // _REGISTER_REUSE, 1) if reduces(block) and reuses_data(block) else work
    if isinstance(stmt, tirx.IfThenElse):
        return _cost(stmt.condition) + max(_work(part, repeats) for part in parts_of(stmt))
    if isinstance(stmt, tirx.BufferStore):
        return 1 + _cost(stmt.value) + sum(_cost(index, index=True) for index in stmt.indices)
    if isinstance(stmt, tirx.Evaluate):
        return _cost(stmt.value)
    return sum(_work(part, repeats) for part in parts_of(stmt))


def _guessed_extent(loop: Any, repeats: int) -> int:
    """Guess the length of a loop that the data say: all of it reads a tensor once.

    The tensor is the largest that is read along the loop, as the entries of a sparse matrix.
    """
    along = [loop.loop_var]
    for realize in found_in(loop.body, SBlockRealize):
        along += [axis.var for axis, value in bindings_of(realize) if mentions(value, along)]
    sizes = [
        prod(constant(extent) or 1 for extent in load.source.ty.shape)
        for load in found_in(loop.body, TensorLoad)
        if any(mentions(index, along) for index in load.indices)
    ]
    inside = prod(constant(inner.extent) or 1 for inner in found_in(loop.body, tirx.For))
    return max(_UNKNOWN_EXTENT, max(sizes, default=0) // (repeats * max(inside, 1)))


def _cost(expr: Any, *, index: bool = False) -> int:
    """Count in an expression; arithmetic in an index is free, but not what it loads."""
    if isinstance(expr, tirx.Let):
        return _cost(expr.value, index=index) + _cost(expr.body, index=index)
    parts = operands_of(expr)
    if isinstance(expr, TensorLoad):
        return 1 + sum(_cost(part, index=True) for part in parts)
    if isinstance(expr, Call):
        own = 1 if called(expr) == IF_THEN_ELSE else _FUNCTION_CALL
    elif index or not parts:
        own = 0
    else:
        own = _INTEGER_DIVISION if isinstance(expr, _DIVISIONS) else 1
    return own + sum(_cost(part, index=index) for part in parts)


# What these compute, TVM does not know.
_FOREIGN_CALLS = frozenset({
    "tirx.call_extern", "tirx.call_pure_extern", "tirx.tvm_call_packed", "tirx.tvm_call_cpacked",
    "tirx.tvm_call_packed_lowered", "tirx.tvm_call_cpacked_lowered",
})  # fmt: skip


def estimate_flops(mod: IRModule) -> float:
    """Return the arithmetic operations of one call; a multiply-add counts as two.

    0 where that depends on data, or TVM does not see it: with a ``while`` loop, a call to a
    function that is not TVM's, or a loop whose length depends on more than other loops. The values
    of ``T.Let`` expressions are left out.
    """
    func = mod[MAIN]
    if not _is_countable(func.body):
        return 0.0
    # TVM refuses to count the values of these.
    body = structural_map(func.body, (tirx.Let, lambda bound: bound.body))
    return float(estimate_tir_flops(as_main(func.with_body(body))))


def _is_countable(body: Any) -> bool:
    """Whether TVM knows all lengths and operations; for others it takes the largest integer."""
    foreign = _FOREIGN_CALLS.intersection(map(called, found_in(body, Call)))
    if foreign or found_in(body, tirx.While):
        return False
    loops = found_in(body, tirx.For)
    counters = {loop.loop_var for loop in loops}
    return not any(
        isinstance(part, TensorLoad) or part not in counters
        for loop in loops
        for part in found_in(loop.extent, (TensorLoad, tirx.Var))
    )


# -- How wide the numbers are that a program computes with ----------------------------------------

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max)


def operand_bits(mod: IRModule) -> int:
    """Return the bits of the operands of most of a program's operations; 0 where it has none.

    An operation is as wide as the wider of its operands, and a cast is as wide as what it widens:
    a product of int8 that is summed in int32 has 8 bits, one of float32 and of weights that are
    packed in int8 has 32. Of equally many operations, the narrower ones count.
    """
    work: Counter[int] = Counter()
    for stmt, place in table_of(mod[MAIN].body):
        if isinstance(stmt, tirx.BufferStore):
            times = prod(extent_of(loop.extent, 1) for loop in place.loops)
            for bits in _widths(stmt.value, stmt.buffer):
                work[bits] += times
    return min(work, key=lambda bits: (-work[bits], bits), default=0)


def _widths(expr: Any, result: Any) -> Iterator[int]:
    """Yield the bits of each operation outside of indices."""
    if isinstance(expr, TensorLoad):
        return
    if isinstance(expr, (*_ARITHMETIC, Call)) and (bits := _bits(expr, result)):
        yield bits
    for part in operands_of(expr):
        yield from _widths(part, result)


def _bits(expr: Any, result: Any) -> int:
    """Return the bits of the widest element in an expression, the block's own result left out."""
    if isinstance(expr, TensorLoad):
        return 0 if expr.source.same_as(result) else element_bits(dtype_of(expr))
    choice = choice_of(expr)
    parts = choice[1:] if choice else operands_of(expr)
    return max((_bits(part, result) for part in parts), default=0)


# -- Statement features: TVM's extractor (Ansor, 5.2 and appendix B) ------------------------------
#
# The extractor lowers a program first. Two of its passes take half to five sixths of the time: they
# simplify expressions, and shrink intermediate buffers to the parts that are used. Models rank
# nearly as well without them (0.775 of the pairs in the right order instead of 0.780, after 128 of
# 192 random programs of six workloads), so they are skipped. With them, counts of index arithmetic,
# strides of padded accesses and sizes of intermediate buffers would be more exact.

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
