"""Spaces: composition by name, samples, seeds and given decisions."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import InstructionError, SpaceError
from tests.spaces.programs import convolution, fork, never, note, product, tile


def names(space: sl.Space) -> list[str]:
    return [module.name for module in space.modules]


@sl.module
def last(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Leaves a mark."""
    note(sch, block, "last")


# -- composition -----------------------------------------------------------------------------------


def test_composition_is_pure_and_by_name() -> None:
    space = sl.Space([tile, fork], name="mine")
    assert names(space + last) == ["tile", "fork", "last"]
    assert names(space + sl.Space([last, never])) == ["tile", "fork", "last", "never"]
    assert names(space.before("fork", last)) == ["tile", "last", "fork"]
    assert names(space.before("tile", sl.Space([last, never]))) == ["last", "never", "tile", "fork"]
    assert names(space.after("tile", last)) == ["tile", "last", "fork"]
    assert names(space.after("fork", last)) == ["tile", "fork", "last"]
    assert names(space.replace("tile", last)) == ["last", "fork"]
    assert names(space.replace("tile", tile(parts=3))) == ["tile", "fork"]
    assert names(space.without("tile")) == ["fork"]
    assert names(space.without("tile", "fork")) == []
    assert names(space.without()) == names(space) == ["tile", "fork"]
    assert (space + last).name == space.before("fork", last).name == space.without().name == "mine"
    assert repr(space) == "Space([tile, fork], name='mine')"
    assert names(sl.Space([space, last])) == ["tile", "fork", "last"]
    assert names(sl.Space([])) == []


def test_an_unknown_name_suggests_one() -> None:
    space = sl.Space([tile, fork])
    for use in (
        lambda name: space.before(name, last),
        lambda name: space.after(name, last),
        lambda name: space.replace(name, last),
        lambda name: space.without("fork", name),
    ):
        with pytest.raises(
            SpaceError, match="no module 'tyle' in this space of tile, fork; did you"
        ):
            use("tyle")
        with pytest.raises(SpaceError) as caught:
            use("xyz")
        assert "did you mean" not in str(caught.value)
    with pytest.raises(SpaceError, match="in this space of none"):
        sl.Space([]).without("tile")


def test_two_modules_of_one_name_are_refused() -> None:
    with pytest.raises(SpaceError, match=r"'tile' occurs twice: use \.renamed"):
        sl.Space([tile, fork, tile])
    with pytest.raises(SpaceError, match="'tile' occurs twice"):
        sl.Space([tile]).before("tile", tile)
    assert names(sl.Space([tile, tile.renamed("again")])) == ["tile", "again"]


def test_other_things_are_no_modules() -> None:
    def function(sch: sl.Schedule, block: sl.BlockRV) -> None: ...

    with pytest.raises(SpaceError, match=r"not <function.*\(decorate it with @sl.module\)"):
        sl.Space([function])  # type: ignore[list-item]
    for thing in ("tile", None, 3):
        with pytest.raises(SpaceError) as caught:
            sl.Space([thing])  # type: ignore[list-item]
        assert "decorate" not in str(caught.value)


def test_a_space_is_a_module_too() -> None:
    inner = sl.Space([tile, last])
    space = sl.Space([never, inner.as_module("both"), fork])
    sch = space.sample(product(), seed=0)
    assert [i.module for i in sch.trace.instructions][:6] == ["both/tile"] * 4 + ["both/last"] * 2
    assert names(space) == ["never", "both", "fork"]
    assert len(space.sketches(product())) == len(sl.Space([fork]).sketches(product()))


# -- samples ---------------------------------------------------------------------------------------


def test_given_decisions_and_choices_are_used() -> None:
    space = sl.Space([tile, fork])
    sch = space.sample(product(), decisions={"tile": [2, 8]}, choices={"way": "right"})
    assert sch.trace.decisions["tile"] == (2, 8)
    assert sch.trace.choices == {"way": "right"}
    assert {
        space.sample(product(), seed, decisions={"tile": (2, 8)}).trace.choices["way"]
        for seed in range(30)
    } == {"left", "middle", "right"}


