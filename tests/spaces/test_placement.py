"""Where ``+`` puts modules: the places that they state, the finishing stage, and orders."""

from __future__ import annotations

from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import SpaceError
from schedlang.modules import (
    UseBF16Dot,
    UseVNNI,
    auto_bind,
    multi_level_tiling,
    pad_einsum,
    parallel_vectorize_unroll,
    register_tile,
    tensorize_with,
    vector_math,
)
from schedlang.tuning.identity import identity
from tests.spaces.programs import fork, never, product, tile


def names(space: sl.Space) -> list[str]:
    return [module.name for module in space]


def named(name: str, **place: Any) -> sl.Module:
    """A module that does nothing, with a place."""

    def nothing(sch: sl.Schedule, block: sl.BlockRV) -> None: ...

    return sl.Module(nothing, name=name, **place)


TILING, LATE = named("tiling"), named("late")
FINISH, LAST = named("finish", stage="finish"), named("last", stage="finish")
SPACE = sl.Space([tile, TILING, LATE, FINISH, LAST], name="left")


@pytest.mark.parametrize(
    ("right", "expected"),
    [
        ([named("x")], "tile tiling late x finish last"),
        ([named("x", before="tiling")], "tile x tiling late finish last"),
        ([named("x", before="last")], "tile tiling late finish x last"),
        ([named("x", before="absent")], "tile tiling late x finish last"),
        ([named("x", before=("absent", "late"))], "tile tiling x late finish last"),
        ([named("x", before=("late", "tiling"))], "tile x tiling late finish last"),
        ([named("x", stage="finish")], "tile tiling late finish last x"),
        ([named("x", stage="finish", before="finish")], "tile tiling late x finish last"),
        ([named("x", stage="finish", before="absent")], "tile tiling late finish last x"),
        ([named("x", before="tiling"), named("y")], "tile x tiling late y finish last"),
        # The right's order: what precedes a module with a place is in front of it, too.
        ([named("y"), named("x", before="tiling")], "tile y x tiling late finish last"),
        (
            [named("y", before="late"), named("x", before="tile"), named("z", before="tiling")],
            "y x tile z tiling late finish last",
        ),
        # What follows a finishing module follows it to the end.
        (
            [named("x"), named("y", stage="finish"), named("z")],
            "tile tiling late x finish last y z",
        ),
        ([], "tile tiling late finish last"),
    ],
)
def test_each_module_goes_to_its_place(right: list[sl.Module], expected: str) -> None:
    found = SPACE + sl.Space(right)
    assert names(found) == expected.split()
    assert found.name == "left"
    if len(right) == 1:
        assert names(SPACE + right[0]) == expected.split()


def test_without_a_finishing_stage_it_goes_to_the_end() -> None:
    space = sl.Space([tile, TILING])
    assert names(space + named("x")) == ["tile", "tiling", "x"]
    assert names(space + FINISH + named("x")) == ["tile", "tiling", "x", "finish"]
    right = sl.Space([FINISH, named("x"), LAST])
    assert names(space + right) == ["tile", "tiling", "finish", "x", "last"]
    assert names(sl.Space([]) + right) == names(right)


def test_both_sides_keep_their_order() -> None:
    right = sl.Space([named("a"), named("b", before="late"), named("c"), named("d", before="tile")])
    found = names(SPACE + right)
    assert [name for name in found if name in SPACE] == names(SPACE)
    assert [name for name in found if name in right] == names(right)


@pytest.mark.parametrize("before", ["", (), ("a", ""), 3, ["a", None], b"tiling", tile])
def test_a_place_is_a_name(before: Any) -> None:
    with pytest.raises(SpaceError, match=r"module 'x': before=.*; give the name of a module"):
        named("x", before=before)
    with pytest.raises(SpaceError, match="module 'nothing': before="):

        @sl.module(before=before)
        def nothing(sch: sl.Schedule, block: sl.BlockRV) -> None: ...


@pytest.mark.parametrize("stage", ["begin", "", 1, True])
def test_there_is_one_stage(stage: Any) -> None:
    with pytest.raises(SpaceError, match=f"module 'x': stage={stage!r}; there is \"finish\""):
        named("x", stage=stage)


def place(module: sl.Module) -> tuple[Any, Any]:
    return module.before, module.stage


def test_copies_keep_the_place() -> None:
    assert place(UseVNNI) == ("multi_level_tiling", None)
    assert place(UseVNNI(features={"avx2"})) == place(UseVNNI.renamed("other")) == place(UseVNNI)
    assert place(parallel_vectorize_unroll(cores=3).renamed("finish")) == (None, "finish")
    assert place(UseVNNI.placed(before=["a", "b"])) == (("a", "b"), None)
    assert place(UseVNNI.placed()) == place(tile) == (None, None)


