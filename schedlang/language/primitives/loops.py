"""Finding blocks and loops, transforming loops, placing blocks, and reductions."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.instructions.arguments import Block, BlockOrLoop, Factors, Loop
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.primitives.declare import overlapping, primitive
from schedlang.language.primitives.tvm_draws import at_drawn_place
from schedlang.tvm.analysis import loop_kinds
from schedlang.tvm.schedule import forms
from schedlang.tvm.schedule import primitives as tvm_primitives
from schedlang.tvm.schedule import updates as sums


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

    @primitive("FuseReductionEpilogue", sums.fuse_reduction_epilogue)
    def fuse_reduction_epilogue(self, reduction_block: Block, epilogue_block: Block) -> None:
        """Initialise a reduction with what is added after it.

        ``C = sum(..); D = C + B  ->  D = B + sum(..)``
        """