def test_a_site_that_is_given_as_the_other_kind_is_told() -> None:
    space = sl.Space([tile, fork])
    with pytest.raises(SpaceError, match="'way' is a choice: give it in choices="):
        space.sample(product(), decisions={"way": "left"})
    with pytest.raises(SpaceError, match="'tile' is a draw: give it in decisions="):
        space.sample(product(), choices={"tile": (2, 8)})


def test_given_sites_that_are_not_met_are_named() -> None:
    space = sl.Space([tile, fork])
    with pytest.raises(SpaceError, match="no site 'inner', 'nowhere' was met; choices") as caught:
        space.sample(
            product(),
            decisions={"nowhere": 1, "tile": (2, 8)},
            choices={"way": "left", "inner": "thin"},
        )
    assert "{'way': 'left'}" in str(caught.value) and "['tile']" in str(caught.value)
    with pytest.raises(SpaceError, match="choice 'way' has no option up; it has left, middle, rig"):
        space.sample(product(), choices={"way": "up"})
    with pytest.raises(
        InstructionError, match=r"decision \(3, 5\) of 'tile' is not in the support"
    ):
        space.sample(product(), decisions={"tile": (3, 5)})


def test_a_choice_may_be_given_by_the_option_itself() -> None:
    space = sl.Space([sl.Stochastic([tile, last], name="one")])
    sch = space.sample(product(), choices={"one": last})
    assert sch.trace.choices == {"one": "last"}
    assert space.sample(product(), choices={"one": "last"}).trace == sch.trace


def test_an_empty_space_and_what_applies_nowhere_leave_the_program() -> None:
    for space in (sl.Space([]), sl.Space([never])):
        assert len(space.sample(convolution()).trace) == 0
        assert [sketch.choices for sketch in space.sketches(convolution())] == [()]


# -- seeds -----------------------------------------------------------------------------------------

PROGRAM = """
from tests.spaces.programs import convolution, fork, product, tile
import schedlang as sl
space = sl.Space([tile, fork])
for seed in range(6):
    print(space.sample(convolution(), seed=seed).trace.to_json())
for sketch in space.sketches(product()):
    print(sketch.trace.to_json())
"""


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    space = sl.Space([tile, fork])
    ours = [space.sample(convolution(), seed=seed).trace.to_json() for seed in range(6)]
    assert len(set(ours)) == 6
    ours += [sketch.trace.to_json() for sketch in space.sketches(product())]
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ours


def test_without_a_seed_samples_differ() -> None:
    """16 = 2**4 in three factors: 15 tiles; 20 equal draws have a probability of 15**-19."""
    space = sl.Space([tile(parts=3)])
    assert len({space.sample(product()).trace for _ in range(20)}) > 1


# -- stochastic composition ------------------------------------------------------------------------


def test_stochastic_composition_draws_a_module_at_each_location() -> None:
    one = sl.Stochastic([tile, last], probs=[1, 3])
    assert (one.name, one.at) == ("stochastic(tile|last)", "block")
    sch = sl.Space([one]).sample(product(), choices={one.name: "tile"})
    assert [i.kind.name for i in sch.trace.instructions] == [
        "get_block", "choose", "get_loops", "sample_perfect_tile", "split",
    ]  # fmt: skip
    assert [i.module for i in sch.trace.instructions[2:]] == [f"{one.name}/tile"] * 3
    taken = [sl.Space([one]).sample(product(), seed).trace.choices[one.name] for seed in range(400)]
    # Binomial with n = 400 and p = 0.75: 8 standard deviations.
    assert abs(taken.count("last") - 300) < 70


def test_stochastic_composition_at_the_root() -> None:
    @sl.module(at="root")
    def at_root(sch: sl.Schedule) -> None:
        note(sch, sch.get_block("root"), "here")

    one = sl.Stochastic([at_root, sl.Space([tile]).as_module("tiles")], name="either")
    assert (one.name, one.at) == ("either", "root")
    assert [sketch.choices for sketch in sl.Space([one]).sketches(product())] == [
        (("either", "at_root"),),
        (("either", "tiles"),),
    ]
    for wrong, why in (
        ([], "non-empty list of modules"),
        ([tile, "last"], "non-empty list of modules"),
        ([tile, at_root], "all work at blocks, or all at the root"),
    ):
        with pytest.raises(SpaceError, match=why):
            sl.Stochastic(wrong)  # type: ignore[arg-type]


