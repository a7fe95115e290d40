"""Transformation modules written in the language.

Importing this package registers their instructions and tensor intrinsics, so that stored traces
replay.
"""

from schedlang.modules.cpu.dot_products import UseBF16Dot, UseVNNI, dot_tile
from schedlang.modules.cpu.draw_nests import (
    move_block,
    move_data,
    update_in_chains,
    update_private_copies,
)
from schedlang.modules.cpu.finish import (
    finish_blocks,
    finish_by_work,
    finish_like_metaschedule,
    parallel_vectorize_unroll,
    replace_math_calls,
    vector_math,
    vectorize_math,
)
from schedlang.modules.cpu.pack_ahead import pack_ahead, pack_read
from schedlang.modules.cpu.register_tile import register_tile, sample_register_tile, unroll_tile
from schedlang.modules.finish import (
    annotate_unroll,
    decompose_reduction,
    decompose_reduction_block,
    initialize_before,
    parallelize_outer,
    vectorize_inner,
)
from schedlang.modules.gpu.auto_bind import (
    auto_bind,
    bind_grid,
    bind_to_threads,
    bind_unbound_blocks,
)
from schedlang.modules.gpu.cross_thread_reduction import (
    cross_thread_reduction,
    reduce_across_threads,
)
from schedlang.modules.gpu.finish_threads import (
    cooperative_fetching,
    finish_for_threads,
    finish_threads,
    sample_fetch_width,
)
from schedlang.modules.gpu.fragments import (
    copy_by_warps,
    load_fragments,
    pad_to_tiles,
    sample_width,
    split_to_fragments,
    store_fragments,
    use_intrinsics,
)
from schedlang.modules.gpu.matrix_operands import sample_factor, to_matrix_product
from schedlang.modules.gpu.thread_tiling import sample_thread_tile, thread_tiling
from schedlang.modules.gpu.use_tensor_core import UseTensorCore
from schedlang.modules.gpu.use_wgmma import (
    UseWGMMA,
    keep_in_registers,
    multiply_with_wgmma,
    sample_parts,
    sample_tile_extent,
    stage_for_warpgroups,
)
from schedlang.modules.inlining import (
    auto_inline,
    inline_constants,
    random_compute_location,
)
from schedlang.modules.reductions import (
    add_rfactor,
    copy_out,
    pad_einsum,
    pad_to_multiples,
    place_padded_result,
)
from schedlang.modules.tiling import (
    layout_rewrite,
    multi_level_tiling,
    rewrite_layouts,
    tensorize_with,
)

__all__ = [
    "UseBF16Dot",
    "UseTensorCore",
    "UseVNNI",
    "UseWGMMA",
    "add_rfactor",
    "annotate_unroll",
    "auto_bind",
    "auto_inline",
    "bind_grid",
    "bind_to_threads",
    "bind_unbound_blocks",
    "cooperative_fetching",
    "copy_by_warps",
    "copy_out",
    "cross_thread_reduction",
    "decompose_reduction",
    "decompose_reduction_block",
    "dot_tile",
    "finish_blocks",
    "finish_by_work",
    "finish_for_threads",
    "finish_like_metaschedule",
    "finish_threads",
    "initialize_before",
    "inline_constants",
    "keep_in_registers",
    "layout_rewrite",
    "load_fragments",
    "move_block",
    "move_data",
    "multi_level_tiling",
    "multiply_with_wgmma",
    "pack_ahead",
    "pack_read",
    "pad_einsum",
    "pad_to_multiples",
    "pad_to_tiles",
    "parallel_vectorize_unroll",
    "parallelize_outer",
    "place_padded_result",
    "random_compute_location",
    "reduce_across_threads",
    "register_tile",
    "replace_math_calls",
    "rewrite_layouts",
    "sample_factor",
    "sample_fetch_width",
    "sample_parts",
    "sample_register_tile",
    "sample_thread_tile",
    "sample_tile_extent",
    "sample_width",
    "split_to_fragments",
    "stage_for_warpgroups",
    "store_fragments",
    "tensorize_with",
    "thread_tiling",
    "to_matrix_product",
    "unroll_tile",
    "update_in_chains",
    "update_private_copies",
    "use_intrinsics",
    "vector_math",
    "vectorize_inner",
    "vectorize_math",
]
