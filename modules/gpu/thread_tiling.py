"""Multi-level tiling for GPUs: tiles on blocks and threads, operands in shared memory.

The module is ``thread_tiling``. It draws the tiles of one loop after another, each with a view to
those drawn before (``sample_thread_tile``): that keeps the threads of a block, and what one thread
computes, within the machine's limits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from schedlang.analysis import (
    BlockFacts,
    Footprint,
    LoopKind,
    condition_strides,
    loop_kind,
    read_footprints,
    require,
)
from schedlang.analysis.intrinsics import block_axes, block_reads, block_writes
from schedlang.distributions import PerfectTile
from schedlang.distributions.tile_engine import divisors
from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr, IntRV
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import sampling_instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import check_prob, complement, not_applicable_if_refused
from schedlang.modules.gpu.auto_bind import bind_tiles
from schedlang.modules.gpu.finish_threads import (
    cooperative_fetching,
    fetch_width,
    overlap_copies,
    stage_in_shared,
)
from schedlang.modules.tiling import may_collect, require_tileable
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


# -- Draws of tiles, each with a view to those drawn before ---------------------------------------

SPATIAL_LEVELS, REDUCTION_LEVELS = 5, 3
BLOCK, VIRTUAL, THREAD, OUTER, INNER = range(SPATIAL_LEVELS)
CHUNKS = 0
"""Level of a reduction tile: number of times that operands are staged."""

Weights = Mapping[int, Callable[[int], float]]
"""The weight of a factor, by level."""

# Weight of what cannot run if no other draw makes up for it. Searches change one draw at a time.
_HOPELESS = 1e-6
_WARP = 32
# Threads of a block that hide latencies and leave each thread enough registers.
_FEW_THREADS, _MANY_THREADS = 64, 512
# Results of a thread; with more, they and their operands take most of 255 registers.
_MOST_RESULTS = 64
_MOST_VIRTUAL = 8
# Iterations of the reduction between two stages.
_SHORT_CHUNK, _LONG_CHUNK = 4, 64
_SECTOR_BYTES = 32


@dataclass(frozen=True, slots=True)
class TileView:
    """The variables of a block, and the tiles drawn so far.

    Attributes
    ----------
    kinds, extents: ``"S"`` or ``"R"`` and the number of values of each variable.
    drawn: the tile of each variable; empty where it is still to be drawn.
    strides: ``condition_strides`` of each variable, as a transposed convolution has: tiles that are
        no multiples of them read regions of varying size, which cannot be staged.
    operands: what the block reads and does not write.
    stored: position of the variable that indexes the last dimension of the result, or None.
    """

    kinds: tuple[str, ...]
    extents: tuple[int, ...]
    drawn: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...]
    operands: tuple[Footprint, ...]
    stored: int | None

    @classmethod
    def of(cls, sch: Schedule, block: BlockRV, drawn: Sequence[Sequence[int]]) -> TileView:
        """Look at a block whose variables are the loops that were around it, in order."""
        kinds, extents = zip(*block_axes(sch, block), strict=True)
        writes = block_writes(sch, block)
        written = {access.buffer for access in writes}
        operands = tuple(o for o in read_footprints(sch, block) if o.buffer not in written)
        dims = writes[0].dims
        tiles = tuple(tuple(map(int, tile)) for tile in drawn)
        strides = tuple(condition_strides(sch, block))
        return cls(kinds, extents, tiles, strides, operands, dims[-1] if dims else None)

    def product(self, kind: str, *levels: int) -> int:
        """Multiply the factors drawn at these levels of all variables of a kind."""
        tiles = (t for t, k in zip(self.drawn, self.kinds, strict=True) if t and k == kind)
        return math.prod(tile[level] for tile in tiles for level in levels)

    def to_come(self, variable: int) -> list[int]:
        """Return the extents of the other variables of the same kind that are not drawn yet."""
        kind = self.kinds[variable]
        return [
            extent
            for k, extent in enumerate(self.extents)
            if k != variable and self.kinds[k] == kind and not self.drawn[k]
        ]

    def staged(self, variable: int, outer: int) -> list[int]:
        """Return the values of each variable between two stages, at least.

        The tile of ``variable`` has the factor ``outer`` at its outermost level.
        """
        tile = [math.prod(tile[1:]) if tile else 1 for tile in self.drawn]
        tile[variable] = self.extents[variable] // outer
        return tile

    def is_regular(self, variable: int, length: int) -> bool:
        """Return whether a variable's tiles of this length may all read regions of one size."""
        return length % self.strides[variable] == 0 or length == self.extents[variable]

    def room(self, tile: Sequence[int], copies: int, shared_bytes: int) -> float:
        """Return how well ``copies`` of all operands fit into shared memory: 1 for half of it."""
        taken = copies * sum(operand.bytes(tile) for operand in self.operands)
        if taken > shared_bytes:
            return _HOPELESS * (shared_bytes / taken) ** 4
        return 0.5 if 2 * taken > shared_bytes else 1.0

    def row_fill(self, variable: int, tile: Sequence[int]) -> float:
        """Return how well rows along ``variable`` fill memory sectors: 0.2 to 1."""
        rows = [
            operand.elements(tile)[-1] * operand.element_bytes
            for operand in self.operands
            if operand.steps and any(k == variable for k, _ in operand.steps[-1])
        ]
        return max(0.2, min([1.0, *(row / _SECTOR_BYTES for row in rows)]))


