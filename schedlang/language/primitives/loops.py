"""Reshaping loops, and saying how they run."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.instructions.arguments import Block, BlockOrLoop, Factors, Loop
from schedlang.instructions.handles import LoopRV
from schedlang.instructions.kinds import primitive
from schedlang.language.primitives.group import InstructionGroup
from schedlang.tvm.schedule import TVMSchedule, guarded
from schedlang.tvm.schedule import primitive as ffi
from schedlang.tvm.schedule import primitives as tvm_primitives

_fuse = ffi("ScheduleFuse")


def _apply_fuse(sch: TVMSchedule, loops: list[object], preserve_unit_iters: bool) -> object:
    return _fuse(sch, loops, preserve_unit_iters)


class LoopPrimitives(InstructionGroup):
    """Loop structure and loop kinds."""

    @primitive(ffi("ScheduleSplit"), returns="loops")
    def split(
        self,
        loop: Loop,
        factors: Factors,
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Split a loop into nested ones; one factor may be None and is worked out.

        ``for i in 128  ->  for i0 in 4: for i1 in 32``. Where the factors do not divide the extent
        the body is predicated, unless ``disable_predication`` says that it need not be.
        """
        result: list[LoopRV] = self._run(
            "split", loop, factors, preserve_unit_iters, disable_predication
        )
        return result

    @primitive(_apply_fuse, returns="loop")
    def fuse(self, *loops: Loop, preserve_unit_iters: bool = True) -> LoopRV:
        """Make one loop of nested ones: ``for i in 4: for j in 8  ->  for ij in 32``."""
        result: LoopRV = self._run("fuse", loops, preserve_unit_iters)
        return result

    @primitive(guarded.merge, returns="loop")
    def merge(self, *loops: Loop) -> LoopRV:
        """Make one loop of parallel ones with equal extents.

        ``{for i: A; for j: B}  ->  for k: {A; B}``.

        All need the same parent and the same nesting below it.
        """
        result: LoopRV = self._run("merge", loops)
        return result

    @primitive(guarded.loop_partition, returns="loops")
    def loop_partition(
        self, loop: Loop, factors: Factors, preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Cut a loop's range into consecutive loops.

        ``for i in 10  ->  for i in 0..4; for i in 4..10``
        """
        result: list[LoopRV] = self._run("loop_partition", loop, factors, preserve_unit_iters)
        return result

    @primitive(ffi("ScheduleReorder"))
    def reorder(self, *loops: Loop) -> None:
        """Put nested loops in another order: ``reorder(j, i): for i: for j  ->  for j: for i``."""
        self._run("reorder", loops)

    @primitive(guarded.reorder_block_iter_var)
    def reorder_block_iter_var(self, block: Block, new_order: Sequence[int]) -> None:
        """Put a block's own variables in another order: ``C(vi, vj)  ->  C(vj, vi)`` for [1, 0]."""
        self._run("reorder_block_iter_var", block, new_order)

    @primitive(ffi("ScheduleAddUnitLoop"), returns="loop")
    def add_unit_loop(self, block_or_loop: BlockOrLoop) -> LoopRV:
        """Put a loop of extent 1 around: ``C  ->  for u in 1: C``."""
        result: LoopRV = self._run("add_unit_loop", block_or_loop)
        return result

    @primitive(ffi("ScheduleParallel"))
    def parallel(self, loop: Loop) -> None:
        """Run the iterations on the CPU's cores: ``for i  ->  parallel i``."""
        self._run("parallel", loop)

    @primitive(ffi("ScheduleVectorize"))
    def vectorize(self, loop: Loop) -> None:
        """Run the iterations in vector lanes: ``for i in 16  ->  vectorized i in 16``."""
        self._run("vectorize", loop)

    @primitive(tvm_primitives.bind)
    def bind(self, loop: Loop, thread_axis: str) -> None:
        """Run the iterations on GPU threads: ``for i  ->  i = threadIdx.x``."""
        self._run("bind", loop, thread_axis)

    @primitive(ffi("ScheduleUnroll"))
    def unroll(self, loop: Loop) -> None:
        """Write the iterations out: ``for i in 4  ->  unrolled i in 4``."""
        self._run("unroll", loop)
