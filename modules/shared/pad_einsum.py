"""Pad extents of matrix products that no good tile divides."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import (
    block_facts,
    buffer_shape,
    has_data_reuse,
    has_trivial_binding,
    require,
)
from schedlang.analysis.einsum import find_einsum
from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.checks import check_positive, not_applicable_if_refused
from schedlang.spaces.module import module

# A loop has good tiles if one of its divisors lies in this range: this many rows of accumulators
# keep a core busy and fit into its registers.
_FEW_ROWS, _MANY_ROWS = 4, 14
# Prior probability of not padding a poor extent. Its tiles are masked or scalar: 127x127x127
# reaches a fifth of the speed of 128x128x128 with a predicate, 0.97 of it with padding.
_LEFT_POOR = 0.05
# Exponent of the prior: padding that adds a tenth is half as likely as padding that adds nothing.
_WASTE_PENALTY = 8


@instruction
def pad_to_multiples(sch: Schedule, block: BlockRV, multiples: list[int | IntExpr]) -> None:
    """Round each extent of an einsum up to a multiple; operands are read with zeros around them.

    ::

        for i in 127, j in 127, k: C[i, j] += A[i, k] * B[k, j]
        ->  B_pad = B with zeros;  for i in 128, j in 128, k: C_pad[i, j] += A?[i, k] * B_pad[k, j];
            C = C_pad without the rest

    An operand that grows in its last dimension is copied; otherwise its vectors would not be
    contiguous, or would need masks. Other operands are read in place: ``A?`` is 0 outside ``A``.
    Once the tile is unrolled, only rows that may be outside are tested.
    """
    if all(int(multiple) == 1 for multiple in multiples):
        return
    before = {block_facts(sch, producer).name for producer in sch.get_producers(block)}
    sch.pad_einsum(block, multiples)
    for producer in sch.get_producers(block):
        if block_facts(sch, producer).name in before:
            continue
        padded = block_facts(sch, producer).spatial_extents
        if padded[-1] == buffer_shape(sch, producer, "read", 0)[-1]:
            sch.compute_inline(producer)


@module(before="multi_level_tiling")
def pad_einsum(
    sch: Schedule,
    block: BlockRV,
    *,
    lanes: int = 8,
    vectors: Sequence[int] = (1, 2, 3, 4),
    rows: Sequence[int] = (4, 6, 8, 12),
    terms: Sequence[int] = (),
    max_waste: float = 0.25,
) -> None:
    """Pad the poor extents of a matrix product (or another einsum) to multiples of good tiles.

    ::

        for i in 127, j in 127, k: C  ->  for i in 128, j in 128, k: C_pad; C = part of C_pad

    Use it before tiling. The extent of the result's last dimension is poor if it is not a multiple
    of ``lanes``; it is rounded up to a multiple of ``lanes`` times one of ``vectors``. Another
    spatial extent is poor if it has no divisor from 4 to 14; it is rounded up to a multiple of one
    of ``rows``. A reduced extent is rounded up to a multiple of one of ``terms``, if any are given
    (an instruction that sums 4 products at a time needs multiples of 4). The multiple of each poor
    extent is drawn; 1, no padding, is always possible, and multiples that add more than
    ``max_waste`` (a fraction of the extent) are excluded.

    In contrast to a predicated split, the inner loops run without tests and in whole vectors, at
    the price of copying the operand that grows in its last dimension, and the result. Both copies
    are blocks: ``random_compute_location`` places the first, ``place_padded_result`` the second.
    """
    _check(lanes, vectors, rows, terms, max_waste)
    require(has_trivial_binding(sch, block), "it is scheduled already")
    einsum = find_einsum(sch, block)
    require(einsum is not None, "it is no sum of products")
    assert einsum is not None
    require(has_data_reuse(sch, block), "no data are used twice")
    options: list[list[int]] = []
    for position, extent in enumerate(einsum.extents):
        wanted: Sequence[int] = ()
        if position not in einsum.paddable:
            pass
        elif position in einsum.reduced:
            wanted = terms if all(extent % term for term in terms) else ()
        elif position == einsum.result[-1]:
            wanted = [lanes * count for count in vectors] if extent % lanes else ()
        else:
            wanted = rows if _is_poor(extent) else ()
        limit = (1 + max_waste) * extent
        options.append([1, *(m for m in wanted if m > 1 and _rounded(extent, m) <= limit)])
    require(any(len(multiples) > 1 for multiples in options), "no extent is better padded")
    name = block_facts(sch, block).name
    drawn: list[int | IntExpr] = []
    for loop, extent, multiples in zip(sch.get_loops(block), einsum.extents, options, strict=True):
        if len(multiples) == 1:
            drawn.append(1)
            continue
        probs = _prior(extent, multiples)
        site = f"pad:{name}:{sch.get(loop).loop_var.name}"
        drawn.append(sch.sample_categorical(multiples, probs, name=site))
    with not_applicable_if_refused():
        pad_to_multiples(sch, block, drawn)


def _rounded(extent: int, multiple: int) -> int:
    return -(-extent // multiple) * multiple


def _prior(extent: int, multiples: list[int]) -> list[float]:
    """Return the probabilities of the multiples; the first one, 1, is no padding."""
    weights = [(extent / _rounded(extent, m)) ** _WASTE_PENALTY for m in multiples[1:]]
    scale = (1 - _LEFT_POOR) / sum(weights)
    return [_LEFT_POOR, *(weight * scale for weight in weights)]


def _is_poor(extent: int) -> bool:
    return all(extent % tile for tile in range(_FEW_ROWS, _MANY_ROWS + 1))


def _check(
    lanes: int,
    vectors: Sequence[int],
    rows: Sequence[int],
    terms: Sequence[int],
    max_waste: float,
) -> None:
    check_positive("pad_einsum", lanes=lanes)
    named = {"vectors": vectors, "rows": rows, "terms": terms}
    for name, values in named.items():
        if any(not isinstance(value, int) or value < 1 for value in values):
            raise SpaceError(f"pad_einsum({name}={values!r}): give integers of at least 1")
        if len(set(values)) < len(values):
            raise SpaceError(f"pad_einsum({name}={values!r}): give each integer once")
    if not 0 <= max_waste <= 1:
        raise SpaceError(
            f"pad_einsum(max_waste={max_waste}): give a fraction of the extent, 0 to 1"
        )
