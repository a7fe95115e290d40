"""Finding blocks and loops: pure instructions that return handles."""

from __future__ import annotations

from schedlang.instructions.arguments import Block, BlockOrLoop
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.primitives.declare import primitive
from schedlang.tvm.schedule import primitives as tvm_primitives


class LookupPrimitives:
    """Blocks and loops by name and by relation."""

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
