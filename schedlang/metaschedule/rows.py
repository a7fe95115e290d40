"""TVM's instructions as its traces store them, and schedlang's that do the same.

A stored instruction is ``[name, inputs, attributes, outputs]``. Each row says which of schedlang's
arguments the inputs and the attributes are, in TVM's order, and how each is read.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """One input or attribute: ``reader`` names a method of ``ArgumentReader``.

    A ``rest`` field takes all inputs that are left.
    """

    argument: str
    reader: str
    rest: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One of TVM's instructions; ``kind`` is schedlang's name."""

    kind: str
    inputs: tuple[Field, ...]
    attributes: tuple[Field, ...]


def _fields(text: str) -> tuple[Field, ...]:
    fields = []
    for item in text.split():
        argument, _, reader = item.partition(":")
        fields.append(Field(argument, reader.rstrip("*") or argument, reader.endswith("*")))
    return tuple(fields)


def _row(kind: str, inputs: str = "", attributes: str = "") -> Row:
    return Row(kind, _fields(inputs), _fields(attributes))


# Marks where MetaSchedule's post-processing begins; it does nothing.
MARKER = "EnterPostproc"

# ``name`` alone is ``name:name``: the argument and its reader have one name.
ROWS = {
    "GetSBlock": _row("get_block", "", "name:text func_name:text"),
    "GetLoops": _row("get_loops", "block"),
    "GetChildBlocks": _row("get_child_blocks", "block_or_loop"),
    "GetProducers": _row("get_producers", "block"),
    "GetConsumers": _row("get_consumers", "block"),
    "GetOutputBlocks": _row("get_output_blocks", "scope_block:block"),
    "SamplePerfectTile": _row("sample_perfect_tile", "loop", "n:number max_innermost_factor:bound"),
    "SamplePartitionedTile": _row(
        "sample_partitioned_tile",
        "loop",
        "n:number partition_pos:number innerpart_factor:number",
    ),
    "SampleCategorical": _row("sample_categorical", "", "candidates:numbers probs:reals"),
    "SampleComputeLocation": _row("sample_compute_location", "block"),
    "Split": _row(
        "split",
        "loop factors:factors*",
        "preserve_unit_iters:flag disable_predication:flag",
    ),
    "LoopPartition": _row("loop_partition", "loop factors:factors*", "preserve_unit_iters:flag"),
    "Fuse": _row("fuse", "loops:loops*", "preserve_unit_iters:flag"),
    "Merge": _row("merge", "loops:loops*"),
    "Reorder": _row("reorder", "loops:loops*"),
    "ReorderBlockIterVar": _row("reorder_block_iter_var", "block new_order:numbers"),
    "AddUnitLoop": _row("add_unit_loop", "block_or_loop"),
    "Parallel": _row("parallel", "loop"),
    "Vectorize": _row("vectorize", "loop"),
    "Unroll": _row("unroll", "loop"),
    "Bind": _row("bind", "loop", "thread_axis:text"),
    "CacheRead": _row(
        "cache_read", "block consumer_blocks:blocks", "read_buffer_index:number storage_scope:text"
    ),
    "CacheWrite": _row(
        "cache_write",
        "block consumer_blocks:blocks",
        "write_buffer_index:number storage_scope:text",
    ),
    "CacheInplace": _row("cache_inplace", "block", "read_buffer_index:number storage_scope:text"),
    "CacheIndex": _row("cache_index", "block", "storage_scope:text cse_thresh:number"),
    "ReIndex": _row("reindex", "block", "buffer_index:number buffer_role:role"),
    "ReindexCacheRead": _row(
        "reindex_cache_read", "block index_map", "read_buffer_index:number storage_scope:text"
    ),
    "ReindexCacheWrite": _row(
        "reindex_cache_write", "block index_map", "write_buffer_index:number storage_scope:text"
    ),
    "ReadAt": _row("read_at", "loop block", "read_buffer_index:number storage_scope:text"),
    "WriteAt": _row("write_at", "loop block", "write_buffer_index:number storage_scope:text"),
    "ComputeAt": _row("compute_at", "block loop", "preserve_unit_loops:flag index:number"),
    "ReverseComputeAt": _row(
        "reverse_compute_at", "block loop", "preserve_unit_loops:flag index:number"
    ),
    "ComputeInline": _row("compute_inline", "block"),
    "ReverseComputeInline": _row("reverse_compute_inline", "block"),
    "DecomposeReduction": _row("decompose_reduction", "block loop"),
    "RFactor": _row("rfactor", "loop", "factor_axis:number"),
    "FuseReductionEpilogue": _row(
        "fuse_reduction_epilogue", "reduction_block:block epilogue_block:block"
    ),
    "StorageAlign": _row(
        "storage_align", "block", "buffer_index:number axis:number factor:number offset:number"
    ),
    "SetScope": _row("set_scope", "block", "buffer_index:number storage_scope:text"),
    "UnsafeSetDType": _row("set_dtype", "block", "buffer_index:number dtype:dtype"),
    "UnsafeHideBufferAccess": _row(
        "hide_buffer_access", "block buf_type:quoted buf_index_array:numbers"
    ),
    "RollingBuffer": _row("rolling_buffer", "block", "write_buffer_index:number"),
    "TransformLayout": _row(
        "transform_layout",
        "block index_map",
        "buffer_index:number buffer_role:role pad_value:padding assume_injective_transform:flag",
    ),
    "TransformBlockLayout": _row("transform_block_layout", "block", "index_map"),
    "PadEinsum": _row("pad_einsum", "block", "padding:numbers"),
    "DecomposePadding": _row("decompose_padding", "block loop"),
    "Blockize": _row("blockize", "target:loop_or_blocks", "preserve_unit_iters:flag"),
    "Tensorize": _row("tensorize", "block_or_loop", "tensor_intrin:text preserve_unit_iters:flag"),
    "Annotate": _row("annotate", "block_or_loop ann_val:value", "ann_key:text"),
    "Unannotate": _row("unannotate", "block_or_loop", "ann_key:text"),
}
