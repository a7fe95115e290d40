"""Modules: what they are made of, where they work, and what their instructions are called by."""

from __future__ import annotations

import pytest

import schedlang as sl
from schedlang.errors import InstructionError, SpaceError
from schedlang.spaces.module import Module, block_names
from schedlang.tvm.program import structurally_equal
from tests.spaces.programs import convolution, never, note, product, tile

BLOCKS = ["padded", "conv2d", "bias_add", "bn_scale", "bn_offset", "relu"]


def visited(module: Module, workload: sl.Workload) -> list[str]:
    """Names of the blocks where a module left instructions, in order."""
    sch = sl.Space([module]).sample(workload)
    return [str(i.args[0]) for i in sch.trace.instructions if i.kind.name == "get_block"]


# -- signatures and options ------------------------------------------------------------------------


def test_a_module_takes_the_schedule_and_its_location() -> None:
    @sl.module
    def at_block(sch: sl.Schedule, block: sl.BlockRV, *, bound: int = 4) -> None:
        """Says what it does."""

    @sl.module(at="root", name="renamed")
    def at_root(sch: sl.Schedule) -> None: ...

    assert (at_block.name, at_block.at, at_block.options) == ("at_block", "block", {})
    assert (at_root.name, at_root.at) == ("renamed", "root")
    assert at_block.__doc__ == "Says what it does." and at_block.__name__ == "at_block"
    assert repr(at_block(bound=8)) == "<module at_block(bound=8) at block>"
    assert sl.Module(at_block.function, name="other").name == "other"


def test_other_signatures_are_refused() -> None:
    def nothing() -> None: ...
    def schedule_only(sch: sl.Schedule) -> None: ...
    def three(sch: sl.Schedule, block: sl.BlockRV, bound: int = 4) -> None: ...

    for function, takes in ((nothing, ""), (schedule_only, "sch"), (three, "sch, block, bound")):
        with pytest.raises(SpaceError, match="at block takes") as caught:
            sl.module(function)
        assert f"module '{function.__name__}' takes ({takes})" in str(caught.value)
        assert "its options by keyword only" in str(caught.value)
    with pytest.raises(SpaceError, match=r"at root takes \(sch\)"):
        sl.module(at="root")(three)
    with pytest.raises(SpaceError, match='works at "block" or at "root", not \'loop\''):
        sl.module(at="loop")(three)  # type: ignore[call-overload]


def test_options_make_a_configured_copy() -> None:
    wide = tile(parts=3)
    assert tile.options == {} and wide.options == {"parts": 3}
    assert wide(parts=4).options == {"parts": 4}
    assert len(sl.Space([wide]).sample(product()).trace.decisions["tile"]) == 3
    assert len(sl.Space([tile]).sample(product()).trace.decisions["tile"]) == 2
    with pytest.raises(SpaceError, match="module 'tile' has no option 'levels'; it has parts"):
        tile(levels=3)
    with pytest.raises(SpaceError, match="module 'never' has no option 'x'; it has none"):
        never(x=1)


def test_renaming() -> None:
    other = tile(parts=3).renamed("rows")
    assert (other.name, other.options, tile.name) == ("rows", {"parts": 3}, "tile")
    trace = sl.Space([other]).sample(product()).trace
    assert {i.module for i in trace.instructions} == {"rows"}


# -- provenance ------------------------------------------------------------------------------------


def test_a_module_can_use_another_and_both_are_named() -> None:
    @sl.module
    def outer(sch: sl.Schedule, block: sl.BlockRV) -> None:
        note(sch, block, "before")
        tile(sch, block, parts=3)
        note(sch, block, "after")

    sch = sl.Space([outer]).sample(product(), seed=0)
    assert [(i.kind.name, i.module) for i in sch.trace.instructions] == [
        ("get_block", "outer"),
        ("annotate", "outer"),
        ("get_loops", "outer/tile"),
        ("sample_perfect_tile", "outer/tile"),
        ("split", "outer/tile"),
        ("annotate", "outer"),
    ]
    assert len(sch.trace.decisions["tile"]) == 3
    text = sch.trace.as_python()
    assert text.index("# outer\n") < text.index("# outer/tile\n") < text.rindex("# outer\n")


