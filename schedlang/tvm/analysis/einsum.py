"""Recognise einsums, and which of their extents may be padded without changing the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from schedlang.tvm.parts import is_reduced
from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.values import constant, extent_of, position_of


@dataclass(frozen=True, slots=True)
class Einsum:
    """A block that sums products of elements, indexed by its variables or 0.

    Attributes
    ----------
    extents: iterations of each variable.
    reduced: positions of the variables that are summed over.
    paddable: positions of the variables whose extents may grow if operands are zero outside their
        bounds: every dimension that such a variable indexes has its extent, and a reduced one
        indexes every factor.
    result: for each dimension of the result the position of its variable; None for the index 0.
    """

    extents: tuple[int, ...]
    reduced: frozenset[int]
    paddable: frozenset[int]
    result: tuple[int | None, ...]


def einsum_of(sch: TVMSchedule, block: Any) -> Einsum | None:
    """Return the einsum that a block computes; None if it computes something else."""
    stmt = get_statement(sch, block)
    variables = [axis.var for axis in stmt.iter_vars]
    extents = tuple(extent_of(axis.dom.extent) for axis in stmt.iter_vars)
    starts = [extent_of(axis.dom.min) for axis in stmt.iter_vars]
    store, init = stmt.body, stmt.init
    if -1 in extents or any(starts) or not is_zero(init) or not isinstance(store, tirx.BufferStore):
        return None
    term = added_term(store)
    loads: list[Any] = []
    if term is None or not _is_product_of_loads(term, loads):
        return None
    buffers = [load.source for load in loads] + [store.buffer]
    if any(a.same_as(b) for k, a in enumerate(buffers) for b in buffers[:k]):
        return None
    dims = [_dims(access.indices, variables) for access in (*loads, store)]
    if any(-1 in dim for dim in dims):
        return None
    reduced = frozenset(k for k, axis in enumerate(stmt.iter_vars) if is_reduced(axis))
    paddable = set(range(len(extents)))
    for buffer, dim in zip(buffers, dims, strict=True):
        shape = [extent_of(extent) for extent in buffer.ty.shape]
        paddable -= {
            k for k, size in zip(dim, shape, strict=True) if k is not None and size != extents[k]
        }
    # Outside, every factor must be 0: 0 times an infinite factor would be NaN.
    paddable -= {k for k in reduced if any(k not in dim for dim in dims[:-1])}
    return Einsum(extents, reduced, frozenset(paddable), dims[-1])


def is_zero(init: Any) -> bool:
    """Return whether a block's initial value is 0."""
    value = init.value if isinstance(init, tirx.BufferStore) else None
    return float(getattr(value, "value", 1)) == 0.0


def added_term(store: Any) -> Any | None:
    """Return ``x`` of ``C[i] = C[i] + x``; None for another statement."""
    value = store.value
    if not isinstance(value, tirx.Add):
        return None
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if isinstance(own, TensorLoad) and own.source.same_as(store.buffer):
            same = all(a.same_as(b) for a, b in zip(own.indices, store.indices, strict=True))
            return other if same else None
    return None


def _is_product_of_loads(expr: Any, loads: list[Any]) -> bool:
    """Return whether it is a product of (converted) elements; append them to ``loads``."""
    if isinstance(expr, tirx.Mul):
        return _is_product_of_loads(expr.a, loads) and _is_product_of_loads(expr.b, loads)
    if isinstance(expr, tirx.Cast):
        return _is_product_of_loads(expr.value, loads)
    if isinstance(expr, TensorLoad):
        loads.append(expr)
        return True
    return False


def _dims(indices: Any, variables: list[Any]) -> tuple[int | None, ...]:
    """Return the positions of the variables that are indices; None for 0, -1 for others."""
    return tuple(
        None if constant(index) == 0 else position_of(index, variables) for index in indices
    )
