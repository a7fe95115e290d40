"""Reductions."""

from __future__ import annotations

from schedlang.instructions.arguments import Block, Loop
from schedlang.instructions.handles import BlockRV
from schedlang.instructions.kinds import primitive
from schedlang.language.primitives.group import InstructionGroup
from schedlang.tvm.schedule import guarded
from schedlang.tvm.schedule import primitive as ffi


class ReductionPrimitives(InstructionGroup):
    """Splitting, factoring and finishing reductions."""

    @primitive(ffi("ScheduleDecomposeReduction"), returns="block")
    def decompose_reduction(self, block: Block, loop: Loop) -> BlockRV:
        """Set the initial value before a loop.

        ``for k: {init if k == 0; C += ..}  ->  init; for k: C += ..``
        """
        result: BlockRV = self._run("decompose_reduction", block, loop)
        return result

    @primitive(ffi("ScheduleRFactor"), returns="block")
    def rfactor(self, loop: Loop, factor_axis: int) -> BlockRV:
        """Reduce in two steps over one loop.

        ``for k0, k1: C += ..  ->  for k0: (for k1: P[k0] += ..); C += P[k0]``
        """
        result: BlockRV = self._run("rfactor", loop, factor_axis)
        return result

    @primitive(guarded.fuse_reduction_epilogue)
    def fuse_reduction_epilogue(self, reduction_block: Block, epilogue_block: Block) -> None:
        """Start a reduction from what is added after it.

        ``C = sum(..); D = C + B  ->  D = B + sum(..)``
        """
        self._run("fuse_reduction_epilogue", reduction_block, epilogue_block)
