"""Matrix products with NVIDIA's tensor cores (MetaSchedule, 3.2, 6.3 and A.3)."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import block_facts, require
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import check_positive, not_applicable_if_refused
from schedlang.modules.gpu.finish_threads import pipeline
from schedlang.modules.gpu.fragments import (
    copy_by_warps,
    load_fragments,
    sample_copies,
    split_to_fragments,
    stage_by_warps,
    store_fragments,
    use_intrinsics,
)
from schedlang.modules.gpu.matrix_operands import (
    BlockLimits,
    find_matrix_product,
    tile_for_warps,
    to_fused_matrix_product,
)
from schedlang.modules.gpu.tensor_core_ways import bytes_of, fragments_of, order_weights
from schedlang.spaces.module import module


@module(name="use_tensor_core", before="multi_level_tiling")
def UseTensorCore(  # noqa: N802 - MetaSchedule's name
    sch: Schedule,
    block: BlockRV,
    *,
    via: Sequence[str] = ("wmma", "mma"),
    depths: Sequence[int] = (1, 2, 3, 4),
    max_fragments: int = 16,
    max_warps: int = 16,
    shared_bytes: int = 96 * 1024,
) -> None:
    """Compute matrix products with tensor cores.

    ::

        for i, j, k: C[i, j] += A[i, k] * B[k, j]
        ->  ij0 = blockIdx.y: ij1 = blockIdx.x: ij2 = threadIdx.y:
                fill(F)
                for k0: {A_s = A[..]; B_s = B[..];  in shared memory, by all threads
                    for k1: {load A_f, B_f;  for i3, j3, k2, i4, j4: F = mma(A_f, B_f, F)}}
                C_s = F; C = C_s
    """
    check_positive("UseTensorCore", max_fragments=max_fragments, max_warps=max_warps)
    product = find_matrix_product(sch, block)
    types, name = product.dtypes, block_facts(sch, block).name
    ways = fragments_of(via, types)
    require(bool(ways), f"no tensor core computes {types[0]} x {types[1]} -> {types[2]}")
    weights = order_weights(sch, block, product, [way.transposed for way in ways.values()])
    fragments = ways[sch.choose(f"tensor_core:{name}", list(ways), weights)]
    with not_applicable_if_refused():
        left, right, store = to_fused_matrix_product(sch, block, fragments.transposed)
        size = bytes_of(types[0])
        depth, widths = sample_copies(sch, name, [left, right, store], types, size, depths)
        calls = split_to_fragments(sch, block, fragments.terms)
        limits = BlockLimits(max_fragments, max_warps, shared_bytes // (size * depth), shared_bytes)
        tiles = tile_for_warps(sch, calls, name, fragments.terms, limits)
        place = tiles.warps if fragments.lane_elements else tiles.grid
        stored, element, out = store_fragments(
            sch, calls, place, fragments.scopes[2], tiles.rows, tiles.columns
        )
        sch.reverse_compute_inline(store)
        copy_by_warps(sch, out, calls, 5, widths[2], by_warp=place is tiles.warps)
        loads, elements = [], []
        for at, operand in enumerate((product.left, product.right)):
            stage_by_warps(sch, calls, operand, tiles.stage, widths[at], size)
            scope, shape = fragments.scopes[at], fragments.shapes[at]
            load, copied = load_fragments(sch, calls, operand, tiles.step, scope, shape)
            loads.append(load)
            elements.append(copied)
        use_intrinsics(
            sch,
            [*loads, calls, stored],
            [*elements, element],
            tiles.stage,
            fragments.intrinsics,
            fragments.lane_elements,
        )
        if depth > 1:
            pipeline(sch, tiles.stage, [0, 0, depth - 1], async_stages=[0])
