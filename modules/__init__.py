"""Transformation modules written in the language.

Importing it makes every instruction and tensor intrinsic of theirs known, so that stored traces
replay.
"""

from schedlang.modules.add_rfactor import add_rfactor
from schedlang.modules.auto_bind import auto_bind
from schedlang.modules.auto_inline import auto_inline
from schedlang.modules.compute_location import random_compute_location
from schedlang.modules.cross_thread_reduction import cross_thread_reduction
from schedlang.modules.decompose_reduction import decompose_reduction
from schedlang.modules.dot_tile import dot_tile
from schedlang.modules.finish import (
    annotate_unroll,
    decompose_reduction_block,
    parallelize_outer,
    vectorize_inner,
)
from schedlang.modules.inline_constants import inline_constants
from schedlang.modules.layout_rewrite import layout_rewrite
from schedlang.modules.metaschedule_finish import finish_like_metaschedule
from schedlang.modules.multi_level_tiling import multi_level_tiling
from schedlang.modules.pack_operand import pack_read
from schedlang.modules.pad_einsum import pad_einsum
from schedlang.modules.parallel_vectorize_unroll import finish_blocks, parallel_vectorize_unroll
from schedlang.modules.place_padded_result import place_padded_result
from schedlang.modules.register_tile import register_tile
from schedlang.modules.tensorize import tensorize_with
from schedlang.modules.use_bf16_dot import UseBF16Dot
from schedlang.modules.use_vnni import UseVNNI
from schedlang.modules.vector_math import vector_math

__all__ = [
    "UseBF16Dot",
    "UseVNNI",
    "add_rfactor",
    "annotate_unroll",
    "auto_bind",
    "auto_inline",
    "cross_thread_reduction",
    "decompose_reduction",
    "decompose_reduction_block",
    "dot_tile",
    "finish_blocks",
    "finish_like_metaschedule",
    "inline_constants",
    "layout_rewrite",
    "multi_level_tiling",
    "pack_read",
    "pad_einsum",
    "parallel_vectorize_unroll",
    "parallelize_outer",
    "place_padded_result",
    "random_compute_location",
    "register_tile",
    "tensorize_with",
    "vector_math",
    "vectorize_inner",
]
