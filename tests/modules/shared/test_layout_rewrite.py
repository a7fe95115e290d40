"""``layout_rewrite``: operands in the order of the tiles, and the same numbers."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from schedlang.errors import NotApplicable, SpaceError
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.finish import parallel_vectorize_unroll
from schedlang.modules.tiling import layout_rewrite, multi_level_tiling
from schedlang.spaces.space import Space
from schedlang.workloads import C2D, from_prim_func, matmul
from schedlang.workloads.workload import Workload
from tests.modules.module_runs import Golden, assert_golden, sampled
from tests.properties.programs import assert_same_numbers

TILE = multi_level_tiling(structure="SSRS", write_levels=())
FINISH = parallel_vectorize_unroll(cores=2, unroll_steps=(0,))


@functools.cache
def weighted() -> Workload:
    """A product whose second operand is marked as a weight."""
    return from_prim_func(matmul(16, 32, 8).func.with_attr("layout_free_buffers", [1]), "weighted")


@functools.cache
def convolution() -> Workload:
    return C2D(6, 6, 4, 8, 3, 1, 1)


def test_the_program_before_and_after(golden: Golden) -> None:
    sch = sampled(
        weighted(),
        TILE,
        layout_rewrite,
        decisions={"tile:C:i": (2, 2, 4), "tile:C:j": (2, 2, 8)},
    )
    assert_golden(golden, "layout_rewrite", sch)
    assert_same_numbers(sch.mod, weighted(), sch.trace)


@pytest.mark.parametrize(
    ("workload", "buffers"),
    [
        (weighted, []),
        (weighted, ["A", "B"]),
        (convolution, ["weight"]),
        (convolution, ["inputs", "weight"]),
    ],
)
def test_the_numbers_stay(workload: Any, buffers: list[str]) -> None:
    space = Space([TILE, layout_rewrite(buffers=buffers), FINISH])
    rewritten = 0
    for seed in range(6):
        sch = space.sample(workload(), seed=seed)
        assert_same_numbers(sch.mod, workload(), sch.trace)
        rewritten += "layout_rewrite_preproc" in str(sch.mod)
    assert rewritten


def test_the_layout_follows_the_tiles_at_replay() -> None:
    space = Space([TILE, layout_rewrite])
    first = space.sample(weighted(), decisions={"tile:C:i": (2, 2, 4), "tile:C:j": (2, 2, 8)})
    other = {"tile:C:i": (2, 2, 4), "tile:C:j": (2, 4, 4)}
    again = first.trace.with_decisions(other).replay()
    assert str(again.mod) == str(space.sample(weighted(), decisions=other).mod) != str(first.mod)
    assert_same_numbers(again.mod, weighted(), again.trace)


def test_what_is_read_from_front_to_back_stays() -> None:
    sch = Schedule(weighted())
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    layout_rewrite(sch)
    assert "layout_rewrite_preproc" not in str(sch.mod)


def test_what_is_read_beyond_its_border_stays() -> None:
    """The padding reads its input at shifted indices, under a condition."""
    sch = Schedule(convolution())
    _, h, w, c = sch.get_loops("padded")
    sch.reorder(c, h, w)
    layout_rewrite(sch, buffers=["inputs"])
    assert "layout_rewrite_preproc" not in str(sch.mod)


def test_programs_without_such_buffers() -> None:
    with pytest.raises(NotApplicable, match="no buffer may change its layout"):
        layout_rewrite(Schedule(matmul(16, 32, 8)))


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        (
            ["W"],
            r"layout_rewrite\(buffers=\['W'\]\): the program has no parameter 'W'; it has A, B",
        ),
        ("B", r"layout_rewrite\(buffers='B'\): it takes a list of names"),
    ],
)
def test_bad_options(buffers: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        layout_rewrite(Schedule(weighted()), buffers=buffers)
