"""Register tiling: the tile of a result stays in vector registers for the whole reduction."""

from __future__ import annotations

import math
from dataclasses import dataclass

from schedlang.analysis import (
    LoopKind,
    block_facts,
    condition_strides,
    constant_extent,
    has_data_reuse,
    has_trivial_binding,
    loop_kinds,
    require,
    stores_contiguously,
)
from schedlang.analysis.concurrency import is_only_writer, is_regular, loops_start_at_zero
from schedlang.analysis.intrinsics import block_axes, block_reads
from schedlang.distributions import RegisterTile
from schedlang.distributions.tile_engine import divisors
from schedlang.expressions import IntRV
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction, sampling_instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.pack_ahead import choose_packing, choose_packing_ahead, streamed_weights
from schedlang.modules.finish import (
    STARTS_LATER,
    check_positive,
    check_prob,
    complement,
    not_applicable_if_refused,
    widest_vector,
)
from schedlang.modules.tiling import consume_below
from schedlang.spaces.module import module

# Longest inner part of a reduction loop. It is unrolled, which pays for short parts only.
MAX_REPEATED = 8
# Conditions on indices modulo more than this do not influence the tiles.
_MAX_STRIDE = 4


@sampling_instruction
def sample_register_tile(
    sch: Schedule,
    loops: list[LoopRV],
    operands: list[list[int]],
    lanes: int,
    registers: int,
    uniform: bool = False,
    *,
    strides: list[int] | None = None,
) -> RegisterTile:
    """Draw a factor for each loop: a tile that fits into vector registers. The last is vectorised.

    ``[i in 128, j in 128], [[0], [1]], 16 lanes, 32 registers  ->  [8, 32]``

    ``operands`` holds, for each operand, the positions of the loops that index it. A stride of 3
    in ``strides`` says that only one of 3 neighbouring iterations of that loop has work to do;
    the default is 1 for each loop.
    """
    extents = tuple(constant_extent(sch, loop) or 1 for loop in loops)
    read = tuple(tuple(operand) for operand in operands)
    return RegisterTile(extents, read, lanes, registers, uniform, tuple(strides or ()))


@instruction
def unroll_tile(sch: Schedule, block: BlockRV, depth: int, lanes: int) -> None:
    """Vectorise the innermost of a block's last ``depth`` loops, and unroll the others.

    ::

        for i in 4: for j in 32: C   ->   unrolled i: unrolled j0 in 2: vectorized j1 in 16: C
    """
    *outer, inner = sch.get_loops(block)[-depth:]
    for loop in outer:
        sch.unroll(loop)
    extent = constant_extent(sch, inner) or 1
    width = widest_vector(extent, lanes)
    if width < extent:
        unrolled, inner = sch.split(inner, [None, width])
        sch.unroll(unrolled)
    if width > 1:
        sch.vectorize(inner)


