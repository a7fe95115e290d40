"""Layouts of buffers and of blocks, and padding."""

from __future__ import annotations

from schedlang.instructions.arguments import AnyBuffer, Block, Integers, Loop, Map, Padding
from schedlang.instructions.handles import BlockRV
from schedlang.language.primitives.declare import primitive
from schedlang.tvm.schedule import primitives as tvm_primitives


class LayoutPrimitives:
    """Index maps and padding."""

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

    @primitive("PadEinsum")
    def pad_einsum(self, block: Block, padding: Integers) -> None:
        """Pad an einsum's extents to multiples.

        ``C[127, 127]  ->  C_pad[128, 128]`` for [16, 16, 16].
        """

    @primitive("DecomposePadding")
    def decompose_padding(self, block: Block, loop: Loop) -> BlockRV:
        """Fill first, then copy: ``P = A if inside else 0  ->  P = 0; P[inside] = A``."""