def test_called_by_hand_it_works_on_what_is_given() -> None:
    sch = sl.Schedule(product(), seed=0)
    assert tile(sch, sch.get_block("C")) is None
    assert [i.module for i in sch.trace.instructions] == ["", "tile", "tile", "tile"]
    with pytest.raises(sl.NotApplicable, match="never"):
        never(sch, sch.get_block("C"))


def test_an_error_inside_a_module_names_the_users_line() -> None:
    @sl.module
    def wrong(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.split(sch.get_loops(block)[0], [0])

    with pytest.raises(InstructionError) as caught:
        sl.Space([tile, wrong]).sample(product())
    line = wrong.function.__code__.co_firstlineno + 2
    assert caught.value.location == f"{__file__}:{line}"
    assert f"at {__file__}:{line}" in str(caught.value)


def test_nothing_but_not_applicable_is_caught() -> None:
    @sl.module
    def breaks(sch: sl.Schedule, block: sl.BlockRV) -> None:
        note(sch, block, "begun")
        raise ValueError("a fault of the user's")

    for space in (sl.Space([breaks]), sl.Space([sl.Stochastic([breaks])])):
        for run in (space.sample, space.sketches):
            with pytest.raises(ValueError, match="a fault of the user's") as caught:
                run(product())
            innermost = caught.traceback[-1]
            assert str(innermost.path) == __file__
            assert "raise ValueError" in str(innermost.statement)


# -- visiting --------------------------------------------------------------------------------------


def test_blocks_are_visited_in_post_order() -> None:
    @sl.module
    def mark(sch: sl.Schedule, block: sl.BlockRV) -> None:
        note(sch, block, "here")

    assert visited(mark, convolution()) == BLOCKS
    assert block_names(sl.Schedule(convolution())) == BLOCKS


def test_blocks_that_are_removed_on_the_way_are_skipped() -> None:
    @sl.module
    def inline_after_the_product(sch: sl.Schedule, block: sl.BlockRV) -> None:
        if sch.get(block).name_hint != "conv2d":
            raise sl.NotApplicable("not here")
        for _ in range(3):
            sch.compute_inline(sch.get_consumers(block)[0])

    sch = sl.Space([inline_after_the_product]).sample(convolution())
    assert block_names(sch) == ["padded", "conv2d", "relu"]

    seen: list[str] = []

    @sl.module
    def remove_others(sch: sl.Schedule, block: sl.BlockRV) -> None:
        seen.append(str(sch.get(block).name_hint))
        if seen[-1] == "conv2d":
            inline_after_the_product(sch, block)

    sl.Space([remove_others]).sample(convolution())
    assert seen == ["padded", "conv2d", "relu"]


def test_blocks_that_are_added_on_the_way_are_skipped() -> None:
    seen: list[str] = []

    @sl.module
    def cache(sch: sl.Schedule, block: sl.BlockRV) -> None:
        seen.append(str(sch.get(block).name_hint))
        sch.cache_write(block, 0, "global")

    sch = sl.Space([cache]).sample(product())
    assert seen == ["C"]
    assert block_names(sch) == ["C", "C_global"]


def test_a_module_at_the_root_runs_once() -> None:
    calls: list[int] = []

    @sl.module(at="root")
    def count(sch: sl.Schedule) -> None:
        calls.append(len(block_names(sch)))
        note(sch, sch.get_block("root"), "here")

    @sl.module(at="root")
    def gives_up(sch: sl.Schedule) -> None:
        note(sch, sch.get_block("root"), "there")
        raise sl.NotApplicable("no")

    sch = sl.Space([count, gives_up]).sample(convolution())
    assert calls == [6]
    assert structurally_equal(sch.mod, sl.Space([count]).sample(convolution()).mod)


def test_where_it_does_not_apply_the_others_stay() -> None:
    @sl.module
    def odd_ones(sch: sl.Schedule, block: sl.BlockRV) -> None:
        note(sch, block, "here")
        sch.unroll(sch.get_loops(block)[0])
        if len(sch.get(block).reads) != 2:
            raise sl.NotApplicable("not two inputs")

    assert visited(odd_ones, convolution()) == ["conv2d", "bias_add", "bn_scale", "bn_offset"]
    sch = sl.Space([odd_ones, never]).sample(convolution())
    assert structurally_equal(sch.trace.replay().mod, sch.mod)
