"""Looking things up: pure instructions that return handles."""

from __future__ import annotations

from typing import Any

from schedlang.instructions.arguments import Block, BlockOrLoop
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.instructions.kinds import primitive
from schedlang.language.primitives.group import InstructionGroup
from schedlang.tvm.schedule import primitive as ffi
from schedlang.tvm.schedule import primitives as tvm_primitives


class LookupPrimitives(InstructionGroup):
    """Blocks and loops by name and by relation."""

    @primitive(tvm_primitives.get_block, returns="block", pure=True, tvm_name="get_sblock")
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block called ``name``: ``with block("C")  ->  b0``."""
        result: BlockRV = self._run("get_block", name, func_name)
        return result

    @primitive(ffi("ScheduleGetLoops"), returns="loops", pure=True)
    def get_loops(self, block: Block) -> list[LoopRV]:
        """The loops around a block, outermost first: ``for i, j: C  ->  [i, j]``."""
        result: list[LoopRV] = self._run("get_loops", block)
        return result

    @primitive(ffi("ScheduleGetChildBlocks"), returns="blocks", pure=True)
    def get_child_blocks(self, block_or_loop: BlockOrLoop) -> list[BlockRV]:
        """The blocks directly below: ``for i: {A; B}  ->  [A, B]``."""
        result: list[BlockRV] = self._run("get_child_blocks", block_or_loop)
        return result

    @primitive(ffi("ScheduleGetProducers"), returns="blocks", pure=True)
    def get_producers(self, block: Block) -> list[BlockRV]:
        """The blocks that write what this one reads: ``A -> B -> C; C  ->  [B]``."""
        result: list[BlockRV] = self._run("get_producers", block)
        return result

    @primitive(ffi("ScheduleGetConsumers"), returns="blocks", pure=True)
    def get_consumers(self, block: Block) -> list[BlockRV]:
        """The blocks that read what this one writes: ``A -> B -> C; A  ->  [B]``."""
        result: list[BlockRV] = self._run("get_consumers", block)
        return result

    @primitive(ffi("ScheduleGetOutputBlocks"), returns="blocks", pure=True)
    def get_output_blocks(self, scope_block: Block) -> list[BlockRV]:
        """The blocks in a scope that write the function's outputs: ``root: {A -> C}  ->  [C]``."""
        result: list[Any] = self._run("get_output_blocks", scope_block)
        return result
