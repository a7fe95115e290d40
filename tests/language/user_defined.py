"""What a user defines: instructions, sampling instructions, a distribution; and a use of all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import schedlang as sl
from schedlang.expressions import IntExpr
from schedlang.language.schedule import Schedule
from tests.language.programs import product


@sl.instruction
def tile_inner(
    sch: sl.Schedule, block: sl.BlockRV, lanes: int | IntExpr, *, note: str = ""
) -> None:
    """Splits the innermost loop and notes why: returns nothing."""
    loops = sch.get_loops(block)
    sch.split(loops[-1], [None, lanes])
    if note:
        sch.annotate(block, "note", note)


@sl.instruction
def spread(
    sch: sl.Schedule, width: int = 2, *loops: sl.LoopRV, unroll: bool = False
) -> list[sl.LoopRV]:
    """Splits each loop by ``width``: returns the inner loops."""
    inner = [sch.split(loop, [None, width])[1] for loop in loops]
    for loop in inner if unroll else ():
        sch.unroll(loop)
    return inner


@sl.instruction
def outermost(sch: sl.Schedule, block: sl.BlockRV) -> sl.LoopRV:
    """Returns one handle, and uses another instruction."""
    tile_inner(sch, block, 4, note="nested")
    (inner,) = spread(sch, 2, sch.get_loops(block)[0], unroll=True)
    assert isinstance(inner, sl.LoopRV)
    return sch.get_loops(block)[0]


@sl.sampling_instruction
def sample_divisor(sch: sl.Schedule, loop: sl.LoopRV, *, least: int = 1) -> sl.Distribution:
    """One divisor of the loop's extent."""
    extent = sch.extent(loop)
    return sl.Categorical(tuple(d for d in range(least, extent + 1) if extent % d == 0))


@sl.sampling_instruction
def sample_pair(sch: sl.Schedule, *bounds: int) -> sl.Distribution:
    """Two integers."""
    return sl.PerfectTile(math.prod(bounds), 2)


@sl.distribution
@dataclass(frozen=True, repr=False)
class PowerOfTwo(sl.Distribution):
    """2**k for k below ``count``, the smaller the likelier: three methods and a ``kind``."""

    kind: ClassVar[str] = "test_power_of_two"
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise sl.DistributionError("count must be at least 1")

    def sample(self, rng: Any) -> int:
        return next(d for d in self.support() if rng.random() < 0.5 or d == 1 << (self.count - 1))

    def log_prob(self, d: object) -> float:
        if type(d) is not int or d not in self.support():
            return -math.inf
        k = d.bit_length()
        return -math.log(2) * min(k, self.count - 1)

    def support(self) -> Iterator[int]:
        return (1 << k for k in range(self.count))


def scheduled(seed: int = 0) -> Schedule:
    """The product, scheduled by all of the above."""
    sch = Schedule(product(), seed=seed)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    divisor = sample_divisor(sch, i, least=2, name="divisor")
    assert isinstance(divisor, sl.IntRV)
    sch.split(i, [None, divisor])
    sch.split(j, sample_pair(sch, 4, 4, name="pair"))
    tile_inner(sch, block, sch.sample(PowerOfTwo(4), name="lanes"), note="from 'outside'")
    only, second = spread(sch, 2, *sch.get_loops(block)[:2])
    outer = outermost(sch, block)
    sch.annotate(outer, "returned", 1)
    sch.annotate(second, "returned", sch.sample(PowerOfTwo(3)))
    assert spread(sch, 5) == []
    assert tile_inner(sch, "C", 1) is None  # type: ignore[arg-type,func-returns-value]
    assert isinstance(only, sl.LoopRV)
    return sch