def test_modules_of_several_go_where_all_of_them_can() -> None:
    x, y = named("x", before="tiling"), named("y", before=["late", "tiling"])
    assert place(sl.Stochastic([x, y])) == (("tiling", "late"), None)
    assert place(sl.Space([named("z"), x]).as_module("both")) == (("tiling",), None)
    assert place(sl.Space([x, TILING]).as_module("tiling")) == (None, None)
    assert place(sl.Space([FINISH, LAST]).as_module("finish")) == (None, "finish")
    assert place(sl.Stochastic([FINISH, LAST])) == (None, "finish")
    assert place(sl.Stochastic([FINISH, named("z")])) == (None, None)
    assert place(sl.Space([]).as_module("nothing")) == (None, None)
    assert names(SPACE + sl.Space([x, y]).as_module("both"))[1] == "both"


def test_a_replacement_takes_over_the_place() -> None:
    space = SPACE.replace("last", never).replace("finish", sl.Space([fork, named("x", before="y")]))
    assert names(space) == ["tile", "tiling", "late", "fork", "x", "never"]
    assert [module.stage for module in space] == [None, None, None, "finish", None, "finish"]
    assert names(space + named("z")) == ["tile", "tiling", "late", "z", "fork", "x", "never"]
    assert SPACE.replace("tiling", fork)["fork"] is fork
    assert fork.stage is None


def test_the_constructor_and_the_methods_leave_the_order_alone() -> None:
    early = named("early", before="tile")
    assert names(sl.Space([FINISH, tile, early])) == ["finish", "tile", "early"]
    assert names(SPACE.after("last", early))[-1] == "early"
    assert names(SPACE.before("finish", early))[3] == "early"


def test_the_order_counts_and_not_how_it_came_about() -> None:
    x = named("x", before="tiling")
    ordered = sl.Space([tile, x.placed(), TILING, LATE, FINISH.placed(), LAST])
    assert identity(SPACE + x) == identity(ordered)
    assert identity(SPACE + x) != identity(SPACE + x.placed())


def test_what_a_space_prints_shows_where_it_went() -> None:
    space = sl.Space([tile, FINISH], name="mine") + named("x", before=("tile", "y"))
    assert str(space).splitlines() == [
        "space 'mine' of 3 modules",
        "   0  x       at block  before tile, y",
        "   1  tile    at block",
        "   2  finish  at block  stage finish",
    ]
    assert repr(space) == "Space([x, tile, finish], name='mine')"
    assert repr(space[0]) == "<module x() at block, before tile, y>"
    assert repr(space[2]) == "<module finish() at block, stage finish>"
    assert str(sl.Space([tile])).splitlines()[0] == "space 'space' of 1 module"
    assert str(sl.Space([])) == "space 'space' of 0 modules"


# -- the library's own -----------------------------------------------------------------------------


def test_a_module_of_ones_own_goes_in_front_of_the_finishing_steps() -> None:
    """In the default space little is left to do behind them."""
    space = sl.default_space("cpu")
    found = names(space + tile)
    assert found[found.index("tile") + 1 :] == ["vector_math", "parallel_vectorize_unroll"]
    assert [module.stage for module in space][-2:] == ["finish", "finish"]
    assert {module.stage for module in space[:-2]} == {None}


@pytest.mark.parametrize(
    "module", [UseVNNI(), UseBF16Dot(), tensorize_with(intrinsic="x"), pad_einsum.renamed("again")]
)
def test_modules_that_need_untiled_blocks_go_in_front_of_the_tiling(module: sl.Module) -> None:
    found = names(sl.default_space("cpu") + module)
    assert found[found.index("multi_level_tiling") - 1] == module.name
    assert names(sl.Space([tile]) + module) == ["tile", module.name]


def test_a_space_of_ones_own_can_be_added_up() -> None:
    space = sl.Space([]) + vector_math + multi_level_tiling + auto_bind + pad_einsum + register_tile
    assert names(space) == [
        "pad_einsum", "register_tile", "multi_level_tiling", "vector_math", "auto_bind"
    ]  # fmt: skip


def test_a_module_in_front_of_the_tiling_does_its_work_there() -> None:
    """Behind the finishing steps it would find no block left as it was written."""

    @sl.module(before="multi_level_tiling")
    def split_once(sch: sl.Schedule, block: sl.BlockRV) -> None:
        loops = sch.get_loops(block)
        if len(loops) != 3:
            raise sl.NotApplicable(f"it has {len(loops)} loops")
        sch.split(loops[0], [None, 4])

    space = sl.default_space("cpu") + split_once
    [visit] = [visit for visit in space.explain(product()) if visit.module == "split_once"]
    assert visit.instructions == 3
    behind = sl.Space([*sl.default_space("cpu"), split_once])
    visits = [visit for visit in behind.explain(product()) if visit.module == "split_once"]
    assert all(visit.reason for visit in visits)
