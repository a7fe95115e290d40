"""Closed-form schedules of programs that only move data: right, and two of each at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
from tvm import te, topi

import schedlang as sl
from schedlang.errors import NotApplicable
from schedlang.modules.cpu.draw_nests import move_data
from schedlang.search import Grid, Random
from schedlang.targets import CPUTarget
from tests.properties.programs import assert_same_numbers

TARGET = CPUTarget("cpu", cores=4)


def placeholder(*shape: int, name: str = "A", dtype: str = "float32") -> Any:
    return te.placeholder(shape, dtype, name=name)


def of(make: Callable[..., Any], *tensors: Any) -> list[Any]:
    return [*tensors, make(*tensors)]


PROGRAMS: Mapping[str, Callable[[], list[Any]]] = {
    "transpose": lambda: of(lambda a: topi.transpose(a, (0, 3, 1, 2)), placeholder(1, 24, 56, 64)),
    "transpose of odd extents": lambda: of(
        lambda a: topi.transpose(a, (0, 2, 1)), placeholder(3, 49, 197)
    ),
    "small transpose": lambda: of(topi.transpose, placeholder(6, 5)),
    "transpose of halves": lambda: of(topi.transpose, placeholder(128, 96, dtype="float16")),
    "heads": lambda: of(
        lambda a: topi.transpose(topi.reshape(a, (128, 12, 64)), (1, 2, 0)), placeholder(128, 768)
    ),
    "reshape": lambda: of(lambda a: topi.reshape(a, (384, 256)), placeholder(128, 12, 64)),
    "flat": lambda: of(lambda a: topi.reshape(a, (131072,)), placeholder(128, 1024)),
    "take": lambda: of(
        lambda a, i: topi.take(a, i, axis=0, mode="clip"),
        placeholder(500, 768),
        placeholder(128, name="i", dtype="int32"),
    ),
    "concat": lambda: of(
        lambda *a: topi.concatenate(a, 1),
        *(placeholder(197, n, name=f"A{n}") for n in (101, 60, 40)),
    ),
    "concat of channels": lambda: of(
        lambda *a: topi.concatenate(a, 1),
        *(placeholder(1, n, 28, 28, name=f"A{n}") for n in (16, 8)),
    ),
    "pad": lambda: of(
        lambda a: topi.nn.pad(a, [0, 0, 1, 1], [0, 0, 1, 1]), placeholder(1, 16, 28, 28)
    ),
    "slice": lambda: of(
        lambda a: topi.strided_slice(a, [0, 1], [64, 511], [1, 2]), placeholder(64, 512)
    ),
    "scalar": lambda: of(lambda a: topi.reshape(a, ()), placeholder(1)),
}


@cache
def workload(name: str) -> sl.Workload:
    return sl.workloads.from_te(PROGRAMS[name](), name=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_of_the_space_moves_the_same(name: str) -> None:
    for sketch in TARGET.movement_space().sketches(workload(name)):
        assert_same_numbers(sketch.trace.replay().mod, workload(name), sketch.choices)


@pytest.mark.parametrize("strategy", [Random, Grid])
def test_a_search_ends_after_two_proposals(strategy: Any) -> None:
    for name in ("small transpose", "pad"):
        search = strategy(TARGET.movement_space(), workload(name), 0)
        asked = search.ask(20)
        assert 1 <= len(asked) <= 2
        assert search.finished or not search.ask(20)


def loops_of(sch: sl.Schedule) -> str:
    return str(sch.mod.script())


def mode(name: str, **choices: Any) -> sl.Schedule:
    return TARGET.movement_space().sample(workload(name), seed=0, choices=choices)


def test_transposes_are_tiled_along_both_sides() -> None:
    text = loops_of(mode("transpose", lanes_along="stores"))
    assert "T.parallel(" in text and "T.vectorized(14)" in text
    assert "T.vectorized(16)" in loops_of(mode("transpose", lanes_along="loads"))
    assert "partition_hint" in loops_of(mode("transpose of odd extents", lanes_along="stores"))
    assert "T.vectorized(64)" not in loops_of(mode("transpose"))


def test_small_programs_stay_serial() -> None:
    for name in ("small transpose", "take", "pad", "slice"):
        few = TARGET.movement_space().sample(workload(name), seed=0)
        assert ("threads" in few.trace.choices) == (name == "take")
    assert "parallel" not in loops_of(mode("small transpose"))
    assert "parallel" not in loops_of(mode("take", threads=False))
    assert "parallel" in loops_of(mode("take", threads=True))
    assert "parallel" in loops_of(mode("flat", threads=True))


def test_a_concatenation_is_cut_at_its_borders() -> None:
    assert "pragma_loop_partition_hint" in loops_of(mode("concat", threads=False))
    assert "pragma_loop_partition_hint" not in loops_of(mode("concat of channels"))
    assert "pragma_loop_partition_hint" not in loops_of(mode("pad"))


def test_it_does_not_apply_to_what_computes() -> None:
    with pytest.raises(NotApplicable, match="computes"):
        move_data(sl.Schedule(sl.workloads.matmul(8, 8, 8)))
    with pytest.raises(sl.SpaceError, match="cores"):
        move_data(sl.Schedule(workload("flat")), cores=0)
