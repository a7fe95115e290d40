"""Transformation modules written in the language."""

from schedlang.modules.auto_inline import auto_inline
from schedlang.modules.compute_location import random_compute_location
from schedlang.modules.finish import (
    annotate_unroll,
    decompose_reduction_block,
    parallelize_outer,
    vectorize_inner,
)
from schedlang.modules.multi_level_tiling import multi_level_tiling
from schedlang.modules.parallel_vectorize_unroll import finish_blocks, parallel_vectorize_unroll

__all__ = [
    "annotate_unroll",
    "auto_inline",
    "decompose_reduction_block",
    "finish_blocks",
    "multi_level_tiling",
    "parallel_vectorize_unroll",
    "parallelize_outer",
    "random_compute_location",
    "vectorize_inner",
]
