"""The instructions that transform a program, in groups of methods; ``Schedule`` is made of them.

Each method declares an instruction: its signature gives the arguments, its docstring one line of
loops before and one after.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.instructions.arguments import (
    AnyBuffer,
    Block,
    BlockOrLoop,
    Blocks,
    BufferRole,
    DType,
    Factors,
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
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.declare import at_drawn_place, overlapping, primitive
from schedlang.tvm.analysis import loop_kinds
from schedlang.tvm.schedule import forms, primitives as tvm_primitives, updates

# -- Finding blocks and loops, transforming loops, placing blocks, and reductions -----------------


class LookupPrimitives:
    """Finding blocks and loops: pure instructions that return handles."""

    @primitive("GetSBlock", tvm_primitives.get_block, pure=True, method="get_sblock")
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """Find the block called ``name``: ``with block("C")  ->  b0``."""

    @primitive("GetLoops", pure=True)
    def get_loops(self, block: Block) -> list[LoopRV]:
        """Find the loops around a block, outermost first: ``for i, j: C  ->  [i, j]``."""

    @primitive("GetChildBlocks", pure=True)
    def get_child_blocks(self, block_or_loop: BlockOrLoop) -> list[BlockRV]:
        """Find the blocks directly below: ``for i: {A; B}  ->  [A, B]``."""

    @primitive("GetProducers", pure=True)
    def get_producers(self, block: Block) -> list[BlockRV]:
        """Find the blocks that write what this one reads: ``A -> B -> C; C  ->  [B]``."""

    @primitive("GetConsumers", pure=True)
    def get_consumers(self, block: Block) -> list[BlockRV]:
        """Find the blocks that read what this one writes: ``A -> B -> C; A  ->  [B]``."""

    @primitive("GetOutputBlocks", pure=True)
    def get_output_blocks(self, scope_block: Block) -> list[BlockRV]:
        """Find the blocks that write the function's outputs: ``root: {A -> C}  ->  [C]``."""


