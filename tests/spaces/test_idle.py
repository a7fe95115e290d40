"""Modules that do nothing at their place, because those before them did their work."""

from __future__ import annotations

import warnings

import pytest

import schedlang as sl
from schedlang.analysis import loop_kinds, require
from schedlang.spaces.space import warn_of_idle
from tests.tuning.scripted import Scripted

MATMUL, SOFTMAX = sl.workloads.matmul(64, 64, 64), sl.workloads.softmax(8, 8)


@sl.module
def tile_product(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """for i, j, k: C  ->  for i0, i1, j, k: C"""
    loops = sch.get_loops(block)
    require("".join(loop_kinds(sch, loops)) == "SSR", "it is no product")
    sch.split(loops[0], [None, 4])


@sl.module
def on_paths(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Splits what a choice left alone."""
    tile_product(sch, block)


@sl.module
def sometimes(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Tiles by a choice."""
    if sch.choose("tiled", (True, False)):
        tile_product(sch, block)


@sl.module
def nowhere(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Applies to nothing."""
    raise sl.NotApplicable("it is a test")


@sl.module
def broken(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Has a mistake."""
    raise KeyError("mine")


DEFAULT = sl.default_space("cpu")
BEFORE = "multi_level_tiling"


@pytest.mark.parametrize(
    "module",
    [
        tile_product,
        sl.Stochastic([tile_product, nowhere], name="tile_product"),
        sl.Space([tile_product]).as_module("tile_product"),
    ],
    ids=["module", "stochastic", "space"],
)
def test_a_module_behind_the_tiling_is_named_with_its_remedy(module: sl.Module) -> None:
    said = r"'tile_product' does nothing .*applies to matmul.*behind 'multi_level_tiling'"
    with pytest.warns(sl.IdleModuleWarning, match=said) as found:
        warn_of_idle(DEFAULT + module, [MATMUL])
    assert "tile_product.placed(before='multi_level_tiling')" in str(found[0].message)


@pytest.mark.parametrize(
    "space",
    [
        DEFAULT,
        DEFAULT + tile_product.placed(before=BEFORE),
        DEFAULT + nowhere,
        sl.Space([sometimes, on_paths]),
        sl.Space([broken, tile_product]),
        sl.Space([nowhere, broken]),
    ],
    ids=["default", "in front", "applies to nothing", "on some paths", "behind a bug", "a bug"],
)
def test_no_warning(space: sl.Space) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_of_idle(space, [MATMUL])
    assert not said


def test_a_module_that_works_for_one_task_is_not_idle() -> None:
    @sl.module(before="tile_product")
    def tile_small(sch: sl.Schedule, block: sl.BlockRV) -> None:
        require(sch.extent(sch.get_loops(block)[0]) < 64, "it is large")
        tile_product(sch, block)

    small = sl.workloads.matmul(8, 8, 8)
    space = sl.Space([tile_small, tile_product])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_idle(space, [SOFTMAX, small, MATMUL])
    with pytest.warns(sl.IdleModuleWarning, match="behind 'tile_small'.*no product"):
        warn_of_idle(space, [SOFTMAX, small])


def test_tune_warns() -> None:
    measurer = Scripted([1e-6] * 2, 2e-6)
    with pytest.warns(sl.IdleModuleWarning, match="tile_product") as found:
        sl.tune(MATMUL, space=DEFAULT + tile_product, trials=1, measurer=measurer, finals=0)
    assert found[0].filename == __file__
