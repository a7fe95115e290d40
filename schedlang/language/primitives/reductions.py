"""Reductions."""

from __future__ import annotations

from schedlang.instructions.arguments import Block, Loop
from schedlang.instructions.handles import BlockRV
from schedlang.language.primitives.declare import primitive
from schedlang.tvm.schedule import guarded


class ReductionPrimitives:
    """Splitting, factoring and finishing reductions."""

    @primitive("DecomposeReduction")
    def decompose_reduction(self, block: Block, loop: Loop) -> BlockRV:
        """Move the initialisation of a reduction before a loop.

        ``for k: {init if k == 0; C += ..}  ->  init; for k: C += ..``
        """

    @primitive("RFactor")
    def rfactor(self, loop: Loop, factor_axis: int) -> BlockRV:
        """Reduce in two steps over one loop.

        ``for k0, k1: C += ..  ->  for k0: (for k1: P[k0] += ..); C += P[k0]``
        """

    @primitive("FuseReductionEpilogue", guarded.fuse_reduction_epilogue)
    def fuse_reduction_epilogue(self, reduction_block: Block, epilogue_block: Block) -> None:
        """Initialise a reduction with what is added after it.

        ``C = sum(..); D = C + B  ->  D = B + sum(..)``
        """
