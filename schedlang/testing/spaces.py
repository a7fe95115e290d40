"""Small spaces to test searches on: an ordinary one, and difficult ones."""

from __future__ import annotations

from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.spaces.module import module
from schedlang.spaces.space import Space
from schedlang.workloads import matmul
from schedlang.workloads.workload import Workload

EXTENT = 32
TINY_PROGRAMS = 4


def small_workload() -> Workload:
    """Make a product of two matrices of 32 x 32 elements."""
    return matmul(EXTENT, EXTENT, EXTENT)


@module
def tile(sch: Schedule, block: BlockRV) -> None:
    """Three tiles, a step, an order and a choice: tens of thousands of programs."""
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, name="tile i"))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2, name="tile j"))
    k0, k1 = sch.split(k, [None, sch.sample_categorical([2, 4, 8], name="steps")])
    sch.reorder(*sch.sample_loop_order([i0, j0, k0], name="order"), i1, k1, j1)
    if sch.choose("cache", (True, False)):
        copy = sch.cache_read(block, 1, "global")
        sch.compute_at(copy, sch.sample_compute_location(copy, name="where"))


@module
def annotate_little(sch: Schedule, block: BlockRV) -> None:
    """Four programs, each reached in two ways."""
    outer, *_ = sch.get_loops(block)
    sch.choose("makes no difference", (True, False))
    sch.annotate(outer, "first", sch.sample_categorical([1, 2], name="first"))
    if sch.choose("second", (True, False)):
        sch.annotate(outer, "second", 1)


@module
def split_too_short(sch: Schedule, block: BlockRV) -> None:
    """Two of three decisions lose iterations, which the split refuses."""
    i, j, _ = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, n=2, name="tile i"))
    sch.split(j, [8, sch.sample_categorical([2, 3, EXTENT // 8], name="factor")])


@module
def reorder_twice(sch: Schedule, block: BlockRV) -> None:
    """No decision is valid."""
    i, j, _ = sch.get_loops(block)
    sch.annotate(i, "note", sch.sample_categorical([1, 2], name="note"))
    sch.reorder(j, j)


@module
def broken(sch: Schedule, block: BlockRV) -> None:
    """An ordinary mistake in a user's module."""
    raise ZeroDivisionError("a mistake in the module")


ORDINARY = Space([tile], "ordinary")
TINY = Space([annotate_little], "tiny")
FRAGILE = Space([split_too_short], "fragile")
HOPELESS = Space([reorder_twice], "hopeless")
BROKEN = Space([broken], "broken")
