"""Mistakes in a user's module that no exception shows."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import (
    SpaceError,
    UnknownPlaceWarning,
    UnrecordedDrawWarning,
    UnrecordedWorkWarning,
)
from tests.spaces.programs import product, tile


def made(function: Callable[[sl.Schedule, sl.BlockRV], Any]) -> sl.Space:
    """A space of one module, which is called ``mine``."""
    return sl.Space([sl.Module(function, name="mine")])


@pytest.mark.parametrize(
    ("draw", "generator"),
    [
        (lambda: random.choice([2, 4]), "random"),
        (lambda: random.gauss(0, 1), "random"),
        (lambda: np.random.randint(4), "numpy.random"),
        (lambda: np.random.rand(), "numpy.random"),
    ],
)
def test_draws_that_no_trace_records_are_told_once(draw: Callable[[], Any], generator: str) -> None:
    def drawing(sch: sl.Schedule, block: sl.BlockRV) -> None:
        draw()
        sch.split(sch.get_loops(block)[0], [None, 2])

    space = made(drawing)
    with pytest.warns(UnrecordedDrawWarning) as caught:
        space.sample(product())
        space.sample(product())
    [warned] = caught
    assert f"module 'mine' draws by {generator}: " in str(warned.message)
    assert "draw by sch.sample_categorical" in str(warned.message)
    line = drawing.__code__.co_firstlineno
    assert (warned.filename, warned.lineno) == (__file__, line)


def test_the_module_that_draws_is_named_and_not_those_around_it() -> None:
    @sl.module
    def inner(sch: sl.Schedule, block: sl.BlockRV) -> None:
        random.random()

    @sl.module
    def outer(sch: sl.Schedule, block: sl.BlockRV) -> None:
        inner(sch, block)

    with pytest.warns(UnrecordedDrawWarning) as caught:
        sl.Space([sl.Stochastic([outer])]).sample(product())
    assert [str(one.message).split(" draws")[0] for one in caught] == ["module 'inner'"]


def test_nothing_is_said_of_what_is_right() -> None:
    def careful(sch: sl.Schedule, block: sl.BlockRV) -> Any:
        trial = sch.copy()
        trial.parallel(trial.get_loops(block)[0])
        np.random.default_rng(random.Random(0).getrandbits(8)).random()
        return sch.split(
            sch.get_loops(block)[0], sch.sample_perfect_tile(sch.get_loops(block)[0], 2)
        )

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        drawn = made(careful).sample(product())
        made(lambda sch, block: sch).sample(product())
        made(lambda sch, block: block).sample(product())
    assert not said and len(drawn.trace.decisions) == 1


def test_work_on_a_copy_is_lost_and_told() -> None:
    def copying(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch = sch.copy()
        sch.parallel(sch.get_loops(block)[0])

    with pytest.warns(UnrecordedWorkWarning, match="'mine' copies the schedule and leaves"):
        assert len(made(copying).sample(product()).trace) == 1


def test_blocks_that_are_returned_are_told() -> None:
    with pytest.warns(UnrecordedWorkWarning, match="'mine' returns blocks, which a space does not"):
        made(lambda sch, block: [block]).sample(product())


@pytest.mark.parametrize(
    "result",
    [
        lambda sch, block: sch.copy(),
        lambda sch, block: [sch],
        lambda sch, block: [sch.copy(), sch.copy()],
        lambda sch, block: (block, sch),
    ],
)
@pytest.mark.parametrize("around", [lambda one: one, lambda one: sl.Stochastic([one], name="mine")])
def test_schedules_that_are_returned_are_refused(
    result: Callable[[sl.Schedule, sl.BlockRV], Any], around: Callable[[sl.Module], sl.Module]
) -> None:
    space = sl.Space([around(sl.Module(result, name="mine"))])
    with pytest.raises(SpaceError, match="'mine' returned .*schedule.*let sch.choose take one"):
        space.sample(product())


def test_a_function_that_yields_or_waits_is_no_module() -> None:
    def yields(sch: sl.Schedule, block: sl.BlockRV) -> Iterator[None]:
        yield

    async def yields_later(sch: sl.Schedule, block: sl.BlockRV) -> Any:
        yield

    async def waits(sch: sl.Schedule, block: sl.BlockRV) -> None: ...

    for function, what in ((yields, "yields"), (yields_later, "yields"), (waits, "is asynch")):
        with pytest.raises(SpaceError, match=f"module '{function.__name__}' {what}"):
            sl.module(function)


def test_a_place_with_a_slip_of_the_pen_is_told() -> None:
    mine = sl.Module(lambda sch, block: None, name="mine", before="multi_level_tilling")
    with pytest.warns(UnknownPlaceWarning, match="did you mean 'multi_level_tiling'") as caught:
        sl.default_space("cpu") + mine
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sl.Space([tile]) + mine
