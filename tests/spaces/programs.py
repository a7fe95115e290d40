"""Small modules and workloads for the tests of spaces."""

from __future__ import annotations

import functools

import schedlang as sl
from schedlang.workloads import CBR, matmul
from schedlang.workloads.workload import Workload


@functools.cache
def product() -> Workload:
    """C (16, 16) = A @ B: one block."""
    return matmul(16, 16, 16)


@functools.cache
def convolution() -> Workload:
    """Blocks padded, conv2d, bias_add, bn_scale, bn_offset, relu."""
    return CBR(6, 6, 2, 8, 3, 1, 1)


def note(sch: sl.Schedule, block: sl.BlockRV, text: str) -> None:
    """Leave a mark on a block."""
    sch.annotate(block, text, 1)


@sl.module
def tile(sch: sl.Schedule, block: sl.BlockRV, *, parts: int = 2) -> None:
    """Tiles the first loop."""
    i, *_ = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, parts, name="tile"))


@sl.module
def fork(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Three ways; the second has two ways of its own, the third draws."""
    way = sch.choose("way", ("left", "middle", "right"))
    if way == "middle":
        note(sch, block, sch.choose("inner", ("thin", "thick")))
    if way == "right":
        sch.annotate(block, "drawn", sch.sample_categorical([1, 2, 3]))


@sl.module
def never(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Applies nowhere."""
    raise sl.NotApplicable("never")
