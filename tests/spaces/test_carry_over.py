"""Decisions carried over to another shape: nearest draws, choices by name."""

from __future__ import annotations

import math

import schedlang as sl
from schedlang.distributions import PartitionedTile, PerfectTile, RegisterTile
from schedlang.spaces.mutation import carry_over

SPACE = sl.default_space("x86/avx2")


def test_the_same_shape_gets_the_same_program() -> None:
    workload = sl.workloads.matmul(32, 48, 64)
    for seed in range(4):
        drawn = SPACE.sample(workload, seed=seed)
        again = carry_over(drawn.trace, workload, SPACE)
        assert again.trace.decisions == drawn.trace.decisions
        assert again.trace.choices == drawn.trace.choices


def test_another_shape_gets_the_nearest_decisions() -> None:
    drawn = SPACE.sample(
        sl.workloads.matmul(64, 64, 64),
        seed=0,
        choices={"register_tile:C": True, "panel_order:C": "columns"},
        decisions={
            "register_tile_of:C": (4, 16),
            "panel:C:i": (4, 4),
            "panel:C:j": (2, 2),
            "repeat:C:k": (16, 4),
            "unroll": 64,
        },
    )
    found = carry_over(drawn.trace, sl.workloads.matmul(96, 72, 60), SPACE).trace
    assert found.choices["panel_order:C"] == "columns"
    assert found.decisions["register_tile_of:C"] in {(4, 18), (4, 12)}
    assert found.decisions["panel:C:i"] == (6, 4)
    assert found.decisions["repeat:C:k"] == (15, 4)
    assert found.decisions["unroll"] == 64


def test_what_the_trace_lacks_takes_its_origin_and_sites_may_have_other_names() -> None:
    @sl.module
    def two(sch: sl.Schedule, block: sl.BlockRV) -> None:
        loop = sch.get_loops(block)[0]
        sch.split(loop, sch.sample_perfect_tile(loop, 2, 64, name="first"))
        sch.annotate(block, "note", sch.sample_categorical([1, 2, 3], name="second"))

    workload = sl.workloads.matmul(16, 4, 4)
    drawn = sl.Space([two]).sample(workload, decisions={"first": (4, 4), "second": 3})
    renamed = two.renamed("other")
    for sites, expected in ((None, 3), ({"second": "elsewhere"}, 1)):
        found = carry_over(drawn.trace, workload, sl.Space([renamed]), sites)
        assert found.trace.decisions == {"first": (4, 4), "second": expected}


def test_the_nearest_tile_is_nearest_in_ratio() -> None:
    assert PerfectTile(96, 2, 64).nearest((2, 7)) == (12, 8)
    assert PerfectTile(32, 2).nearest((3, 7)) == (4, 8)
    assert PerfectTile(32, 2).repair((3, 7)) == (32, 1), "searches repair by common factors"
    assert PerfectTile(32, 3, 4).nearest((1, 5, 16)) == (2, 4, 4)
    assert PartitionedTile(24, 2, 1, 4).nearest((1, 5)) == (6, 4)


def test_the_nearest_register_tile_has_about_as_many_elements() -> None:
    tiles = RegisterTile((64, 14, 14), ((1, 2), (0,)), 16, 32)
    found = tiles.nearest((6, 4, 14))
    assert found[2] == 14 and math.prod(found[:2]) <= 32
    assert tiles.permits(found)
