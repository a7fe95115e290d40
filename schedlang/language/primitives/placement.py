"""Where a block is computed."""

from __future__ import annotations

from schedlang.instructions.arguments import Block, Loop
from schedlang.language.primitives.declare import primitive
from schedlang.language.primitives.tvm_lines import at_drawn_place
from schedlang.tvm.schedule import primitives as tvm_primitives


class PlacementPrimitives:
    """Moving and inlining blocks."""

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
