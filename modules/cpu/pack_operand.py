"""Pack operands: copy them into a tile-major layout."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.analysis import block_facts, buffer_shape
from schedlang.analysis.intrinsics import block_reads
from schedlang.analysis.layouts import reads_ahead
from schedlang.expressions import IntExpr, IntRV
from schedlang.instructions.handles import BlockRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.priors import complement

# Fewest uses of an element for which copying it may pay.
MIN_USES = 16
ELEMENT_BYTES = 4


@instruction
def pack_read(
    sch: Schedule, block: BlockRV, read_index: int, tiles: list[int | IntExpr], spatial: list[bool]
) -> BlockRV:
    """Read a buffer through a copy whose layout is tile-major; return the copying block.

    ::

        C reads B[k, j]   ->   for j0, k, j1: P[j0, k, j1] = B[k, j0 * 32 + j1]; C reads P

    ``tiles`` holds the tile size of each dimension of the buffer; a size that does not divide its
    dimension counts as 1. The copy's dimensions are the tile numbers of the dimensions that are
    ``spatial``, then those of the others, then the elements of a tile.
    """
    shape = buffer_shape(sch, block, "read", read_index)
    sizes = [
        int(tile) if extent % int(tile) == 0 else 1
        for tile, extent in zip(tiles, shape, strict=True)
    ]
    packed = sch.cache_read(block, read_index, "global", [block])
    order = [k for k, flag in enumerate(spatial) if flag]
    order += [k for k, flag in enumerate(spatial) if not flag]

    def tile_major(*indices: IntExpr) -> list[IntExpr]:
        outer = [indices[k] if sizes[k] == 1 else indices[k] // sizes[k] for k in order]
        return outer + [indices[k] % sizes[k] for k in order if sizes[k] > 1]

    sch.transform_layout(packed, ("write", 0), tile_major)
    sch.transform_block_layout(packed, tile_major)
    innermost = [k for k in order if sizes[k] > 1] or order
    if innermost[-1] == len(sizes) - 1:
        sch.vectorize(sch.get_loops(packed)[-1])
    return packed


def choose_packing(
    sch: Schedule,
    block: BlockRV,
    tiles: Sequence[IntRV | int],
    vector: int,
    *,
    cache_bytes: int,
    uniform: bool = False,
) -> None:
    """Choose for each operand of a block whether the block reads it through a packed copy.

    ``tiles`` holds the tile size of each block variable, ``vector`` the position of the vectorised
    variable. The prior packs an operand whose vectors are not contiguous nearly always, one of more
    than ``cache_bytes`` bytes often, others rarely; ``uniform`` disables the prior.
    """
    facts = block_facts(sch, block)
    outputs = len(facts.spatial_extents)
    extents = facts.spatial_extents + facts.reduction_extents
    ahead = reads_ahead(sch, block)
    for index in range(facts.reads):
        if ahead[index]:
            continue
        axes = block_reads(sch, block)[index].dims
        shape = buffer_shape(sch, block, "read", index)
        elements = math.prod(shape)
        known = [axis for axis in axes if axis is not None]
        if len(known) < len(axes) or math.prod(extents) < MIN_USES * elements:
            continue
        spatial = [axis < outputs for axis in known]
        if all(spatial):
            continue
        sizes: list[int | IntExpr] = [tiles[axis] if axis < outputs else 1 for axis in known]
        scattered = vector in axes and axes[-1] != vector
        large = elements * ELEMENT_BYTES > cache_bytes
        prob = 0.9 if scattered else 0.5 if large and vector in axes else 0.25 if large else 0.05
        probs = None if uniform else (complement(prob), prob)
        if sch.choose(f"pack:{facts.name}:{index}", (False, True), probs):
            pack_read(sch, block, index, sizes, spatial)
