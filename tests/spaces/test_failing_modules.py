"""Modules that raise: who raised, at which block and line, and what goes on."""

from __future__ import annotations

import warnings

import pytest

import schedlang as sl
from schedlang.errors import InstructionError, SpaceError
from schedlang.spaces.sketch import FailedPath
from tests.spaces.programs import convolution, never, note, product, tile


@sl.module
def careless(sch: sl.Schedule, block: sl.BlockRV) -> None:
    note(sch, block, "begun")
    i, j = sch.get_loops(block)
    sch.reorder(j, i)


@sl.module
def refused(sch: sl.Schedule, block: sl.BlockRV) -> None:
    i = sch.get_loops(block)[0]
    sch.reorder(i, i)


@sl.module
def sometimes(sch: sl.Schedule, block: sl.BlockRV) -> None:
    way = sch.choose("way", ("left", "broken", "right", "refused"))
    if way == "broken":
        careless(sch, block)
    if way == "refused":
        refused(sch, block)


@sl.module
def last(sch: sl.Schedule, block: sl.BlockRV) -> None:
    note(sch, block, "last")


def place(module: sl.Module, line: int) -> str:
    """``file:line`` of a line of a module's function, counted from its decorator."""
    return f"{__file__}:{module.function.__code__.co_firstlineno + line}"


def test_an_explanation_names_what_failed_and_goes_on() -> None:
    visits = sl.Space([tile, careless, refused, last]).explain(product())
    assert [visit.module for visit in visits] == ["tile", "careless", "refused", "last"]
    assert [visit.error is None for visit in visits] == [True, False, False, True]
    wrong, unfit = visits[1:3]
    assert (wrong.block, wrong.instructions, wrong.reason) == ("C", 0, None)
    assert wrong.error is not None and unfit.error is not None
    assert wrong.error.startswith("ValueError: too many values to unpack")
    assert wrong.error.endswith(f"(in module careless at block C, line {place(careless, 3)})")
    assert str(wrong) == f"careless at C: failed, and was undone: {wrong.error}"
    assert unfit.error.startswith("InstructionError: reorder(loops=")
    assert unfit.error.endswith(f"(in module refused at block C, line {place(refused, 3)})")


def test_what_failed_is_undone_and_the_other_blocks_are_visited() -> None:
    visits = sl.Space([careless, last]).explain(convolution())
    assert [(visit.module, visit.error is None) for visit in visits] == [
        *[("careless", False)] * 6,
        *[("last", True)] * 6,
    ]
    assert [visit.instructions for visit in visits[6:]] == [2] * 6


def test_modules_inside_others_are_named_with_them() -> None:
    inner = sl.Space([tile, careless]).as_module("mine")
    [visit] = sl.Space([inner]).explain(product())
    assert visit.module == "mine" and visit.error is not None
    assert "(in module mine/careless at block C, line " in visit.error
    [visit] = sl.Space([sl.Stochastic([refused], name="one")]).explain(product())
    assert visit.error is not None and "(in module one/refused at block C, " in visit.error

    @sl.module(at="root")
    def at_root(sch: sl.Schedule) -> None:
        raise KeyError("a fault")

    [visit] = sl.Space([at_root]).explain(product())
    assert (
        visit.error
        == f"KeyError: 'a fault' (in module at_root at the root, line {place(at_root, 2)})"
    )


def test_the_line_is_the_users_also_below_other_packages() -> None:
    @sl.module
    def asks_numpy(sch: sl.Schedule, block: sl.BlockRV) -> None:
        import numpy as np

        np.reshape([1, 2, 3], (2, 2))

    [visit] = sl.Space([asks_numpy]).explain(product())
    assert visit.error is not None and visit.error.endswith(f"line {place(asks_numpy, 4)})")


