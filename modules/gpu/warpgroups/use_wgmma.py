"""Matrix products with the warpgroups of Hopper (wgmma, sm_90a)."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import block_facts, require
from schedlang.analysis.layouts import vector_run
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.matrix_operands import find_matrix_product, to_fused_matrix_product
from schedlang.modules.gpu.pipeline import pipeline
from schedlang.modules.gpu.warp_copies import sample_copies
from schedlang.modules.gpu.warpgroups.steps import (
    keep_in_registers,
    multiply_with_wgmma,
    stage_for_warpgroups,
)
from schedlang.modules.gpu.warpgroups.tiling import WarpgroupLimits, tile_for_warpgroups
from schedlang.modules.gpu.warpgroups.ways import LAYOUTS, choose_way
from schedlang.modules.shared.checks import check_positive, not_applicable_if_refused
from schedlang.spaces.module import module

_ARCH = "sm_90a"


@module(name="use_wgmma", before="multi_level_tiling")
def UseWGMMA(  # noqa: N802 - named after the hardware, as UseTensorCore is
    sch: Schedule,
    block: BlockRV,
    *,
    arch: str = _ARCH,
    layouts: Sequence[str] = LAYOUTS,
    depths: Sequence[int] = (1, 2, 3, 4),
    max_results: int = 128,
    max_warpgroups: int = 4,
    shared_bytes: int = 200 * 1024,
) -> None:
    """Compute matrix products with wgmma: 128 threads multiply what lies in shared memory.

    ::

        for i, j, k: C[i, j] += A[i, k] * B[k, j]
        ->  ij0 = blockIdx.y: ij1 = blockIdx.x: i2 = threadIdx.y:
                fill(R)
                for k0: {A_s = A[..]; B_s = B[..];  in shared memory, by all threads
                    fence; barrier; R = wgmma(A_s, B_s, R); wait; barrier}
                C = R

    ``arch`` is that of the target: the module applies to sm_90a only, which alone has wgmma.
    """
    check_positive("UseWGMMA", max_results=max_results, max_warpgroups=max_warpgroups)
    require(arch == _ARCH, f"only {_ARCH} has wgmma, and the target is {arch}")
    product = find_matrix_product(sch, block)
    types, name = product.dtypes, block_facts(sch, block).name
    way = choose_way(sch, block, product, name, layouts)
    with not_applicable_if_refused():
        left, right, store = to_fused_matrix_product(sch, block, way.transposed)
        depth, widths = sample_copies(sch, name, [left, right], types[:2], 2, depths)
        pair = vector_run(sch, store, (1, 2))
        limits = WarpgroupLimits(max_results, max_warpgroups, shared_bytes // depth)
        tiles = tile_for_warpgroups(sch, block, name, limits, way)
        keep_in_registers(sch, tiles.calls, store, tiles.warpgroups, tiles.shape[1], pair)
        for at, operand in enumerate((product.left, product.right)):
            stage_for_warpgroups(sch, tiles.calls, operand, tiles.stage, widths[at], way.swizzled)
        flags = way.transposed, way.swizzled
        multiply_with_wgmma(sch, tiles.calls, tiles.stage, tiles.shape, types[0], *flags)
        if depth > 1:
            pipeline(sch, tiles.stage, [0, 0, depth - 1], async_stages=[0])
