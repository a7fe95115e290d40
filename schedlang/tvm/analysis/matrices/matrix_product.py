"""Recognise matrix products in blocks: which variables are rows, columns, terms and batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.sym import Analyzer

from schedlang.tvm.analysis.accesses import block_axes
from schedlang.tvm.analysis.einsum import added_term, is_zero
from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.values import dtype_of, extent_of, position_of, variables_in


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
