"""Sides that are timed in turns: order, failures, the end, and who is the fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import schedlang as sl
from schedlang.bench.peers import OURS, UNSCHEDULED, against_peers, time_in_turns
from schedlang.errors import SchedlangError
from schedlang.measurement import Candidate, Measurement, Measurer, Status
from schedlang.measurement.contest import Standing, hold_contest, standings

WORKLOAD = sl.workloads.matmul(16, 16, 16)


def test_rounds_go_there_and_back() -> None:
    taken: list[list[str]] = []

    def take_round(order: Sequence[str]) -> dict[str, float | None]:
        taken.append(list(order))
        return {name: float(len(taken)) for name in order}

    assert hold_contest("abc", take_round, 3) == dict.fromkeys("abc", [1.0, 2.0, 3.0])
    assert taken == [list("abc"), list("cba"), list("abc")]
    with pytest.raises(ValueError, match="rounds=0"):
        hold_contest("abc", take_round, 0)


def test_who_fails_is_out_and_the_others_go_on() -> None:
    def take_round(order: Sequence[str]) -> dict[str, float | None]:
        return {name: None if name == "b" and order[0] == "c" else 1.0 for name in order}

    assert hold_contest("abc", take_round, 4) == {"a": [1.0] * 4, "c": [1.0] * 4}
    assert hold_contest("ab", dict.fromkeys, 4) == {}


def test_a_round_without_time_does_not_count() -> None:
    rounds = iter([{"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, None])
    assert hold_contest("ab", lambda _: next(rounds), 9) == {"a": [1.0, 1.0], "b": [2.0, 2.0]}


def test_the_budget_and_certainty_end_it() -> None:
    def take_round(order: Sequence[str]) -> dict[str, float | None]:
        return {name: float(ord(name)) for name in order}

    def rounds(**given: Any) -> int:
        return len(hold_contest("ab", take_round, 40, **given)["a"])

    assert rounds(budget_seconds=0.0) == 2
    assert rounds(looks=(10, 20)) == 10
    assert rounds(enough=lambda number, _: number >= 50) == 50
    assert rounds() == 40


def test_standings_compare_each_side_with_ours() -> None:
    slower, few = [2.0 + 0.01 * k for k in range(8)], [1.0]
    ours = [1.0 + 0.01 * k for k in range(8)]
    own, other, single = standings({"ours": ours, "slower": slower, "few": few}, "ours")
    assert own.p_value is None and own.interval is not None and own.verdict(own) == ""
    assert other.p_value is not None and other.p_value < 0.01
    assert other.verdict(own) == "1.97x the time"
    assert single.p_value is None and single.interval is None
    assert Standing("far", [9.0], complete=False).verdict(own).startswith(">= 8.7x")


class Told(Measurer):
    """Tells the latency of each module: ``fails`` has none."""

    def __init__(self, *, reference: float = 2e-3, fails: bool = False) -> None:
        self.reference, self.fails = reference, fails
        self.together: list[int] = []

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        self.together.append(len(candidates))
        for one in candidates:
            plain = one.module is self.workload.mod
            status = Status.RUN_ERROR if self.fails and not plain else Status.OK
            seconds = (self.reference if plain else 1e-3,) if status is Status.OK else ()
            yield Measurement(one.id, status, seconds, message="" if seconds else "it broke")


class Constant:
    """A peer that always takes as long."""

    def latency(self) -> float:
        return 3e-3


def sides(measurer: Told, rounds: int = 4, *, unscheduled: bool = True) -> dict[str, Standing]:
    measurer.bind(WORKLOAD)
    mod = sl.default_space("cpu").sample(WORKLOAD, seed=0).mod
    peers = {"peer": Constant()}
    found = against_peers(measurer, mod, peers, rounds, unscheduled=unscheduled)
    assert found[0].name == OURS
    return {one.name: one for one in found}


def test_programs_are_timed_together_and_peers_in_turn() -> None:
    measurer = Told()
    found = sides(measurer)
    assert {name: one.samples for name, one in found.items()} == {
        OURS: [1e-3] * 4,
        UNSCHEDULED: [2e-3] * 4,
        "peer": [3e-3] * 4,
    }
    assert measurer.together == [1, 2, 2, 2, 2], "the reference, then both programs in each round"


def test_a_slow_unscheduled_program_is_timed_once() -> None:
    found = sides(Told(reference=5.0))
    assert found[UNSCHEDULED].samples == [5.0] and len(found[OURS].samples) == 4
    assert UNSCHEDULED not in sides(Told(), unscheduled=False)


def test_a_program_that_fails_ends_it() -> None:
    measurer = Told(fails=True)
    measurer.bind(WORKLOAD)
    mod = sl.default_space("cpu").sample(WORKLOAD, seed=0).mod
    with pytest.raises(SchedlangError, match="mine: it broke"):
        time_in_turns(measurer, {"mine": mod}, {}, 2)
