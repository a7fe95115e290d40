"""How wide the numbers are that a program computes with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad

from schedlang.tvm.parts import parts_of
from schedlang.tvm.program import MAIN
from schedlang.tvm.values import choice_of, dtype_of, element_bits, extent_of, operands_of

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max)


def operand_bits(mod: IRModule) -> int:
    """Return the bits of the operands of most of a program's operations; 0 where it has none.

    An operation is as wide as the wider of its operands, and a cast is as wide as what it widens:
    a product of int8 that is summed in int32 has 8 bits, one of float32 and of weights that are
    packed in int8 has 32. Of equally many operations, the narrower ones count.
    """
    work: Counter[int] = Counter()
    _count(mod[MAIN].body, 1, work)
    return min(work, key=lambda bits: (-work[bits], bits), default=0)


def _count(stmt: Any, times: int, work: Counter[int]) -> None:
    if isinstance(stmt, tirx.BufferStore):
        for bits in _widths(stmt.value, stmt.buffer):
            work[bits] += times
    if isinstance(stmt, tirx.For):
        times *= extent_of(stmt.extent, 1)
    for part in parts_of(stmt):
        _count(part, times, work)


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