@module(before="multi_level_tiling")
def register_tile(
    sch: Schedule,
    block: BlockRV,
    *,
    lanes: int = 8,
    registers: int = 16,
    cache_bytes: int = 512 * 1024,
    prob: float = 1.0,
    prior: bool = True,
) -> None:
    """Keep a tile of the result in registers during the whole reduction.

    ::

        for i, j, k: C
        ->  for i0, j0: for i1, j1: {T = 0; for k: unrolled i2: vectorized j2: T += ..; C = T}

    TVM's code generator keeps accumulators in registers if the tile is unrolled and vectorised, its
    initial value is set before the reduction, and a cache of the tile's size (or the only
    element-wise consumer) follows it. Where the value has a condition on indices modulo a small
    number, as in a transposed convolution, the prior prefers tiles and repeated parts that are
    multiples of that number: the generated code then skips what the condition excludes.

    ``lanes`` (elements of a vector) and ``registers`` (vector registers of a core) shape the prior,
    which ``prior=False`` makes uniform. Operands may be packed first (``choose_packing``); the
    prior prefers that for operands of more than ``cache_bytes`` bytes, which the fast caches have
    lost when they are read again. Weights are packed ahead of all calls instead
    (``choose_packing_ahead``); of weights of more than ``cache_bytes`` bytes the prior prefers that
    each part is read by all of its tiles before the next one. With ``prob`` below 1, using the
    module is a choice of this probability; otherwise it leaves the block to other modules.
    """
    check_positive("register_tile", lanes=lanes, registers=registers)
    check_prob("register_tile", prob)
    facts = block_facts(sch, block)
    require(bool(facts.reduction_extents) and facts.writes == 1, "it is no single-output reduction")
    require(has_trivial_binding(sch, block), "it is scheduled already")
    require(has_data_reuse(sch, block), "no data are used twice")
    require(is_regular(sch, block), "it is no reduction that sets its initial value")
    require(is_only_writer(sch, block), "other blocks write its result as well")
    nest = _read_nest(sch, block, facts.name)
    if prob < 1 and not sch.choose(
        f"register_tile:{facts.name}", (True, False), (prob, complement(prob))
    ):
        return
    with not_applicable_if_refused():
        tile = nest.sample_tile(sch, lanes, registers, uniform=not prior)
        choose_packing(
            sch,
            block,
            nest.by_variable(tile),
            nest.vector,
            cache_bytes=cache_bytes,
            uniform=not prior,
        )
        streamed = streamed_weights(sch, block, cache_bytes) if prior else frozenset()
        _apply(sch, nest, tile, lanes, streamed, uniform=not prior)


@dataclass(frozen=True, slots=True)
class _Nest:
    """The loops of an unscheduled block; the last spatial loop is the one to vectorise."""

    block: BlockRV
    name: str
    loops: list[LoopRV]
    spatial: list[LoopRV]
    reduction: list[LoopRV]
    strides: dict[LoopRV, int]

    @property
    def vector(self) -> int:
        """The position of the vectorised loop among the block's variables."""
        return self.loops.index(self.spatial[-1])

    def sample_tile(
        self, sch: Schedule, lanes: int, registers: int, *, uniform: bool
    ) -> list[IntRV]:
        """Draw one factor for each spatial loop."""
        order = {self.loops.index(loop): k for k, loop in enumerate(self.spatial)}
        operands = [
            [order[k] for k in sorted(access.variables) if k in order]
            for access in block_reads(sch, self.block)
        ]
        site = f"register_tile_of:{self.name}"
        strides = [self.strides[loop] for loop in self.spatial[:-1]] + [1]
        drawn: list[IntRV] = sample_register_tile(
            sch,
            self.spatial,
            operands,
            lanes,
            registers,
            uniform,
            strides=strides if max(strides) > 1 else None,
            name=site,
        )
        return drawn

    def by_variable(self, tile: list[IntRV]) -> list[IntRV | int]:
        """Return the factor of each block variable; 1 for reduction variables."""
        factors = dict(zip(self.spatial, tile, strict=True))
        return [factors.get(loop, 1) for loop in self.loops]


def _read_nest(sch: Schedule, block: BlockRV, name: str) -> _Nest:
    loops = sch.get_loops(block)
    facts = block_facts(sch, block)
    require(
        len(loops) == len(facts.spatial_extents) + len(facts.reduction_extents),
        "not every loop is one of its variables",
    )
    require(loops_start_at_zero(sch, block), STARTS_LATER)
    kinds = loop_kinds(sch, loops)
    require(LoopKind.OPAQUE not in kinds, "a loop is both spatial and a reduction")
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == LoopKind.SPATIAL]
    along = [loop for loop in spatial if stores_contiguously(sch, block, loop)]
    require(len(along) == 1, "no loop runs along what it stores")
    shared = _shared_steps(sch, block)
    conditions = condition_strides(sch, block)
    return _Nest(
        block,
        name,
        loops,
        [loop for loop in spatial if loop is not along[0]] + along,
        [loop for loop, kind in zip(loops, kinds, strict=True) if kind != LoopKind.SPATIAL],
        {
            loop: math.lcm(stride if stride <= _MAX_STRIDE else 1, shared.get(at, 1))
            for at, (loop, stride) in enumerate(zip(loops, conditions, strict=True))
        },
    )


