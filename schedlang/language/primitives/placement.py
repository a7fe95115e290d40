"""Where a block is computed."""

from __future__ import annotations

from schedlang.instructions.arguments import Block, Loop
from schedlang.instructions.kinds import primitive
from schedlang.language.primitives.group import InstructionGroup
from schedlang.tvm.schedule import primitive as ffi
from schedlang.tvm.schedule import primitives as tvm_primitives


class PlacementPrimitives(InstructionGroup):
    """Moving and inlining blocks."""

    @primitive(tvm_primitives.compute_at)
    def compute_at(
        self, block: Block, loop: Loop, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a producer under a loop of its consumer: ``A; for i: B  ->  for i: {A[i]; B}``.

        ``index`` places it among the statements below the loop: -1 last possible, -2 first
        possible.
        """
        self._run("compute_at", block, loop, preserve_unit_loops, index)

    @primitive(tvm_primitives.reverse_compute_at)
    def reverse_compute_at(
        self, block: Block, loop: Loop, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a consumer under a loop of its producer: ``for i: A; B  ->  for i: {A; B[i]}``."""
        self._run("reverse_compute_at", block, loop, preserve_unit_loops, index)

    @primitive(ffi("ScheduleComputeInline"))
    def compute_inline(self, block: Block) -> None:
        """Put a block into its consumers: ``B = A + 1; C = B * 2  ->  C = (A + 1) * 2``."""
        self._run("compute_inline", block)

    @primitive(ffi("ScheduleReverseComputeInline"))
    def reverse_compute_inline(self, block: Block) -> None:
        """Put a block into its only producer.

        ``B = A + 1; C = B * 2  ->  C = (A + 1) * 2``, from C.
        """
        self._run("reverse_compute_inline", block)
