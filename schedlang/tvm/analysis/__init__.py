"""Read-only queries about a scheduled program; nothing here is recorded in a trace."""

from schedlang.tvm.analysis.blocks import (
    BlockFacts,
    LoopKind,
    block_facts,
    bound_loops,
    buffer_index,
    buffer_shape,
    compute_locations,
    has_data_reuse,
    is_output_block,
    is_single_child,
    is_trivial_binding,
    loop_is_plain,
    loop_kind,
    stores_contiguously,
)

__all__ = [
    "BlockFacts",
    "LoopKind",
    "block_facts",
    "bound_loops",
    "buffer_index",
    "buffer_shape",
    "compute_locations",
    "has_data_reuse",
    "is_output_block",
    "is_single_child",
    "is_trivial_binding",
    "loop_is_plain",
    "loop_kind",
    "stores_contiguously",
]
