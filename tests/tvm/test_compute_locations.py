"""Where a block may be computed, worked out here, against TVM's SampleComputeLocation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tvm.s_tir.schedule import _ffi_api as ffi

from schedlang.analysis import block_facts, has_trivial_binding, is_output
from schedlang.distributions.categorical import INLINE, ROOT
from schedlang.errors import SchedlangError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules import auto_inline, multi_level_tiling
from schedlang.spaces.module import block_names
from schedlang.spaces.space import Space
from schedlang.tvm.analysis import compute_locations
from schedlang.tvm.schedule import get_block, get_trace, new_traced_schedule
from tests.language.primitives.programs import chain
from tests.properties.programs import SMALL, SPACE, small

TILED = Space([auto_inline, multi_level_tiling(vector_lanes=16)])
UNTILED = Space([])
SHALLOW = Space([multi_level_tiling(structure="SRS", write_levels=(1,))])


def programs(name: str, *spaces: Space, seeds: int = 6) -> Iterator[Schedule]:
    for space in spaces:
        for seed in range(seeds if space.modules else 1):
            yield space.sample(small(name), seed=seed)


def ours(sch: Schedule, block: BlockRV) -> tuple[int, ...]:
    return compute_locations(sch.raw, sch.raw_value(block))


def tvms(sch: Schedule, block: BlockRV) -> tuple[int, ...]:
    """TVM moves a decision that is not in its support, and records where to."""
    consumers = sch.get_consumers(block)
    depth = len(sch.get_loops(consumers[0])) if consumers else 0
    kept = []
    for decision in range(INLINE, depth):
        raw = new_traced_schedule(sch.mod)
        ffi.ScheduleSampleComputeLocation(
            raw, get_block(raw, str(sch.get(block).name_hint), "main"), decision
        )
        (recorded,) = (int(value) for value in get_trace(raw).decisions.values())
        if recorded == decision:
            kept.append(decision)
    return tuple(kept)


def applies(sch: Schedule, block: BlockRV, location: int) -> bool:
    """Whether TVM computes the block there."""
    trial = sch.copy()
    try:
        if location == INLINE:
            trial.compute_inline(block)
        elif location != ROOT:
            loop = trial.get_loops(trial.get_consumers(block)[0])[location]
            trial.compute_at(block, loop, preserve_unit_loops=True)
    except SchedlangError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_for_what_modules_ask_the_two_agree(name: str) -> None:
    """Producers that are not scheduled yet: what ``random_compute_location`` draws for."""
    for sch in programs(name, UNTILED, TILED, SHALLOW):
        for block in map(sch.get_block, block_names(sch)):
            facts: Any = block_facts(sch, block)
            if facts.reduction_extents or is_output(sch, block):
                continue
            if has_trivial_binding(sch, block):
                assert ours(sch, block) == tvms(sch, block), (facts.name, sch.trace)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_for_any_block_what_tvm_leaves_out_does_not_apply(name: str) -> None:
    """TVM tries each location, which costs most of a replay; ours are then invalid traces."""
    for sch in programs(name, UNTILED, TILED, SHALLOW, SPACE, seeds=3):
        for block in map(sch.get_block, block_names(sch)):
            mine, theirs = ours(sch, block), tvms(sch, block)
            assert set(theirs) <= set(mine)
            assert all(applies(sch, block, location) for location in theirs)
            extra = set(mine) - set(theirs)
            assert not any(applies(sch, block, location) for location in extra), sch.trace


def test_what_sets_a_reductions_initial_value_is_not_inlined() -> None:
    sch = Schedule(small("GMM"))
    block = sch.get_block("C")
    sch.cache_write(block, 0, "global")
    init = sch.decompose_reduction(block, sch.get_loops(block)[3])
    assert INLINE not in ours(sch, init)
    assert set(tvms(sch, init)) <= set(ours(sch, init))


def test_no_location_is_in_a_vectorised_loop() -> None:
    """TVM would compute the block there, and compiles the program wrongly."""
    sch = Schedule(chain())
    block = sch.get_block("B")
    _, j = sch.get_loops("C")
    sch.split(j, [None, 4])
    *_, outer, inner = sch.get_loops("C")
    assert ours(sch, block) == (INLINE, ROOT, 0, 1, 2) == tvms(sch, block)
    sch.vectorize(inner)
    assert ours(sch, block) == (INLINE, ROOT, 0, 1)
    sch.reorder(inner, outer)
    assert ours(sch, block) == (INLINE, ROOT, 0)
    assert tvms(sch, block) == (INLINE, ROOT, 0, 1, 2)