class LoopPrimitives:
    """Reshaping loops, and setting how they run."""

    @primitive("Split", tvm_primitives.split, about_loops=True)
    def split(
        self,
        loop: Loop,
        factors: Factors,
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Split a loop into nested ones; one factor may be None and is computed.

        ``for i in 128  ->  for i0 in 4: for i1 in 32``. Where the factors do not divide the extent
        the body is predicated, unless ``disable_predication`` is True.
        """

    @primitive("Fuse", tvm_primitives.fuse, about_loops=True)
    def fuse(self, *loops: Loop, preserve_unit_iters: bool = True) -> LoopRV:
        """Make one loop of nested ones: ``for i in 4: for j in 8  ->  for ij in 32``."""

    @primitive("Merge", forms.merge)
    def merge(self, *loops: Loop) -> LoopRV:
        """Make one loop of parallel ones with equal extents.

        ``{for i: A; for j: B}  ->  for k: {A; B}``.

        All need the same parent loop and the same number of loops below it.
        """

    @primitive("LoopPartition", forms.loop_partition, hides=True)
    def loop_partition(
        self, loop: Loop, factors: Factors, preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Cut a loop's range into consecutive loops.

        ``for i in 10  ->  for i in 0..4; for i in 4..10``
        """

    @primitive("Reorder", loop_kinds.reorder, about_loops=True)
    def reorder(self, *loops: Loop) -> None:
        """Reorder nested loops: ``reorder(j, i): for i: for j  ->  for j: for i``.

        Around a block that TVM takes for opaque, such as a scan, a loop moves inwards if it is
        proven that no iteration of it stores what another one accesses.
        """

    @primitive("ReorderBlockIterVar", forms.reorder_block_iter_var, inputs=("block", "new_order"))
    def reorder_block_iter_var(self, block: Block, new_order: Sequence[int]) -> None:
        """Reorder a block's own variables: ``C(vi, vj)  ->  C(vj, vi)`` for [1, 0]."""

    @primitive("AddUnitLoop", about_loops=True)
    def add_unit_loop(self, block_or_loop: BlockOrLoop) -> LoopRV:
        """Add a loop of extent 1 around a block or a loop: ``C  ->  for u in 1: C``."""

    @primitive("Parallel", loop_kinds.parallel, about_loops=True)
    def parallel(self, loop: Loop) -> None:
        """Run the iterations on the CPU's cores: ``for i  ->  parallel i``.

        It must be proven that no iteration stores what another one accesses, or that they store
        the same values. The loop may be around a scan, which TVM itself refuses.
        """

    @primitive("Vectorize", loop_kinds.vectorize, about_loops=True)
    def vectorize(self, loop: Loop) -> None:
        """Run the iterations in vector lanes: ``for i in 16  ->  vectorized i in 16``.

        It must be proven that no iteration stores what another one reads.
        """

    @primitive("Bind", loop_kinds.bind, about_loops=True)
    def bind(self, loop: Loop, thread_axis: str) -> None:
        """Run the iterations on GPU threads: ``for i  ->  i = threadIdx.x``.

        It must be proven that no thread stores in global memory what another one accesses there,
        but for reductions across threads.
        """

    @primitive("Unroll", about_loops=True)
    def unroll(self, loop: Loop) -> None:
        """Write the iterations out: ``for i in 4  ->  unrolled i in 4``."""

    @overlapping
    def overlap_last_tiles(self) -> None:
        """Free tiles that do not fit of their guards: the last one starts earlier.

        ``for i0 in 64: for i1 in 8: if i0 * 8 + i1 < 511: C  ->
        for i0 in 64: i = min(i0 * 8, 503); for i1 in 8: C[i + i1]``

        So it is wherever a tile computes the same each time: it reads nothing that tiles change but
        what it has set itself, and reduces nothing over loops around it. Others keep their guards.
        It is about the program at the end: instructions that follow see the loops with guards.
        """


class PlacementPrimitives:
    """Where a block is computed."""

    @primitive("ComputeAt", tvm_primitives.compute_at, tvm_lines=at_drawn_place("compute_inline"))
    def compute_at(
        self, block: Block, loop: Loop, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a producer under a loop of its consumer: ``A; for i: B  ->  for i: {A[i]; B}``.

        ``index`` is its position among the statements below the loop: -1 is the last possible one,
        -2 the first possible one.
        """

    @primitive(
        "ReverseComputeAt",
        tvm_primitives.reverse_compute_at,
        tvm_lines=at_drawn_place("reverse_compute_inline"),
    )
    def reverse_compute_at(
        self, block: Block, loop: Loop, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a consumer under a loop of its producer: ``for i: A; B  ->  for i: {A; B[i]}``."""

    @primitive("ComputeInline", tvm_primitives.compute_inline)
    def compute_inline(self, block: Block) -> None:
        """Inline a block into its consumers: ``B = A + 1; C = B * 2  ->  C = (A + 1) * 2``."""

    @primitive("ReverseComputeInline", tvm_primitives.reverse_compute_inline)
    def reverse_compute_inline(self, block: Block) -> None:
        """Inline a block into its only producer.

        ``B = A + 1; C = B * 2  ->  C = (A + 1) * 2``, from C.
        """


class ReductionPrimitives:
    """Reductions."""

    @primitive("DecomposeReduction")
    def decompose_reduction(self, block: Block, loop: Loop) -> BlockRV:
        """Move the initialisation of a reduction before a loop.

        ``for k: {init if k == 0; C += ..}  ->  init; for k: C += ..``
        """

    @primitive("RFactor", forms.rfactor)
    def rfactor(self, loop: Loop, factor_axis: int) -> BlockRV:
        """Reduce in two steps over one loop.

        ``for k0, k1: C += ..  ->  for k0: (for k1: P[k0] += ..); C += P[k0]``
        """

    @primitive("FuseReductionEpilogue", updates.fuse_reduction_epilogue)
    def fuse_reduction_epilogue(self, reduction_block: Block, epilogue_block: Block) -> None:
        """Initialise a reduction with what is added after it.

        ``C = sum(..); D = C + B  ->  D = B + sum(..)``
        """


# -- Buffers: their caches, layouts and storage, and tensor intrinsics ----------------------------


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

    @primitive("PadEinsum", updates.pad_einsum)
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
