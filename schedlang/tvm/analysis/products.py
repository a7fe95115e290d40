"""Recognise einsums and matrix products in blocks.

Of an einsum: which extents may be padded without changing the result. Of a matrix product: which
variables are rows, columns, terms and batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.sym import Analyzer

from schedlang.tvm.analysis.accesses import block_axes
from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.statements import is_reduced
from schedlang.tvm.values import constant, dtype_of, extent_of, position_of, variables_in


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


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A block that computes ``C[b, m, n] += A[b, m, k] * B[b, k, n]`` after a change of indices.

    Each of b, m, n, k stands for any number of block variables, by position: the rows of a
    convolution are its batch, height and width, its terms the window and the input channels.

    Attributes
    ----------
    batches: variables that index all three.
    rows, columns: spatial variables that index the result and A, or the result and B.
    terms: variables that are summed over; they index A and B.
    extents: iterations of each variable.
    left, right: position of A and of B among the buffers that the block reads.
    dtypes: element types of A, B and C.
    contiguous: whether ``terms`` are contiguous in A and in B: the last index of the buffer
        depends on no row, or no column.
    """

    batches: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    terms: tuple[int, ...]
    extents: tuple[int, ...]
    left: int
    right: int
    dtypes: tuple[str, str, str]
    contiguous: tuple[bool, bool]


def matrix_product_of(sch: TVMSchedule, block: Any) -> MatrixProduct | str:
    """Return the matrix product that a block computes, or why it computes none."""
    stmt = get_statement(sch, block)
    store = stmt.body
    if not isinstance(store, tirx.BufferStore) or stmt.init is None:
        return "it is no reduction"
    term = added_term(store)
    factors = _factors(term)
    if factors is None or not is_zero(stmt.init):
        return "it is no sum of products of two elements"
    variables = [axis.var for axis in stmt.iter_vars]
    kinds, extents = zip(*block_axes(sch, block), strict=True)
    if -1 in extents:
        return "its extents are not constant"
    if any(extent_of(axis.dom.min) for axis in stmt.iter_vars):
        return "a variable does not start at 0"
    left, right = factors
    if left.source.same_as(right.source) or store.buffer.same_as(left.source):
        return "its factors are elements of one buffer"
    reads = [region.source for region in stmt.reads]
    analyzer = Analyzer()
    for axis, extent in zip(stmt.iter_vars, extents, strict=True):
        if extent > 1:  # one of extent 1 would vanish
            analyzer.bind(axis.var, axis.dom)
    # The channel of a convolution of one group has a term that is 0.
    indices = [[analyzer.simplify(i) for i in x.indices] for x in (left, right, store)]
    used = [_variables(expressions, variables) for expressions in indices]
    groups: dict[tuple[bool, bool, bool], list[int]] = {
        (True, True, True): [],
        (True, False, True): [],
        (False, True, True): [],
        (True, True, False): [],
    }
    for position, kind in enumerate(kinds):
        key = tuple(position in group for group in used)
        if key not in groups or (kind == "R") == key[2]:
            return "a variable indexes one of its three buffers only"
        groups[key].append(position)
    batches, rows, columns, terms = map(tuple, groups.values())
    if not (rows and columns and terms):
        return "it has no rows, no columns or no terms: no operand is used twice"
    last = [_variables(expressions[-1:], variables) for expressions in indices]
    return MatrixProduct(
        batches,
        rows,
        columns,
        terms,
        extents,
        position_of(left.source, reads),
        position_of(right.source, reads),
        (dtype_of(left.source), dtype_of(right.source), dtype_of(store.buffer)),
        (not last[0] & set(rows), not last[1] & set(columns)),
    )


def _factors(term: Any) -> tuple[Any, Any] | None:
    if isinstance(term, tirx.Cast):
        term = term.value
    if not isinstance(term, tirx.Mul):
        return None
    loads = [x.value if isinstance(x, tirx.Cast) else x for x in (term.a, term.b)]
    both = all(isinstance(load, TensorLoad) for load in loads)
    return (loads[0], loads[1]) if both else None


def _variables(indices: Any, variables: list[Any]) -> set[int]:
    return {position_of(var, variables) for index in indices for var in variables_in(index)}