def spatial_weights(
    view: TileView, variable: int, copies: int, sms: int, max_threads: int, shared_bytes: int
) -> Weights:
    """Return the weights of a spatial tile's factors, with ``copies`` of each operand."""
    blocks, threads = view.product("S", BLOCK), view.product("S", THREAD)
    results = view.product("S", VIRTUAL, OUTER, INNER)
    virtual = view.product("S", VIRTUAL)
    to_come = view.to_come(variable)
    completions = _products(tuple(to_come), max_threads)
    more = max(1, math.prod(to_come) // max(1, _FEW_THREADS // threads))
    slope = 0.3 + 0.25 * math.log2(results)
    contiguous = variable == view.stored

    def block(factor: int) -> float:
        tile = view.staged(variable, factor)
        fits = view.room(tile, copies, shared_bytes)
        if not view.is_regular(variable, tile[variable]):
            fits *= _HOPELESS
        return fits * min(1.0, blocks * factor * more / sms) * view.row_fill(variable, tile)

    def thread(factor: int) -> float:
        scores = (
            count * _thread_score(threads * factor * others, max_threads)
            for others, count in completions.items()
        )
        score = sum(scores) / sum(completions.values())
        return score * (max(0.1, min(1.0, factor / 8)) if contiguous else 1.0)

    def inside(factor: int) -> float:
        excess = results * factor / _MOST_RESULTS
        return float(factor**-slope / max(1.0, excess) ** 2)

    def virtual_thread(factor: int) -> float:
        return inside(factor) * (1.0 if virtual * factor <= _MOST_VIRTUAL else 0.01)

    def outer(factor: int) -> float:  # a stride between neighbouring threads: bank conflicts
        return inside(factor) / (factor if contiguous else 1)

    return {BLOCK: block, VIRTUAL: virtual_thread, THREAD: thread, OUTER: outer, INNER: inside}


def reduction_weights(view: TileView, variable: int, copies: int, shared_bytes: int) -> Weights:
    """Return the weights of a reduction tile's factors, with ``copies`` of each operand."""
    rounds = view.product("R", CHUNKS)
    length = view.product("R", 1, 2)
    more = math.prod(view.to_come(variable))
    extent = view.extents[variable]

    def chunks(factor: int) -> float:
        tile = view.staged(variable, factor)
        chunk = length * extent // factor
        weight = view.room(tile, copies, shared_bytes)
        if not view.is_regular(variable, tile[variable]):
            weight *= _HOPELESS
        if rounds * factor * more < copies:  # the pipeline would be longer than the loop
            weight *= _HOPELESS
        weight *= min(1.0, chunk * more / _SHORT_CHUNK) * min(1.0, _LONG_CHUNK / chunk)
        return weight * view.row_fill(variable, tile)

    return {CHUNKS: chunks}


def _thread_score(threads: int, max_threads: int) -> float:
    """Return how good a number of threads is: whole warps, neither few nor many of them."""
    if threads > max_threads:
        return _HOPELESS
    used = threads / (_WARP * -(-threads // _WARP))
    few = min(1.0, threads / _FEW_THREADS)
    return used**4 * few**2 * (1.0 if threads <= _MANY_THREADS else 0.25)


@lru_cache(maxsize=1024)
def _products(extents: tuple[int, ...], bound: int) -> Counter[int]:
    """Count the products of one divisor of each extent, up to the first beyond ``bound``."""
    found = Counter({1: 1})
    for extent in extents:
        longer: Counter[int] = Counter()
        for product, count in found.items():
            for divisor in divisors(extent):
                longer[min(product * divisor, bound + 1)] += count
        found = longer
    return found


@sampling_instruction
def sample_thread_tile(
    sch: Schedule,
    block: BlockRV,
    variable: int,
    drawn: list[list[int]],
    max_innermost_factor: int,
    depth: int | IntExpr,
    sms: int,
    max_threads_per_block: int,
    shared_bytes: int,
) -> PerfectTile:
    """Draw the tile of a block's variable: five factors if it is spatial, else three.

    ``i, j, k in 128; variable 0; [[], [], []]  ->  [2, 1, 16, 4, 1]``: blocks, virtual threads,
    threads, and two levels inside a thread

    ``drawn`` has the tile of each variable, ``[]`` where it is still to be drawn; spatial ones come
    first. The prior prefers whole warps, 64 to 512 threads, at least ``sms`` blocks, results that
    fit into registers, neighbouring threads that store neighbouring results, few bank conflicts,
    and operands that fit into ``shared_bytes``, ``depth - 1`` times (``overlap_copies``; 0 is not
    pipelined), in rows that fill memory sectors. Nothing has probability 0.
    """
    view = TileView.of(sch, block, drawn)
    copies = max(1, int(depth) - 1)
    if view.kinds[variable] == "S":
        levels = SPATIAL_LEVELS
        weights = spatial_weights(view, variable, copies, sms, max_threads_per_block, shared_bytes)
    else:
        levels = REDUCTION_LEVELS
        weights = reduction_weights(view, variable, copies, shared_bytes)
    extent = view.extents[variable]
    tables = {
        level: {factor: weight(factor) for factor in divisors(extent)}
        for level, weight in weights.items()
    }
    return PerfectTile(extent, levels, max_innermost_factor, tables)
