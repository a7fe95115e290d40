"""Bring a sum of products, and what surrounds it, into a matrix product: im2col by indices."""

from __future__ import annotations

from collections.abc import Callable

from schedlang.analysis import block_facts, count_operations, has_trivial_binding, require
from schedlang.analysis.intrinsics import MatrixProduct, matrix_product
from schedlang.errors import InstructionError, NotApplicable
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.auto_inline import auto_inline

_INLINE = auto_inline(inline_branches=True, inline_expensive=True)


def inline_producers(sch: Schedule, block: BlockRV, *, copies_only: bool = False) -> None:
    """Inline the element-wise blocks that a block reads, and those that they read.

    ::

        P = A if inside else 0; T = P transposed; B = T   ->   B = A transposed if inside else 0

    With ``copies_only``, blocks that compute or branch stay: transposes and reshapes do not.
    """
    for producer in sch.get_producers(block):
        inline_producers(sch, producer, copies_only=copies_only)
        facts = block_facts(sch, producer)
        branches = facts.has_if_then_else or bool(facts.operations)
        if copies_only and (branches or count_operations(sch, producer)):
            continue
        mark = sch.mark()
        try:
            _INLINE(sch, producer)
        except NotApplicable:
            sch.rollback(mark)


def inline_consumers(sch: Schedule, block: BlockRV) -> None:
    """Inline the element-wise blocks that read a block into it: bias, activation, conversion.

    ::

        C = P; D = C + bias; E = max(D, 0)   ->   E = max(P + bias, 0)
    """
    while len(consumers := sch.get_consumers(block)) == 1:
        mark = sch.mark()
        try:
            sch.reverse_compute_inline(consumers[0])
        except InstructionError:
            sch.rollback(mark)
            return


def find_matrix_product(sch: Schedule, block: BlockRV) -> MatrixProduct:
    """Return what product an unscheduled block computes, with copies in front of it inlined.

    Raises ``NotApplicable`` for other blocks.
    """
    require(has_trivial_binding(sch, block), "it is scheduled already")
    inline_producers(sch, block, copies_only=True)
    product = matrix_product(sch, block)
    if not isinstance(product, MatrixProduct):
        raise NotApplicable(product)
    return product


def to_fused_matrix_product(
    sch: Schedule, block: BlockRV, transposed: bool
) -> tuple[BlockRV, BlockRV, BlockRV]:
    """Do what ``to_matrix_product`` does, then inline the blocks before A and B and behind C."""
    left, right, store = to_matrix_product(sch, block, transposed)
    inline_producers(sch, left)
    inline_producers(sch, right)
    inline_consumers(sch, store)
    return left, right, store


@instruction
def to_matrix_product(sch: Schedule, block: BlockRV, transposed: bool) -> list[BlockRV]:
    """Index a sum of products as a matrix product; return the blocks that copy A, B and C.

    ::

        C[n, h, w, co] += X[n, h + rh, w + rw, ci] * W[rh, rw, ci, co]
        ->  A[nhw, rh rw ci] = X[..];  B[rh rw ci, co] = W[..];  P[m, n] += A[m, k] * B[k, n];
            C[..] = P[..]

    The variables of a block that are rows, columns or terms become one index each, and batches
    stay in front (``schedlang.analysis.intrinsics.matrix_product``). With ``transposed``, B is
    stored as ``B[n, k]``. The copies are there to be inlined. (MetaSchedule's
    TransformWithTensorIntrin.)
    """
    product = matrix_product(sch, block)
    assert isinstance(product, MatrixProduct)
    rows, columns, terms = product.rows, product.columns, product.terms
    sides = {
        ("write", 0): (rows, columns),
        ("read", product.left): (rows, terms),
        ("read", product.right): (columns, terms) if transposed else (terms, columns),
    }
    copies = {buffer: sch.reindex(block, buffer) for buffer in sides}
    for buffer, groups in sides.items():
        sch.transform_layout(
            block, buffer, _fused(product, *groups), assume_injective_transform=True
        )
    for buffer, groups in sides.items():
        sch.transform_block_layout(copies[buffer], _fused(product, *groups))
    sch.transform_block_layout(block, _fused(product, rows, columns, terms))
    store, left, right = copies.values()
    return [left, right, store]


def _fused(product: MatrixProduct, *groups: tuple[int, ...]) -> Callable[..., list[IntExpr | int]]:
    """Return the map from the variables that index a buffer to batches and one index a group."""
    used = sorted({*product.batches, *(at for group in groups for at in group)})

    def index(*variables: IntExpr) -> list[IntExpr | int]:
        by_position = dict(zip(used, variables, strict=True))
        indices: list[IntExpr | int] = [by_position[at] for at in product.batches]
        for first, *others in groups:
            total = by_position[first]
            for at in others:
                total = total * product.extents[at] + by_position[at]
            indices.append(total)
        return indices

    return index
