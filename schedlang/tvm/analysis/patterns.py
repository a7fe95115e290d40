"""Patterns of blocks: accesses and costs of their bodies, their bindings, sums of products.

Of an einsum: which extents may be padded without changing the result. Of a matrix product: which
variables are rows, columns, terms and batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.s_tir.schedule import _ffi_api
from tvm.sym import Analyzer
from tvm_ffi import structural_equal

from schedlang.tvm.analysis.accesses import block_axes
from schedlang.tvm.analysis.blocks import is_single_child, shared_depth
from schedlang.tvm.program import MAIN
from schedlang.tvm.schedule import (
    TVMSchedule,
    get_consumers,
    get_loops,
    get_module,
    get_producers,
    get_realize,
    get_sref,
    get_statement,
    scope_of,
)
from schedlang.tvm.schedule.forms import may_decompose_padding
from schedlang.tvm.statements import is_reduced, operand_beside
from schedlang.tvm.values import (
    BINARY,
    constant,
    dtype_of,
    extent_of,
    found_in,
    holds,
    operands_of,
    position_of,
    variables_in,
)

_is_spatial_program = _ffi_api.IsSpatialPrimFunc
_PIPELINE = "software_pipeline_stage"
# Memory by how many threads share it, most first; registers are in none of these.
_SHARED_BY = ("global", "shared", "warp")
_OPERATIONS = (*BINARY, tirx.Cast, tirx.Not, tirx.Select, Call)


def can_decompose_padding(sch: TVMSchedule, block: Any, loop: Any) -> bool:
    """Return whether a padding can be filled before a loop."""
    possible = bool(_ffi_api.CanDecomposePadding(sch, block, loop))
    return possible and may_decompose_padding(sch, loop)


def read_pattern(sch: TVMSchedule, block: Any) -> tuple[bool, bool]:
    """Return whether all reads of a block are injective, and whether all are ordered.

    Both require that each index of a read is a constant, or an index of the write plus or minus a
    constant (MetaSchedule's AnalyzeReadWritePattern; Ansor's conditions of a strictly inlinable
    node). Injective: no index of the write occurs twice. Ordered: they occur in the order of the
    write. A block that writes several buffers is neither.
    """
    stmt = get_statement(sch, block)
    if len(stmt.writes) != 1:
        return False, False
    written = [dom.min for dom in stmt.writes[0].region]
    if not all(isinstance(index, tirx.Var) for index in written):
        return False, False
    injective = ordered = True
    for region in stmt.reads:
        places: list[int] = []
        for dom in region.region:
            if isinstance(dom.min, tirx.IntImm):
                continue
            place = _place_of(dom, written)
            if place is None:
                return False, False
            places.append(place)
        injective &= len(set(places)) == len(places)
        ordered &= places == sorted(places)
    return injective, ordered


def _place_of(dom: Any, written: list[Any]) -> int | None:
    """Return the position of the written index that a read index is, up to a constant."""
    if not isinstance(dom.extent, tirx.IntImm):
        return None
    index = dom.min
    if isinstance(index, (tirx.Add, tirx.Sub)) and isinstance(index.b, tirx.IntImm):
        index = index.a
    position = position_of(index, written)
    return position if position >= 0 else None


def count_operations(sch: TVMSchedule, block: Any) -> int:
    """Count arithmetic operations, comparisons, casts and calls in one iteration of a block.

    Index arithmetic does not count; of a block of several statements only the stores do.
    """
    return _operations_of(get_statement(sch, block).body)


def _operations_of(node: Any) -> int:
    if isinstance(node, tirx.BufferStore):
        return _operations_of(node.value)
    if isinstance(node, tirx.SeqStmt):
        return sum(map(_operations_of, node.seq))
    if isinstance(node, _OPERATIONS):
        return 1 + sum(map(_operations_of, operands_of(node)))
    return 0


def repeated_operations(sch: TVMSchedule, block: Any) -> int:
    """Count the operations that an element costs more once its consumers compute the block.

    One read costs nothing more: the operations only move. Each further read, in whatever
    consumer, repeats those of the block: of its values, or, where these are more, the minima and
    maxima of its indices, which cost TVM the most time.
    """
    buffers = [region.source for region in get_statement(sch, block).writes]
    bodies = [get_statement(sch, consumer).body for consumer in get_consumers(sch, block)]
    return _repeated(sch, block, sum(_reads_of(body, buffers) for body in bodies))


def repeated_producers(sch: TVMSchedule, block: Any) -> int:
    """Count the operations that an element costs more once a block computes its producers."""
    body = get_statement(sch, block).body
    return sum(
        _repeated(sch, producer, _reads_of(body, [region.source for region in stmt.writes]))
        for producer in get_producers(sch, block)
        for stmt in [get_statement(sch, producer)]
    )


def _repeated(sch: TVMSchedule, block: Any, reads: int) -> int:
    operations = max(count_operations(sch, block), _limits_of(get_statement(sch, block).body))
    return max(reads - 1, 0) * operations


def _limits_of(node: Any) -> int:
    """Count minima and maxima of the indices of a body's reads."""
    if isinstance(node, tirx.SeqStmt):
        return sum(map(_limits_of, node.seq))
    if isinstance(node, tirx.BufferStore):
        return _limits_of(node.value)
    if isinstance(node, TensorLoad):
        return sum(map(_minima_and_maxima, node.indices))
    return sum(map(_limits_of, operands_of(node)))


