"""Blocks as units, tensor intrinsics and annotations."""

from __future__ import annotations

from schedlang.instructions.arguments import BlockOrLoop, Literal, LoopOrBlocks
from schedlang.instructions.handles import BlockRV
from schedlang.instructions.kinds import primitive
from schedlang.language.primitives.group import InstructionGroup
from schedlang.tvm.schedule import primitive as ffi
from schedlang.tvm.schedule import primitives as tvm_primitives


class TensorPrimitives(InstructionGroup):
    """Blockize, tensorize, annotate."""

    @primitive(ffi("ScheduleBlockize"), returns="block")
    def blockize(self, target: LoopOrBlocks, preserve_unit_iters: bool = True) -> BlockRV:
        """Make one block of what is below a loop, or of some blocks.

        ``for i, j: C  ->  for i: block(for j: C)``
        """
        result: BlockRV = self._run("blockize", target, preserve_unit_iters)
        return result

    @primitive(tvm_primitives.tensorize)
    def tensorize(
        self, block_or_loop: BlockOrLoop, tensor_intrin: str, preserve_unit_iters: bool = True
    ) -> None:
        """Replace what is below by a hardware intrinsic.

        ``for i, j, k in 16: C += ..  ->  wmma_sync(C, A, B)``
        """
        self._run("tensorize", block_or_loop, tensor_intrin, preserve_unit_iters)

    @primitive(ffi("ScheduleAnnotate"))
    def annotate(self, block_or_loop: BlockOrLoop, ann_key: str, ann_val: Literal) -> None:
        """Attach a note: ``for i  ->  for i  # {"pragma_unroll": 16}``."""
        self._run("annotate", block_or_loop, ann_key, ann_val)

    @primitive(ffi("ScheduleUnannotate"))
    def unannotate(self, block_or_loop: BlockOrLoop, ann_key: str) -> None:
        """Take a note off: ``for i  # {"pragma_unroll": 16}  ->  for i``."""
        self._run("unannotate", block_or_loop, ann_key)
