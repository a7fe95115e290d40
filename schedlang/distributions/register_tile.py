"""Tiles of several loops whose accumulators stay in the registers of a core."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, cast

from schedlang.distributions._parameters import (
    MAX_EXTENT,
    MAX_LEVELS,
    PRIOR_JUMP,
    Rng,
    ValueTable,
    check_int,
    pick_index,
    refuse,
    shorten,
)
from schedlang.distributions.base import Decision, Distribution, register_distribution
from schedlang.distributions.tile_engine import divisors

Tile = tuple[int, ...]

_MAX_REGISTERS = 1024
_MAX_LANES = 4096
# Maximum number of accumulators, as a multiple of the registers. The support includes tiles that
# spill; the prior makes them rare.
_SPILLED = 2
_SPILL_WEIGHT = 0.02
# A multiply-add takes about four cycles and a core starts two per cycle: with fewer independent
# accumulators it stalls.
_LATENCY_ACCUMULATORS = 8
# A loop without a divisor in this range also allows factors that do not divide it.
_FEW_ROWS, _MANY_ROWS = 4, 14
# Most vectors of a factor that does not divide its loop.
_MANY_VECTORS = 8
# The weight of a tile is this power of its expected fraction of peak performance.
_SHARPNESS = 4.0


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class RegisterTile(Distribution):
    """One factor for each loop: a tile whose accumulators fit into the vector registers.

    Parameters
    ----------
    extents: iterations of the tiled loops; the last loop is vectorised. A factor divides its
        extent. An extent without a divisor from 4 to 14 (a prime, say) also allows factors of 2 to
        14 that do not divide it; for the last loop, an extent that ``lanes`` does not divide allows
        multiples of ``lanes``. The last of such tiles overlaps the one before.
    operands: for each operand that is read, the positions of the loops that index it.
    lanes: elements of a vector.
    registers: vector registers of a core.
    uniform: whether all tiles of the support are equally likely; False by default.
    strides: for each loop, n if 1 of n consecutive iterations is active at a time (2 for a
    condition
        on the index modulo 2, as in a transposed convolution). Empty, the default: all are 1.

    If a stride divides its factor, and the reduction loops are unrolled by multiples of it, the
    active iterations are known at compile time. Only their part of the tile is computed, and only
    their accumulators are in registers. The other accumulators stay in the cache and are exchanged
    once for several steps of the reduction. For other factors all iterations are computed. The last
    loop, which is vectorised, has stride 1.

    The support contains the tiles with at most twice ``registers`` accumulators in use. The prior
    of a tile is the fourth power of the expected fraction of peak performance. This is the product
    of the fraction of lanes in use, the fraction of the 8 independent accumulators that hide the
    latency of a multiply-add, the ratio of multiply-adds to multiply-adds plus operand loads (one
    for a vector, half for a broadcast element), and the fraction of the last tile inside the
    extent. Tiles that do not fit into the registers weigh a fiftieth.
    """

    kind: ClassVar[str] = "register_tile"

    extents: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]
    lanes: int
    registers: int
    uniform: bool = False
    strides: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        owner = "RegisterTile"
        if type(self.extents) is not tuple or not 1 <= len(self.extents) <= MAX_LEVELS:
            refuse(owner, "extents", self.extents, f"must be a tuple of 1 to {MAX_LEVELS} extents")
        for extent in self.extents:
            check_int(owner, "extents", extent, 1, MAX_EXTENT)
        known = set(range(len(self.extents)))
        if type(self.operands) is not tuple or len(self.operands) > MAX_LEVELS:
            refuse(owner, "operands", self.operands, f"must be a tuple, at most {MAX_LEVELS} long")
        for operand in self.operands:
            if type(operand) is not tuple or not known.issuperset(operand):
                positions = f"a tuple of loop positions, 0 to {len(known) - 1}"
                problem = f"{shorten(operand)} must be {positions}"
                refuse(owner, "operands", self.operands, problem)
        check_int(owner, "lanes", self.lanes, 1, _MAX_LANES)
        check_int(owner, "registers", self.registers, 1, _MAX_REGISTERS)
        if type(self.uniform) is not bool:
            refuse(owner, "uniform", self.uniform, "must be True or False")
        if type(self.strides) is not tuple or len(self.strides) not in (0, len(self.extents)):
            refuse(owner, "strides", self.strides, "must be () or one per loop")
        if self.strides and self.strides[-1] != 1:
            refuse(owner, "strides", self.strides, "must be 1 for the last loop")
        for stride in self.strides:
            check_int(owner, "strides", stride, 1, MAX_EXTENT)
        if set(self.strides) == {1}:
            object.__setattr__(self, "strides", ())

    @property
    def _every_stride(self) -> tuple[int, ...]:
        return self.strides or (1,) * len(self.extents)

    def _table(self) -> ValueTable[Tile]:
        return _table(
            self.extents,
            self.operands,
            self.lanes,
            self.registers,
            self.uniform,
            self._every_stride,
        )

    def sample(self, rng: Rng) -> Tile:
        return self._table().sample(rng)

    def permits(self, d: object) -> bool:
        if type(d) is not tuple or not all(type(factor) is int for factor in d):
            return False
        return d in self._table().log_probs

    def log_prob(self, d: object) -> float:
        return self._table().log_probs[cast(Tile, d)] if self.permits(d) else -math.inf

    def size(self) -> int:
        return len(self._table().values)

    def support(self) -> Iterator[Tile]:
        """Yield the tiles in lexicographic order; ``(1, ..., 1)`` is first."""
        return iter(self._table().values)

    def neighbours(self, d: Decision) -> tuple[Tile, ...]:
        """Return the tiles with one factor changed to the next smaller or greater value.

        A factor that is a multiple of its loop's stride also changes to the next multiples.
        """
        here, known = self.require(d), self._table().log_probs
        found: list[Tile] = []
        for position, (extent, stride) in enumerate(
            zip(self.extents, self._every_stride, strict=True)
        ):
            last = position == len(self.extents) - 1
            steps = _vector_factors(extent, self.lanes) if last else _row_factors(extent)
            near = _beside(steps, here[position])
            if stride > 1 and here[position] % stride == 0:
                near += _beside([f for f in steps if f % stride == 0], here[position])
            for factor in near:
                there = (*here[:position], factor, *here[position + 1 :])
                if there in known and there not in found:
                    found.append(there)
        return tuple(found)

    def propose(self, d: Decision, rng: Rng) -> tuple[Tile, float]:
        """Draw a neighbour uniformly; in 1 of 8 cases draw from the prior."""
        here: Tile = self.require(d)
        near = self.neighbours(here)
        if not near or rng.random() * PRIOR_JUMP < 1.0:
            there = self.sample(rng)
        else:
            there = near[pick_index(rng, len(near))]
        if there == here:
            return here, 0.0
        return there, self._log_proposal(there, here) - self._log_proposal(here, there)

    def _log_proposal(self, here: Tile, there: Tile) -> float:
        """Return log q(there | here)."""
        near = self.neighbours(here)
        prior = math.exp(self.log_prob(there))
        if not near:
            return math.log(prior)
        local = (PRIOR_JUMP - 1) / len(near) if there in near else 0.0
        return math.log((local + prior) / PRIOR_JUMP)

    def origin(self) -> Tile:
        """Return a most probable tile."""
        return self._table().mode()

    def repair(self, d: object) -> Tile:
        """Return the permitted tile whose factors are nearest in ratio."""
        if self.permits(d):
            return cast(Tile, d)
        if type(d) not in (tuple, list):
            return self.origin()
        given = list(cast(Tile, d))[: len(self.extents)]
        wanted = [f if type(f) is int and f > 0 else 1 for f in given]
        wanted += [1] * (len(self.extents) - len(wanted))
        logs = [math.log(factor) for factor in wanted]

        def distance(tile: Tile) -> float:
            return sum(abs(math.log(f) - log) for f, log in zip(tile, logs, strict=True))

        return min(self._table().values, key=distance)

    def nearest(self, d: object) -> Tile:
        """Return the tile nearest in ratio, also in the number of its elements.

        A tile of many more elements would not stay in registers.
        """
        if self.permits(d) or type(d) is not tuple or len(d) != len(self.extents):
            return self.repair(d)
        wanted = [math.log(factor) if type(factor) is int and factor > 0 else 0.0 for factor in d]

        def distance(tile: Tile) -> float:
            ratios = [math.log(f) - log for f, log in zip(tile, wanted, strict=True)]
            return sum(map(abs, ratios)) + abs(sum(ratios))

        return min(self._table().values, key=distance)

    @property
    def n_outputs(self) -> int:
        return len(self.extents)


@lru_cache(maxsize=256)
def _table(
    extents: tuple[int, ...],
    operands: tuple[tuple[int, ...], ...],
    lanes: int,
    registers: int,
    uniform: bool,
    strides: tuple[int, ...],
) -> ValueTable[Tile]:
    most = _SPILLED * registers
    factors = [
        [(factor, _in_use(factor, stride)) for factor in _row_factors(extent)]
        for extent, stride in zip(extents[:-1], strides, strict=False)
    ]
    last = _vector_factors(extents[-1], lanes)
    factors.append([(factor, -(-factor // lanes)) for factor in last])
    found: list[tuple[Tile, int]] = [((), 1)]
    for of_loop in factors:
        found = [
            ((*tile, factor), accumulators * more)
            for (tile, accumulators), (factor, more) in itertools.product(found, of_loop)
            if accumulators * more <= most
        ]
    tiles = [tile for tile, _ in found]
    weights = [
        1.0 if uniform else _weight(tile, extents, operands, lanes, registers, strides)
        for tile in tiles
    ]
    return ValueTable(tiles, weights)


def _in_use(factor: int, stride: int) -> int:
    """Return the number of iterations of a factor that are active at a time."""
    return factor if factor % stride else factor // stride


def _beside(steps: Sequence[int], factor: int) -> list[int]:
    """Return the next smaller and the next greater value, if they exist."""
    at = steps.index(factor)
    return [*steps[max(at - 1, 0) : at], *steps[at + 1 : at + 2]]


@lru_cache(maxsize=1024)
def _row_factors(extent: int) -> tuple[int, ...]:
    """Return the factors of a loop that is not vectorised, ascending."""
    found = divisors(extent)
    few = range(_FEW_ROWS, _MANY_ROWS + 1)
    if extent < _FEW_ROWS or any(extent % factor == 0 for factor in few):
        return found
    others = (f for f in range(2, min(extent, _MANY_ROWS + 1)) if extent % f)
    return tuple(sorted((*found, *others)))


@lru_cache(maxsize=1024)
def _vector_factors(extent: int, lanes: int) -> tuple[int, ...]:
    """Return the factors of the loop that is vectorised, ascending."""
    found = divisors(extent)
    if extent % lanes == 0:
        return found
    widest = min(extent, _MANY_VECTORS * lanes)
    return tuple(sorted({*found, *range(lanes, widest + 1, lanes)}))


def _weight(
    tile: Tile,
    extents: tuple[int, ...],
    operands: tuple[tuple[int, ...], ...],
    lanes: int,
    registers: int,
    strides: tuple[int, ...],
) -> float:
    width = tile[-1]
    rows = tuple(map(_in_use, tile[:-1], strides))
    vectors = -(-width // lanes)
    accumulators = math.prod(rows) * vectors
    filled = width / (vectors * lanes)
    hidden = min(1.0, accumulators / _LATENCY_ACCUMULATORS)
    loads = 0.0
    for operand in operands:
        elements = math.prod(rows[k] for k in set(operand) if k < len(rows))
        # A broadcast load of one element costs half of a vector load.
        loads += elements * (vectors if len(rows) in operand else 0.5)
    for factor, extent, stride in zip(tile, extents, strides, strict=True):
        filled *= extent / (-(-extent // factor) * factor)
        if factor % stride:
            filled /= stride
    reached = filled * hidden * accumulators / (accumulators + loads)
    weight = math.pow(reached, _SHARPNESS)
    # Besides the accumulators, a tile needs its vectors of one operand and one of the other.
    return weight if accumulators + vectors + 1 <= registers else _SPILL_WEIGHT * weight