def _shared_steps(sch: Schedule, block: BlockRV) -> dict[int, int]:
    """Return how many steps of a reduced variable share an element, as two do in ``W[j, k // 2]``.

    Where the reduction's inner part is a multiple of it, the element is loaded once for all, and
    the compiler knows which part of it each step takes. Elements that more steps share than an
    inner part can have, as scales are, do not count.
    """
    kinds = [kind for kind, _ in block_axes(sch, block)]
    return {
        at: divisor
        for read in block_reads(sch, block)
        for at, divisor in (one for one in read.quotients if one is not None)
        if 1 < divisor <= MAX_REPEATED and kinds[at] == "R"
    }


def _apply(
    sch: Schedule,
    nest: _Nest,
    tile: list[IntRV],
    lanes: int,
    streamed: frozenset[int],
    *,
    uniform: bool,
) -> None:
    outer, panel, inner = [], [], []
    innermost: dict[LoopRV, IntRV | int] = dict(zip(nest.spatial, tile, strict=True))
    for loop, factor in zip(nest.spatial, tile, strict=True):
        site = f"panel:{nest.name}:{sch.get(loop).loop_var.name}"
        rest, last = sch.split(loop, [None, factor])
        weights = _panel_weights(sch, nest, rest, loop, streamed)
        parts = sch.sample_perfect_tile(rest, 2, None, weights=weights, name=site)
        first, second = sch.split(rest, parts)
        outer.append(first)
        panel.append(second)
        inner.append(last)
    reduced, repeated = [], []
    for loop in nest.reduction:
        site = f"repeat:{nest.name}:{sch.get(loop).loop_var.name}"
        weights = {-1: _repeat_weights(nest.strides[loop])}
        parts = sch.sample_perfect_tile(loop, 2, MAX_REPEATED, weights=weights, name=site)
        first, second = sch.split(loop, parts)
        reduced.append(first)
        repeated.append(second)
        innermost[loop] = parts[1]
    order = [nest.loops.index(loop) for loop in (*nest.spatial, *nest.reduction)]
    tiles = [innermost[loop] for loop in nest.loops]
    choose_packing_ahead(sch, nest.block, order, tiles, uniform=uniform)
    if len(panel) > 1 and sch.choose(f"panel_order:{nest.name}", ("rows", "columns")) == "columns":
        panel = [panel[-1], *panel[:-1]]
    sch.reorder(*outer, *panel, *reduced, *repeated, *inner)
    consumer = consume_below(sch, nest.block, panel[-1])
    for loop in repeated:
        sch.unroll(loop)
    for block in (nest.block, consumer):
        unroll_tile(sch, block, len(inner), lanes)


def _panel_weights(
    sch: Schedule, nest: _Nest, rest: LoopRV, loop: LoopRV, streamed: frozenset[int]
) -> dict[int, dict[int, float]] | None:
    """Return the weights of a panel's extents; None for a uniform prior.

    ``streamed`` are the variables that index large weights. What the other loops repeat outside of
    a panel reads these weights again, from a slow cache or from memory.
    """
    extent = constant_extent(sch, rest)
    if not streamed or extent is None:
        return None
    again = nest.loops.index(loop) not in streamed
    return {-1: {part: part / extent if again else 1 / part for part in divisors(extent)}}


def _repeat_weights(stride: int) -> dict[int, float]:
    """Return the weight of each length of a reduction loop's inner part; missing ones weigh 1."""
    if stride == 1:
        return {factor: 1 / factor for factor in range(2, MAX_REPEATED + 1)}
    # One iteration of each ``stride`` has work to do; multiples let the code know which.
    lengths = range(1, MAX_REPEATED + 1)
    return {length: 1 / (length * stride) for length in lengths if length % stride}
