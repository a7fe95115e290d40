"""Reshaping loops, and setting how they run."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.instructions.arguments import Block, BlockOrLoop, Factors, Loop
from schedlang.instructions.handles import LoopRV
from schedlang.language.primitives.declare import primitive
from schedlang.tvm.schedule import guarded
from schedlang.tvm.schedule import primitives as tvm_primitives


class LoopPrimitives:
    """Loop structure and loop kinds."""

    @primitive("Split", tvm_primitives.split)
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

    @primitive("Fuse", tvm_primitives.fuse)
    def fuse(self, *loops: Loop, preserve_unit_iters: bool = True) -> LoopRV:
        """Make one loop of nested ones: ``for i in 4: for j in 8  ->  for ij in 32``."""

    @primitive("Merge", guarded.merge)
    def merge(self, *loops: Loop) -> LoopRV:
        """Make one loop of parallel ones with equal extents.

        ``{for i: A; for j: B}  ->  for k: {A; B}``.

        All need the same parent loop and the same number of loops below it.
        """

    @primitive("LoopPartition", guarded.loop_partition)
    def loop_partition(
        self, loop: Loop, factors: Factors, preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Cut a loop's range into consecutive loops.

        ``for i in 10  ->  for i in 0..4; for i in 4..10``
        """

    @primitive("Reorder")
    def reorder(self, *loops: Loop) -> None:
        """Reorder nested loops: ``reorder(j, i): for i: for j  ->  for j: for i``."""

    @primitive("ReorderBlockIterVar", guarded.reorder_block_iter_var, inputs=("block", "new_order"))
    def reorder_block_iter_var(self, block: Block, new_order: Sequence[int]) -> None:
        """Reorder a block's own variables: ``C(vi, vj)  ->  C(vj, vi)`` for [1, 0]."""

    @primitive("AddUnitLoop")
    def add_unit_loop(self, block_or_loop: BlockOrLoop) -> LoopRV:
        """Add a loop of extent 1 around a block or a loop: ``C  ->  for u in 1: C``."""

    @primitive("Parallel")
    def parallel(self, loop: Loop) -> None:
        """Run the iterations on the CPU's cores: ``for i  ->  parallel i``."""

    @primitive("Vectorize")
    def vectorize(self, loop: Loop) -> None:
        """Run the iterations in vector lanes: ``for i in 16  ->  vectorized i in 16``."""

    @primitive("Bind", tvm_primitives.bind)
    def bind(self, loop: Loop, thread_axis: str) -> None:
        """Run the iterations on GPU threads: ``for i  ->  i = threadIdx.x``."""

    @primitive("Unroll")
    def unroll(self, loop: Loop) -> None:
        """Write the iterations out: ``for i in 4  ->  unrolled i in 4``."""
