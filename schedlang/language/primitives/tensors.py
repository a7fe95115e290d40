"""Blocks as units, tensor intrinsics and annotations."""

from __future__ import annotations

from schedlang.instructions.arguments import BlockOrLoop, IntrinsicName, Literal, LoopOrBlocks
from schedlang.instructions.handles import BlockRV
from schedlang.language.primitives.declare import primitive
from schedlang.tvm.schedule import primitives as tvm_primitives


class TensorPrimitives:
    """Blockize, tensorize, annotate."""

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

    @primitive("Annotate")
    def annotate(self, block_or_loop: BlockOrLoop, ann_key: str, ann_val: Literal) -> None:
        """Attach an annotation: ``for i  ->  for i  # {"pragma_unroll": 16}``."""

    @primitive("Unannotate")
    def unannotate(self, block_or_loop: BlockOrLoop, ann_key: str) -> None:
        """Remove an annotation: ``for i  # {"pragma_unroll": 16}  ->  for i``."""
