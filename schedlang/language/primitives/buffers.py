"""Buffers: their caches, layouts and storage, and tensor intrinsics."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.instructions.arguments import (
    AnyBuffer,
    Block,
    BlockOrLoop,
    Blocks,
    BufferRole,
    DType,
    Integers,
    IntrinsicName,
    Literal,
    Loop,
    LoopOrBlocks,
    Map,
    Padding,
    Ranges,
    ReadBuffer,
    WriteBuffer,
)
from schedlang.instructions.handles import BlockRV
from schedlang.language.primitives.declare import primitive
from schedlang.tvm.schedule import forms
from schedlang.tvm.schedule import primitives as tvm_primitives
from schedlang.tvm.schedule import updates as sums


class BufferPrimitives:
    """Properties of buffers."""

    @primitive("StorageAlign", about_loops=True)
    def storage_align(
        self, block: Block, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        """Pad strides of a written buffer: ``stride[axis] == k * factor + offset`` afterwards."""

    @primitive("SetScope", about_loops=True)
    def set_scope(self, block: Block, buffer_index: WriteBuffer, storage_scope: str) -> None:
        """Move an intermediate buffer: ``B in global  ->  B in shared``."""

    @primitive("UnsafeSetDType", method="unsafe_set_dtype")
    def set_dtype(self, block: Block, buffer_index: int, dtype: DType) -> None:
        """Change an intermediate buffer's type: ``B: float32  ->  B: float16``, casting around it.

        TVM calls it unsafe: results change with the precision.
        """

    @primitive("RollingBuffer", forms.rolling_buffer)
    def rolling_buffer(self, block: Block, write_buffer_index: int) -> None:
        """Keep only a sliding window of a buffer.

        ``for i: B[i..i+3]  ->  for i: B[i % 4]``, where the overlap is reused.
        """

    @primitive(
        "UnsafeHideBufferAccess",
        method="unsafe_hide_buffer_access",
        inputs=("block", "buf_type", "buf_index_array"),
    )
    def hide_buffer_access(
        self, block: Block, buf_type: BufferRole, buf_index_array: Sequence[int]
    ) -> None:
        """Remove accesses from a block's signature.

        ``reads(A, B)  ->  reads(A)``. TVM calls it unsafe.
        """

    @primitive("AnnotateBufferAccess", tvm_primitives.annotate_buffer_access)
    def annotate_buffer_access(
        self, block: Block, buffer_index: int, buffer_type: BufferRole, ranges: Ranges
    ) -> None:
        """Declare the region that a block accesses: ``reads(A[f(i)])  ->  reads(A[i : i + 2])``.

        ``ranges`` is a function of the block's variables that returns an index or a (begin, end)
        pair for each dimension.
        """


class CachePrimitives:
    """Caches, and other layouts to read or write a buffer."""

    @primitive("CacheRead", tvm_primitives.cache_read)
    def cache_read(
        self,
        block: Block,
        read_buffer_index: ReadBuffer,
        storage_scope: str,
        consumer_blocks: Blocks = (),
    ) -> BlockRV:
        """Copy what a block reads: ``C reads A  ->  A_cache = A; C reads A_cache``.

        Without ``consumer_blocks`` all readers use the copy. Returns the copying block.
        """

    @primitive("CacheWrite", tvm_primitives.cache_write)
    def cache_write(
        self,
        block: Block,
        write_buffer_index: WriteBuffer,
        storage_scope: str,
        consumer_blocks: Blocks = (),
    ) -> BlockRV:
        """Write to a copy first: ``block writes C  ->  block writes C_cache; C = C_cache``."""

    @primitive("ReindexCacheRead", tvm_primitives.reindex_cache_read)
    def reindex_cache_read(
        self, block: Block, read_buffer_index: ReadBuffer, storage_scope: str, index_map: Map
    ) -> BlockRV:
        """Make a read cache, indexed by a map of the block's variables.

        ``C reads A[i, k]  ->  A_cache[map(i, j, k)]``
        """

    @primitive("ReindexCacheWrite", tvm_primitives.reindex_cache_write)
    def reindex_cache_write(
        self, block: Block, write_buffer_index: WriteBuffer, storage_scope: str, index_map: Map
    ) -> BlockRV:
        """Make a write cache, indexed by a map of the block's variables.

        ``C[i, j] = ...  ->  C_cache[map(i, j)] = ...``
        """

    @primitive("CacheInplace", tvm_primitives.cache_inplace)
    def cache_inplace(
        self, block: Block, read_buffer_index: ReadBuffer, storage_scope: str
    ) -> list[BlockRV]:
        """Cache a buffer that is updated in place: ``A = f(A)  ->  t = A; t = f(t); A = t``."""

    @primitive("CacheIndex", hides=True)
    def cache_index(self, block: Block, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Compute each index expression once: ``B = A[f(i)]  ->  t = f(i); B = A[t]``.

        ``cse_thresh`` is the number of times that a subexpression must occur to be cached; 0
        caches every index.
        """

    @primitive("ReIndex", tvm_primitives.reindex)
    def reindex(self, block: Block, buffer: AnyBuffer) -> BlockRV:
        """Make a cache indexed by the block's variables.

        ``C reads A[i + k]  ->  A_re[i, k] = A[i + k]``.

        ``buffer`` is a name or ``("read" | "write", index)``.
        """

    @primitive("ReadAt", tvm_primitives.read_at)
    def read_at(
        self, loop: Loop, block: Block, read_buffer_index: int, storage_scope: str
    ) -> BlockRV:
        """Copy, at a loop, what is read below it.

        ``for i: C reads A  ->  for i: {A_s = A[i..]; C reads A_s}``
        """

    @primitive("WriteAt", tvm_primitives.write_at)
    def write_at(
        self, loop: Loop, block: Block, write_buffer_index: int, storage_scope: str
    ) -> BlockRV:
        """Copy out, at a loop, what is written below it.

        ``for i: C = ..  ->  for i: {C_s = ..; C[i..] = C_s}``
        """