def _minima_and_maxima(index: Any) -> int:
    inner = index.indices if isinstance(index, TensorLoad) else operands_of(index)
    return isinstance(index, (tirx.Min, tirx.Max)) + sum(map(_minima_and_maxima, inner))


def _reads_of(node: Any, buffers: list[Any]) -> int:
    """Count the reads of buffers in a body, a shared expression as often as it stands there."""
    if isinstance(node, tirx.SeqStmt):
        return sum(_reads_of(part, buffers) for part in node.seq)
    if isinstance(node, tirx.BufferStore):
        return sum(_reads_of(part, buffers) for part in (node.value, *node.indices))
    if isinstance(node, TensorLoad):
        here = any(node.source.same_as(buffer) for buffer in buffers)
        return here + sum(_reads_of(index, buffers) for index in node.indices)
    return sum(_reads_of(part, buffers) for part in operands_of(node))


def is_spatial_program(sch: TVMSchedule) -> bool:
    """Return whether no block of the main function reduces."""
    return bool(_is_spatial_program(get_module(sch)["main"]))


def written_rank(sch: TVMSchedule, block: Any) -> int:
    """Return the number of dimensions of the first buffer that a block writes."""
    return len(get_statement(sch, block).writes[0].source.ty.shape)


def thread_axis(sch: TVMSchedule, loop: Any) -> str:
    """Return the thread axis a loop is bound to, such as ``"threadIdx.x"``; ``""`` if none."""
    binding = get_statement(sch, loop).thread_binding
    return "" if binding is None else str(binding.thread_tag)


def is_in_software_pipeline(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a loop around a block is a software pipeline."""
    return any(_PIPELINE in get_statement(sch, loop).annotations for loop in get_loops(sch, block))


def is_below_root(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block is directly in the root block, not inside another block."""
    sref = get_sref(sch, block)
    return sref.parent is not None and scope_of(sref).parent is None


def common_depth(sch: TVMSchedule, blocks: list[Any]) -> int:
    """Count the outer loops that all of the blocks share."""
    first, *others = blocks
    return shared_depth(sch, list(get_loops(sch, first)), others)


def leaves_cache(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block reads memory that fewer threads share than the memory it writes.

    It moves values out of a cache, such as registers. Who reads them may run on other threads.
    """
    stmt = get_statement(sch, block)
    reads, writes = (
        [_nearness(region.source) for region in regions] for regions in (stmt.reads, stmt.writes)
    )
    return bool(reads and writes) and max(reads) > min(writes)


def _nearness(buffer: Any) -> int:
    """Return how near to one thread a buffer's memory is; registers of all sorts are nearest."""
    kind = str(buffer.scope()).partition(".")[0]
    return _SHARED_BY.index(kind) if kind in _SHARED_BY else len(_SHARED_BY)


def has_plain_binding(sch: TVMSchedule, block: Any) -> bool:
    """Return whether each variable of a block is bound to its own loop or to a constant.

    ``is_trivial_binding`` also requires the order of the loops, which rfactor does not keep.
    """
    values = get_realize(sch, block).iter_values
    loops = [value for value in values if not isinstance(value, tirx.IntImm)]
    if not all(isinstance(value, tirx.Var) for value in loops):
        return False
    return not any(holds(loops[:k], value) for k, value in enumerate(loops))


def has_same_binding(sch: TVMSchedule, block: Any, mod: IRModule) -> bool:
    """Return whether the block of this name in ``mod`` binds its variables to the same values."""
    now = get_realize(sch, block)
    found = [
        realize.iter_values
        for realize in found_in(mod[MAIN].body, SBlockRealize)
        if str(realize.block.name_hint) == str(now.block.name_hint)
    ]
    same = len(found) == 1 and structural_equal(found[0], now.iter_values, map_free_vars=True)
    return bool(same)


def count_consumers(sch: TVMSchedule, block: Any) -> int:
    """Count the blocks that read the results of a block."""
    return len(get_consumers(sch, block))


def has_own_loops(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block has loops, and they surround no other block."""
    loops = list(get_loops(sch, block))
    return bool(loops) and all(is_single_child(sch, loop) for loop in loops)


# -- Einsums and matrix products ------------------------------------------------------------------


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
    return operand_beside(store, tirx.Add, lambda one, other: one.same_as(other))


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
