"""Pack operands in the order in which tiles read them: inside the call, or ahead of all calls."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.analysis import block_facts, buffer_shape, reads_ahead
from schedlang.analysis.intrinsics import Access, block_axes, block_reads
from schedlang.errors import InstructionError
from schedlang.expressions import IntExpr, IntRV
from schedlang.instructions.handles import BlockRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import complement

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


# Annotation by which TVM's Relax passes find the copy of a weight.
PREPROCESSING = "meta_schedule.layout_rewrite_preproc"
# Packing ahead costs nothing in a call.
_USUAL = 0.95


@instruction
def pack_ahead(
    sch: Schedule, block: BlockRV, read_index: int, order: list[int], tiles: list[int | IntExpr]
) -> BlockRV:
    """Read a buffer through a copy that lies in the order in which the loops read it.

    ::

        C[i, j] reads W[j, k]   ->   for j0, k, j1: P[j0, k, j1] = W[j0 * 32 + j1, k]; C reads P

    ``order`` holds the positions of the block's variables, those of outer loops first, and
    ``tiles`` the innermost part of each variable, in the order of the variables; a part that does
    not divide its extent counts as 1. The copy has one dimension for each variable that indexes
    the buffer, in front, and one for each tile: those of reduced variables, then the others. The
    indices of the buffer may be any expressions of the variables, such as ``W[2 - v]``. An element
    that several values of a variable share, as in ``W[j, k // 2]``, is copied once.

    The copy is a block at the root. Where the buffer is a weight, it runs ahead of all calls
    (``tvm.packing``); the annotation tells TVM's Relax passes.
    """
    axes = block_axes(sch, block)
    read = block_reads(sch, block)[read_index]
    shared = _shared(read)
    dims = [at for at, _ in shared] if shared else sorted(read.variables)
    divisors = dict(shared or ())
    extents = {at: -(-axes[at][1] // divisors.get(at, 1)) for at in dims}
    sizes = {}
    for at in dims:
        size = max(int(tiles[at]) // divisors.get(at, 1), 1)
        sizes[at] = size if extents[at] % size == 0 else 1
    spatial = [at for at in order if at in dims and axes[at][0] == "S"]
    reduced = [at for at in order if at in dims and axes[at][0] != "S"]

    def tile_major(*indices: IntExpr) -> list[IntExpr]:
        by_variable = dict(zip(dims, indices, strict=True))
        return [
            by_variable[at] if sizes[at] == 1 else by_variable[at] // sizes[at]
            for at in (*spatial, *reduced)
            if sizes[at] < extents[at] or sizes[at] == 1
        ] + [by_variable[at] % sizes[at] for at in (*reduced, *spatial) if sizes[at] > 1]

    if shared:
        copy = sch.cache_read(block, read_index, "global", [block])
    else:
        copy = sch.reindex(block, ("read", read_index))
    sch.annotate(copy, PREPROCESSING, True)
    sch.transform_layout(copy, ("write", 0), tile_major)
    sch.transform_block_layout(copy, tile_major)
    return copy


def _shared(read: Access) -> tuple[tuple[int, int], ...] | None:
    """Return the variable of each dimension and by what it is divided, where elements are shared.

    None where each element has one value of each variable, and for other indices.
    """
    found = tuple(one for one in read.quotients if one is not None)
    variables = {at for at, _ in found}
    if len(found) < len(read.quotients) or len(variables) < len(found):
        return None
    return found if any(divisor > 1 for _, divisor in found) else None


def streamed_weights(sch: Schedule, block: BlockRV, cache_bytes: int) -> frozenset[int]:
    """Return the positions of a block's variables that index weights of more than ``cache_bytes``.

    Empty without such weights.
    """
    found: set[int] = set()
    reads = block_reads(sch, block)
    for index, ahead in enumerate(reads_ahead(sch, block)):
        elements = math.prod(buffer_shape(sch, block, "read", index))
        if ahead and elements * ELEMENT_BYTES > cache_bytes:
            found |= reads[index].variables
    return frozenset(found)


def choose_packing_ahead(
    sch: Schedule,
    block: BlockRV,
    order: Sequence[int],
    tiles: Sequence[IntRV | int],
    *,
    uniform: bool = False,
) -> None:
    """Choose for each operand that is known ahead whether it is packed ahead of all calls.

    ``order`` and ``tiles`` are those of ``pack_ahead``. Packing ahead costs nothing in a call, and
    the prior nearly always does; ``uniform`` disables it.
    """
    facts = block_facts(sch, block)
    for index, ahead in enumerate(reads_ahead(sch, block)):
        if not ahead or not block_reads(sch, block)[index].variables:
            continue
        mark = sch.mark()
        probs = None if uniform else (complement(_USUAL), _USUAL)
        if sch.choose(f"pack_ahead:{facts.name}:{index}", (False, True), probs):
            try:
                pack_ahead(sch, block, index, list(order), list(tiles))
            except InstructionError:  # a buffer that is read at several places
                sch.rollback(mark)