@pytest.mark.parametrize("method", ["sample", "sketches"])
@pytest.mark.parametrize(("module", "kind"), [(careless, ValueError), (refused, InstructionError)])
def test_the_exception_keeps_its_type_and_gets_a_note(
    method: str, module: sl.Module, kind: type[Exception]
) -> None:
    space = sl.Space([tile, module])
    with pytest.raises(kind, match=f"in module {module.name} at block C, line {__file__}") as info:
        getattr(space, method)(product())
    assert type(info.value) is kind
    assert len(info.value.__notes__) == 1
    if isinstance(info.value, InstructionError):
        assert (info.value.module, info.value.block) == ("refused", "C")


def test_an_argument_that_cannot_be_read_names_the_module_too() -> None:
    @sl.module
    def confused(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.split(sch.get_loops(block), [2, 8])  # type: ignore[arg-type]

    with pytest.raises(InstructionError, match="takes a loop") as info:
        sl.Space([confused]).sample(product())
    assert (info.value.module, info.value.block) == ("confused", "C")


def test_not_applicable_gets_no_note() -> None:
    sch = sl.Schedule(product())
    with pytest.raises(sl.NotApplicable) as info:
        never(sch, sch.get_block("C"))
    assert not hasattr(info.value, "__notes__")


# -- sketches --------------------------------------------------------------------------------------


def test_sketches_of_the_other_paths_come() -> None:
    space = sl.Space([tile, sometimes, last])
    with pytest.warns(sl.FailedPathWarning) as caught:
        found = space.sketches(product())
    assert [sketch.choices for sketch in found] == [(("way", "left"),), (("way", "right"),)]
    broken, unfit = found.failed
    assert broken.choices == (("way", "broken"),) and unfit.choices == (("way", "refused"),)
    assert type(broken.error) is ValueError and type(unfit.error) is InstructionError
    assert str(broken).startswith("way=broken: ValueError: too many values to unpack")
    assert "(in module sometimes at block C, line " in str(broken)
    [warned] = caught
    assert str(warned.message).startswith("2 paths of choices gave no sketch; the first was way=br")
    assert warned.filename == __file__
    with pytest.warns(sl.FailedPathWarning):
        assert list(space.iterate_sketches(product())) == list(found)


def test_without_failures_nothing_is_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sl.Space([tile, never]).sketches(product()).failed == []


def test_choices_behind_a_failure_are_not_met_and_those_before_it_are_enumerated() -> None:
    @sl.module
    def two(sch: sl.Schedule, block: sl.BlockRV) -> None:
        first = sch.choose("first", (1, 2))
        second = sch.choose("second", (1, 2))
        if first == second:
            raise RuntimeError("equal")
        sch.choose("third", (1, 2))

    with pytest.warns(sl.FailedPathWarning):
        found = sl.Space([two]).sketches(product())
    taken = sorted("".join(option for _, option in sketch.choices) for sketch in found)
    assert taken == ["121", "122", "211", "212"]
    failed = sorted("".join(option for _, option in path.choices) for path in found.failed)
    assert failed == ["11", "22"]


def test_where_every_path_fails_the_first_exception_is_raised() -> None:
    runs: list[int] = []

    @sl.module
    def hopeless(sch: sl.Schedule, block: sl.BlockRV) -> None:
        for _ in range(20):
            sch.choose("bit", (0, 1))
        runs.append(len(runs))
        raise RuntimeError(f"run {runs[-1]}")

    with pytest.raises(RuntimeError, match="run 0"):
        sl.Space([hopeless]).sketches(product())
    assert len(runs) == 64, "a million paths, and none of them works"


def test_a_wrong_space_is_an_error_at_once() -> None:
    @sl.module
    def wrong(sch: sl.Schedule, block: sl.BlockRV) -> None:
        if sch.choose("way", (True, False)):
            tile(levels=3)

    with pytest.raises(SpaceError, match="module 'tile' has no option 'levels'"):
        sl.Space([wrong]).sketches(product())


def test_a_path_without_choices_says_so() -> None:
    assert str(FailedPath((), ValueError("x"))) == "without choices: ValueError: x"
    assert str(FailedPath((), ValueError())) == "without choices: ValueError"
