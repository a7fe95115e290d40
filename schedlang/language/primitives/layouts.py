"""Layouts of buffers and of blocks, and padding."""

from __future__ import annotations

from schedlang.instructions.arguments import AnyBuffer, Block, Integers, Loop, Map, Padding
from schedlang.instructions.handles import BlockRV
from schedlang.instructions.kinds import primitive
from schedlang.language.primitives.group import InstructionGroup
from schedlang.tvm.schedule import primitive as ffi
from schedlang.tvm.schedule import primitives as tvm_primitives


class LayoutPrimitives(InstructionGroup):
    """Index maps and padding."""

    @primitive(tvm_primitives.transform_layout)
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

        ``index_map`` is a function of the old indices; drawn values may stand in it. ``pad_value``
        fills what the new layout has and the old has not.
        """
        self._run(
            "transform_layout", block, buffer, index_map, pad_value, assume_injective_transform
        )

    @primitive(tvm_primitives.transform_block_layout)
    def transform_block_layout(self, block: Block, index_map: Map) -> None:
        """Iterate a block over mapped variables.

        ``for i, j: C(vi, vj)  ->  for ij: C(vij // n, vij % n)``
        """
        self._run("transform_block_layout", block, index_map)

    @primitive(ffi("SchedulePadEinsum"))
    def pad_einsum(self, block: Block, padding: Integers) -> None:
        """Pad an einsum's extents to multiples.

        ``C[127, 127]  ->  C_pad[128, 128]`` for [16, 16, 16].
        """
        self._run("pad_einsum", block, padding)

    @primitive(ffi("ScheduleDecomposePadding"), returns="block")
    def decompose_padding(self, block: Block, loop: Loop) -> BlockRV:
        """Fill, then copy: ``P = A if inside else 0  ->  P = 0; P[inside] = A``."""
        result: BlockRV = self._run("decompose_padding", block, loop)
        return result