def test_a_drawn_module_that_does_not_apply_leaves_nothing() -> None:
    space = sl.Space([sl.Stochastic([never, last], name="one")])
    for seed in range(10):
        trace = space.sample(convolution(), seed).trace
        marked = [i for i in trace.instructions if i.kind.name == "annotate"]
        assert len(marked) == len(trace.choices)
        assert set(trace.choices.values()) <= {"last"}
        replayed: Any = trace.replay()
        assert replayed.trace == trace


# -- what modules did ----------------------------------------------------------------------------


def test_a_space_explains_what_its_modules_did() -> None:
    space = sl.Space([tile, never, last.renamed("end")])
    assert list(map(str, space.explain(product()))) == [
        "tile at C: 4 instructions",
        "never at C: does not apply, never",
        "end at C: 2 instructions",
    ]
    visits = space.explain(convolution())
    assert [visit.module for visit in visits] == ["tile"] * 6 + ["never"] * 6 + ["end"] * 6
    assert [v.block for v in visits[:6]] == [v.block for v in visits[6:12]]
    assert [visit.reason for visit in visits[6:12]] == ["never"] * 6


def test_what_was_undone_is_no_instruction() -> None:
    @sl.module(at="root")
    def regrets(sch: sl.Schedule) -> None:
        note(sch, sch.get_block("C"), "seen")
        raise sl.NotApplicable

    (visit,) = sl.Space([regrets]).explain(product())
    assert (visit.block, visit.instructions, visit.reason) == ("", 0, "")
    assert str(visit) == "regrets at the root: does not apply"


def test_choices_of_an_explanation_follow_the_seed() -> None:
    space = sl.Space([sl.Stochastic([tile, never], name="either")])
    found = {space.explain(product(), seed)[0].reason for seed in range(20)}
    assert found == {None, "never"}
    assert space.explain(product(), 7) == space.explain(product(), 7)


# -- a space as a list of modules ------------------------------------------------------------------


def test_it_is_read_like_a_list() -> None:
    space = sl.Space([tile(parts=3), fork, last], name="mine")
    assert len(space) == 3 and len(sl.Space([])) == 0
    assert list(space) == list(space.modules)
    assert [module.name for module in reversed(list(space))] == ["last", "fork", "tile"]
    assert space[0] is space.modules[0] and space[-1] is last
    assert space["fork"] is fork and space["tile"].options == {"parts": 3}
    part = space[1:]
    assert isinstance(part, sl.Space) and names(part) == ["fork", "last"] and part.name == "mine"
    assert names(space[::-1]) == ["last", "fork", "tile"]
    with pytest.raises(IndexError):
        space[3]
    with pytest.raises(SpaceError, match="no module 'fok' in this space.*did you mean 'fork'"):
        space["fok"]
    with pytest.raises(TypeError):
        space[None]  # type: ignore[index]


def test_it_says_what_it_has() -> None:
    space = sl.Space([tile(parts=3), fork])
    assert "tile" in space and "fork" in space and "last" not in space
    assert tile in space, "whatever its options"
    assert fork in space and last not in space
    assert tile.renamed("fork") not in space and fork.renamed("way") not in space
    assert 0 not in space and None not in space


@sl.module(at="root", stage="finish")
def configured(sch: sl.Schedule, *, names: tuple[str, ...] = (), count: int = 4) -> None:
    """Has options."""


def test_it_prints_the_options_that_differ_from_their_defaults() -> None:
    many = configured.renamed("many")(names=tuple("abcdefghijklmnopqrst"), count=5)
    space = sl.Space([tile(parts=3), fork, configured(count=4), many], name="mine")
    assert (
        str(space)
        == """\
space 'mine' of 4 modules
   0  tile        at block
        (parts=3)
   1  fork        at block
   2  configured  at root   stage finish
   3  many        at root   stage finish
        (names=('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i',..., count=5)"""
    )


def test_lines_of_options_have_a_width() -> None:
    @sl.module(at="root")
    def wide(sch: sl.Schedule, *, a: str = "", b: str = "", c: str = "", d: int = 0) -> None:
        """Has long options."""

    lines = str(sl.Space([wide(a="x" * 90, b="y" * 40, c="z" * 40, d=1)])).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[2].startswith("        (a='xxx") and lines[3].startswith("         b='yyy")
    assert lines[4] == "         d=1)" and len(lines) == 5