class LayoutPrimitives:
    """Layouts of buffers and of blocks, and padding."""

    @primitive("TransformLayout", tvm_primitives.transform_layout)
    def transform_layout(
        self,
        block: Block,
        buffer: AnyBuffer,
        index_map: Map,
        pad_value: Padding = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Store a buffer in another layout: ``B[n, k]  ->  B[n // 16, k, n % 16]``.

        ``index_map`` is a function of the old indices; it may use drawn values. ``pad_value``
        fills the elements that only the new layout has.
        """

    @primitive("TransformBlockLayout", tvm_primitives.transform_block_layout, inputs=("block",))
    def transform_block_layout(self, block: Block, index_map: Map) -> None:
        """Iterate a block over mapped variables.

        ``for i, j: C(vi, vj)  ->  for ij: C(vij // n, vij % n)``
        """

    @primitive("PadEinsum", sums.pad_einsum)
    def pad_einsum(self, block: Block, padding: Integers) -> None:
        """Pad an einsum's extents to multiples.

        ``C[127, 127]  ->  C_pad[128, 128]`` for [16, 16, 16].
        """

    @primitive("DecomposePadding", forms.decompose_padding)
    def decompose_padding(self, block: Block, loop: Loop) -> BlockRV:
        """Fill first, then copy: ``P = A if inside else 0  ->  P = 0; P[inside] = A``."""


class TensorPrimitives:
    """Blocks as units, tensor intrinsics and annotations."""

    @primitive("Blockize", tvm_primitives.blockize)
    def blockize(self, target: LoopOrBlocks, preserve_unit_iters: bool = True) -> BlockRV:
        """Make one block of all that is below a loop, or of several blocks.

        ``for i, j: C  ->  for i: block(for j: C)``
        """

    @primitive("Tensorize", tvm_primitives.tensorize)
    def tensorize(
        self,
        block_or_loop: BlockOrLoop,
        tensor_intrin: IntrinsicName,
        preserve_unit_iters: bool = True,
    ) -> None:
        """Replace a block, or all that is below a loop, by a hardware intrinsic.

        ``for i, j, k in 16: C += ..  ->  wmma_sync(C, A, B)``
        """

    @primitive("Annotate", about_loops=True)
    def annotate(self, block_or_loop: BlockOrLoop, ann_key: str, ann_val: Literal) -> None:
        """Attach an annotation: ``for i  ->  for i  # {"pragma_unroll": 16}``."""

    @primitive("Unannotate", about_loops=True)
    def unannotate(self, block_or_loop: BlockOrLoop, ann_key: str) -> None:
        """Remove an annotation: ``for i  # {"pragma_unroll": 16}  ->  for i``."""
