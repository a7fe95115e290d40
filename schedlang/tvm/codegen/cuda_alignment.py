"""Whether the vectors that a kernel stores and copies start at multiples of their size."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.ir import Var
from tvm.ir.prim import expr as prim
from tvm.sym import Analyzer

from schedlang.tvm.errors import comes_back

# Number of points that an index is tried at where the analyzer cannot prove it aligned.
_POINTS = 256

_Values = np.ndarray[Any, Any]
_OPERATORS: Mapping[Any, Callable[..., Any]] = {
    prim.Add: operator.add,
    prim.Sub: operator.sub,
    prim.Mul: operator.mul,
    prim.FloorDiv: operator.floordiv,
    prim.FloorMod: operator.mod,
    prim.Min: np.minimum,
    prim.Max: np.maximum,
    prim.LShift: operator.lshift,
    prim.RShift: operator.rshift,
    prim.BitwiseAnd: operator.and_,
    prim.BitwiseOr: operator.or_,
    prim.BitwiseXor: operator.xor,
}


@dataclass(frozen=True)
class Access:
    """An access to ``bytes`` bytes at once.

    Attributes
    ----------
    buffer: name of what is accessed.
    offset: from its start, in elements: an expression.
    element_bytes: size of an element.
    bytes: size of the access.
    """

    buffer: str
    offset: Any
    element_bytes: int
    bytes: int


@dataclass(frozen=True)
class MisalignedAccess:
    """An access of ``bytes`` bytes at once, at an offset that some thread has not aligned to that.

    Attributes
    ----------
    buffer: name of what is accessed.
    bytes: size of the access.
    offset: its offset from the buffer's start in bytes, at one point.
    """

    buffer: str
    bytes: int
    offset: int


@comes_back
class _Unknown(Exception):
    """An index depends on data, or on an operation that is not evaluated here."""


def misaligned(
    accesses: Iterable[Access], extents: Mapping[Any, int], values: Mapping[Any, Any]
) -> Iterator[MisalignedAccess]:
    """Find the accesses that are not aligned for some thread and iteration.

    ``extents`` are those of loops and threads, ``values`` the expressions of other variables.
    What depends on data is left out, and so are conditions around an access.
    """
    analyzer, random = Analyzer(), np.random.default_rng(0)
    points = {one: random.integers(0, extent, _POINTS) for one, extent in extents.items()}
    for access in accesses:
        period = access.bytes // access.element_bytes
        if period <= 1:
            continue
        known = analyzer.modular_set(access.offset)
        if int(known.coeff) % period == 0 and int(known.base) % period == 0:
            continue
        try:
            places = np.broadcast_to(_evaluate(access.offset, points, values), _POINTS)
        except _Unknown:
            continue
        apart = np.flatnonzero(places % period)
        if apart.size:
            offset = int(places[apart[0]]) * access.element_bytes
            yield MisalignedAccess(access.buffer, access.bytes, offset)


def _evaluate(
    expression: Any, points: Mapping[Any, _Values], values: Mapping[Any, Any]
) -> _Values | int:
    apply = _OPERATORS.get(type(expression))
    if apply is not None:
        left = _evaluate(expression.a, points, values)
        right = _evaluate(expression.b, points, values)
        found: _Values | int = apply(left, right)
        return found
    if isinstance(expression, prim.IntImm):
        return int(expression)
    if isinstance(expression, prim.Cast):
        return _evaluate(expression.value, points, values)
    if isinstance(expression, Var) and expression in points:
        return points[expression]
    if isinstance(expression, Var) and expression in values:
        return _evaluate(values[expression], points, values)
    raise _Unknown
