"""Multi-level tiling for GPUs: tiles on blocks and threads, operands in shared memory.

The structure is MetaSchedule's for CUDA (Ansor's SSSRRSRS): block, virtual thread and thread tiles,
then a reduction whose outer part stages its operands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.analysis import BlockFacts, LoopKind, loop_kind, require
from schedlang.analysis.intrinsics import block_reads, block_writes
from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr, IntRV
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.auto_bind import bind_tiles
from schedlang.modules.gpu.pipeline import (
    cooperative_fetching,
    fetch_width,
    overlap_copies,
    stage_in_shared,
)
from schedlang.modules.gpu.thread_tile import sample_thread_tile
from schedlang.modules.shared.checks import check_prob, complement, not_applicable_if_refused
from schedlang.modules.shared.multi_level_tiling import may_collect, require_tileable
from schedlang.spaces.module import module

STRUCTURE = "SSSRRSRS"
BINDS = ("blockIdx.x", "vthread.x", "threadIdx.x")
"""The axes that the first spatial levels of ``STRUCTURE`` are bound to."""


@dataclass(frozen=True, slots=True)
class _Tiled:
    """A tiled block: its levels of loops, those of the structure in order."""

    name: str
    levels: list[list[LoopRV]]

    @property
    def thread(self) -> LoopRV:
        """The loop of the threads; the result stays in registers below it."""
        return self.levels[len(BINDS) - 1][-1]

    @property
    def chunk(self) -> list[LoopRV]:
        """The outer reduction loops; operands are staged below the last of them."""
        return self.levels[STRUCTURE.index("R")]


@module(name="thread_tiling")
def thread_tiling(
    sch: Schedule,
    block: BlockRV,
    *,
    sms: int = 1,
    max_threads_per_block: int = 1024,
    shared_bytes: int = 49152,
    max_innermost_factor: int = 64,
    pipeline_depths: Sequence[int] = (),
    pipeline_prob: float = 0.5,
    prior: bool = True,
) -> None:
    """Tile a reduction for the blocks and threads of a GPU.

    ::

        for i, j, k: C
        ->  ij0 = blockIdx.x: ij1 = vthread.x: ij2 = threadIdx.x:
              {for k0: {stage A; stage B; for k1: for i3, j3: for k2: for i4, j4: C_local};  C}

    Every operand is staged in shared memory, loaded by all threads together in vectors of a drawn
    width; the result stays in registers until it is complete. With ``pipeline_depths`` (from sm_80
    on), copying asynchronously for later iterations of ``k0`` is a choice of probability
    ``pipeline_prob``, and the depth is drawn (``overlap_copies``).

    ``sms`` (multiprocessors), ``max_threads_per_block`` and ``shared_bytes`` (of a block) shape the
    prior, see ``sample_thread_tile``; ``prior=False`` makes it uniform.
    """
    facts = require_tileable(sch, block)
    require(may_collect(sch, block), "it updates its result")
    if pipeline_depths:
        check_prob("thread_tiling", pipeline_prob, "pipeline_prob")
        if min(pipeline_depths) < 3:
            raise SpaceError(
                f"thread_tiling(pipeline_depths={pipeline_depths!r}): a depth is at least 3"
            )
    staged = _staged_operands(sch, block)
    depth = _draw_depth(sch, facts, staged, pipeline_depths, pipeline_prob)
    limits = (sms, max_threads_per_block, shared_bytes) if prior else None
    with not_applicable_if_refused():
        tiled = _tile(sch, block, facts.name, max_innermost_factor, depth, limits)
        cache = sch.cache_write(block, 0, "local")
        sch.reverse_compute_at(cache, tiled.thread, preserve_unit_loops=True)
        for operand, buffer in staged.items():
            stage = stage_in_shared(sch, block, operand, tiled.chunk[-1])
            site = f"vector:{facts.name}:{buffer}"
            cooperative_fetching(sch, stage, fetch_width(sch, stage, site, prior=prior))
        if depth:
            overlap_copies(sch, tiled.chunk, len(staged), depth)


def _staged_operands(sch: Schedule, block: BlockRV) -> dict[int, str]:
    """Return the read buffers to stage by number: tensors that the block does not write."""
    written = {access.buffer for access in block_writes(sch, block)}
    reads = enumerate(block_reads(sch, block))
    return {k: read.buffer for k, read in reads if read.dims and read.buffer not in written}


def _draw_depth(
    sch: Schedule,
    facts: BlockFacts,
    staged: dict[int, str],
    depths: Sequence[int],
    prob: float,
) -> int | IntExpr:
    """Draw how deep the copies are pipelined; 0 is not at all.

    Where all sums have one term, TVM sets their initial values inside the loop of the copies.
    """
    if not depths or not staged or math.prod(facts.reduction_extents) == 1:
        return 0
    if not sch.choose(f"pipeline:{facts.name}", (False, True), (complement(prob), prob)):
        return 0
    return sch.sample_categorical(sorted(depths), name=f"depth:{facts.name}")


def _tile(
    sch: Schedule,
    block: BlockRV,
    name: str,
    bound: int,
    depth: int | IntExpr,
    limits: tuple[int, int, int] | None,
) -> _Tiled:
    """Draw the tiles of each loop, spatial ones first, and bind the outer spatial levels."""
    loops = sch.get_loops(block)
    kinds = [loop_kind(sch, loop) for loop in loops]
    drawn: list[list[IntRV]] = [[] for _ in loops]
    levels: list[list[LoopRV]] = [[] for _ in STRUCTURE]
    for kind in (LoopKind.SPATIAL, LoopKind.REDUCTION):
        places = [k for k, letter in enumerate(STRUCTURE) if letter == kind]
        for number, loop in enumerate(loops):
            if kinds[number] != kind:
                continue
            site = f"tile:{name}:{sch.get(loop).loop_var.name}"
            if limits is None:
                tile = sch.sample_perfect_tile(loop, len(places), bound, name=site)
            else:
                sizes = (bound, depth, *limits)
                tile = sample_thread_tile(sch, block, number, drawn, *sizes, name=site)
            drawn[number] = tile
            for place, part in zip(places, sch.split(loop, tile), strict=True):
                levels[place].append(part)
    require(all(kind in STRUCTURE for kind in kinds), "a loop is both spatial and a reduction")
    sch.reorder(*(loop for level in levels for loop in level))
    return _Tiled(name, bind_tiles(sch, levels, BINDS))
