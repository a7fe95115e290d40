"""Sketches: every path of choices, once."""

from __future__ import annotations

import itertools

import pytest

import schedlang as sl
from schedlang.errors import SpaceError
from schedlang.modules import multi_level_tiling
from tests.spaces.programs import convolution, fork, never, note, product, tile


def paths(space: sl.Space, workload: sl.Workload | None = None) -> list[dict[str, str]]:
    sketches = space.sketches(workload or product())
    for sketch in sketches:
        taken = sketch.trace.choices.items()
        assert sketch.choices == tuple((site, str(option)) for site, option in taken)
        assert sketch.trace.replay().trace == sketch.trace
    assert len({sketch.choices for sketch in sketches}) == len(sketches)
    return [dict(sketch.choices) for sketch in sketches]


def test_no_choice_is_one_sketch() -> None:
    assert paths(sl.Space([tile])) == [{}]


def test_independent_choices_multiply() -> None:
    @sl.module
    def three(sch: sl.Schedule, block: sl.BlockRV) -> None:
        for name, options in (("a", (1, 2)), ("b", ("x", "y", "z")), ("c", (True, False))):
            note(sch, block, f"{name}: {sch.choose(name, options)}")

    expected = [
        {"a": a, "b": b, "c": c} for a, b, c in itertools.product("12", "xyz", ("True", "False"))
    ]
    found = paths(sl.Space([three]))
    assert found[0] == expected[0]
    assert sorted(map(str, found)) == sorted(map(str, expected))


def test_nested_and_dependent_choices_give_the_paths_that_exist() -> None:
    assert paths(sl.Space([fork])) == [
        {"way": "left"},
        {"way": "middle", "inner": "thin"},
        {"way": "middle", "inner": "thick"},
        {"way": "right"},
    ]

    @sl.module
    def countdown(sch: sl.Schedule, block: sl.BlockRV) -> None:
        left = 3
        while left and sch.choose("go on", ("stop", "go")) == "go":
            left -= 1

    sites = ["go on", "go on#1", "go on#2"]
    assert sorted(map(len, paths(sl.Space([countdown])))) == [1, 2, 3, 3]
    assert {"go on": "go", "go on#1": "go", "go on#2": "go"} in paths(sl.Space([countdown]))
    assert {site for path in paths(sl.Space([countdown])) for site in path} == set(sites)


def test_choices_of_several_blocks_and_modules_multiply() -> None:
    @sl.module
    def mark(sch: sl.Schedule, block: sl.BlockRV) -> None:
        if sch.choose(f"mark {sch.get(block).name_hint}", (True, False)):
            note(sch, block, "here")

    assert len(sl.Space([mark]).sketches(convolution())) == 2**6
    assert len(sl.Space([mark, fork]).sketches(product())) == 2 * 4
    tiled = sl.Space([multi_level_tiling(structure=["SSRS", "SSRSRS"])])
    assert len(paths(tiled, convolution())) > 4


def test_what_does_not_apply_in_any_way_is_one_path() -> None:
    """Six blocks and two options that both give up: not 64 equal sketches."""
    both = sl.Stochastic([never, never.renamed("neither")], name="one")
    assert paths(sl.Space([both]), convolution()) == [{}]
    sometimes = sl.Stochastic([tile, never, never.renamed("neither")], name="one")
    found = paths(sl.Space([sometimes]))
    assert found == [{"one": "tile"}, {}]

    @sl.module
    def gives_up_for_some(sch: sl.Schedule, block: sl.BlockRV) -> None:
        first = sch.choose("first", (1, 2))
        second = sch.choose("second", (1, 2, 3))
        if first != second:
            raise sl.NotApplicable("not these")
        note(sch, block, "here")

    stand = [{}, {"first": 1, "second": 1}, {"first": 2, "second": 2}]
    found = [s.trace.choices for s in sl.Space([gives_up_for_some]).sketches(product())]
    assert sorted(map(str, found)) == sorted(map(str, stand))
    assert len(sl.Space([gives_up_for_some, fork]).sketches(product())) == 3 * 4


def test_sketches_of_a_space_are_where_its_samples_come_from() -> None:
    space = sl.Space([tile, fork])
    known = {sketch.choices for sketch in space.sketches(product())}
    drawn = {tuple(space.sample(product(), seed).trace.choices.items()) for seed in range(200)}
    assert drawn == known


def test_members_of_a_sketch_share_instructions() -> None:
    for sketch in sl.Space([tile, fork]).sketches(product()):
        for seed in range(3):
            member = sketch.sample(seed)
            assert tuple(member.trace.choices.items()) == sketch.choices
            assert [i.kind for i in member.trace.instructions] == [
                i.kind for i in sketch.trace.instructions
            ]


def test_a_limit_bounds_them() -> None:
    @sl.module
    def many(sch: sl.Schedule, block: sl.BlockRV) -> None:
        for _ in range(30):
            sch.choose("bit", (0, 1))

    space = sl.Space([many])
    with pytest.raises(SpaceError, match=r"more than 20 sketches.*\('bit', '1'\)"):
        space.sketches(product(), limit=20)
    first = list(itertools.islice(space.iterate_sketches(product()), 5))
    assert len({sketch.choices for sketch in first}) == 5
    assert len(sl.Space([fork]).sketches(product(), limit=4)) == 4
    with pytest.raises(SpaceError, match="more than 3 sketches"):
        sl.Space([fork]).sketches(product(), limit=3)


def test_sketches_are_the_same_each_time() -> None:
    space = sl.Space([tile, fork])
    one, again, other = (space.sketches(product(), seed=seed) for seed in (1, 1, 2))
    assert [s.trace for s in one] == [s.trace for s in again]
    assert [s.choices for s in one] == [s.choices for s in other]
    assert [s.trace for s in one] != [s.trace for s in other]
